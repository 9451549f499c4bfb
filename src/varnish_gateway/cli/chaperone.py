"""``vgw chaperone``: run varnishd in a gateway pod."""

import argparse

from varnish_gateway.cli.options import Commands, add_log_format

_DESCRIPTION = """\
Start and supervise one varnishd, and keep its configuration up to date with a Gateway in a
cluster, or with files. All settings come from the environment.

  VARNISH_LISTEN         sockets: name=address:port,http or https-…=address:port,https joined with ";"
  VARNISH_HTTP_ADDR      one HTTP socket, used if VARNISH_LISTEN is not set (:80)
  WORK_DIR               working directory of the chaperone, and of varnishd unless VARNISH_DIR is set
  VARNISH_ADMIN_PORT, VARNISH_STORAGE, MEMORY_REQUEST, VARNISHD_EXTRA_ARGS, HEALTH_ADDR, DRAIN_SECONDS, LOG_LEVEL,
  INVALIDATION_TOKENS_FILE, …

in a cluster (found by KUBECONFIG, the pod's ServiceAccount, or ~/.kube/config):
  CONFIGMAP_NAME         the Gateway's ConfigMap, {gateway}-vcl; if set, the configuration comes from the cluster
  NAMESPACE              the namespace of the ConfigMap
  SECRET_NAME            the Gateway's Secret, {gateway}-tls
  DRAIN_DELAY_SECONDS    how long new connections are still accepted after SIGTERM (5)

from files:
  VCL_PATH               main.vcl
  ROUTING_CONFIG_PATH    routing.json
  GHOST_CONFIG_PATH      ghost.json: written from routing.json, or read if there is no routing.json
  ENDPOINTS_PATH         EndpointSlices of the Services in routing.json; without them they have no endpoints
  TLS_CERT_DIR           tls.json and the certificates that it names, for https sockets

The configuration reference in docs/ lists all of them.
"""


def add_to(commands: "Commands[argparse.ArgumentParser]") -> None:
    """Add the command to the command line."""
    command = commands.add_parser(
        "chaperone",
        help="run varnishd in a gateway pod, configured by the environment",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_log_format(command, "json")
    command.set_defaults(execute=execute)


def execute(arguments: argparse.Namespace) -> int:
    """Run until SIGTERM or SIGINT."""
    import asyncio
    import os

    from varnish_gateway.chaperone.run import run_chaperone
    from varnish_gateway.dataplane.process.memory import memory
    from varnish_gateway.dataplane.settings import from_environment
    from varnish_gateway.kube.connection import connection
    from varnish_gateway.runtime import logs

    settings = from_environment(os.environ, memory())
    logs.set_up(log_format=arguments.log_format, level=settings.log_level)
    api_server = connection(os.environ) if settings.configmap_name else None
    return asyncio.run(run_chaperone(settings, api_server))
