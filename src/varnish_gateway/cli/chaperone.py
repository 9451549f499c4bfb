"""``vgw chaperone``: varnishd and its configuration in one pod, as the environment says."""

import argparse
import asyncio
import os

from varnish_gateway.chaperone.run import run_chaperone
from varnish_gateway.cli import logs
from varnish_gateway.dataplane.settings import from_environment
from varnish_gateway.kube.connection import connection

_DESCRIPTION = """\
Start and supervise one varnishd, and keep it at the configuration that a cluster or files give
it. All settings come from the environment.

  VARNISH_LISTEN         sockets: name=address:port,http or https-…=address:port,https joined with ";"
  VARNISH_HTTP_ADDR      one HTTP socket, where VARNISH_LISTEN is not given (:80)
  WORK_DIR               where the chaperone works, and varnishd unless VARNISH_DIR names another place
  VARNISH_ADMIN_PORT, VARNISH_STORAGE, VARNISHD_EXTRA_ARGS, HEALTH_ADDR, DRAIN_SECONDS, LOG_LEVEL, …

in a cluster (by KUBECONFIG, as a pod, or by ~/.kube/config):
  CONFIGMAP_NAME         the Gateway's ConfigMap, {gateway}-vcl; this turns the cluster on
  NAMESPACE              where it is
  SECRET_NAME            the Gateway's Secret, {gateway}-tls
  DRAIN_DELAY_SECONDS    how long new connections are still expected after SIGTERM (5)

from files:
  VCL_PATH               main.vcl
  ROUTING_CONFIG_PATH    routing.json
  GHOST_CONFIG_PATH      where ghost.json is written, or read where there is no routing
  ENDPOINTS_PATH         EndpointSlices of the Services in routing.json; without them they have no endpoints
  TLS_CERT_DIR           tls.json and the files that it names, for https sockets

docs/reference/configuration.md has them all.
"""


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the command line."""
    command = commands.add_parser(
        "chaperone",
        help="run one varnishd as a cluster or plain files say, set up by the environment",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument("--log-format", choices=("text", "json"), default="json", help="default: json")
    command.set_defaults(execute=execute)


def execute(arguments: argparse.Namespace) -> int:
    """Run until a signal ends it."""
    settings = from_environment(os.environ)
    logs.set_up(log_format=arguments.log_format, level=settings.log_level)
    api_server = connection(os.environ) if settings.configmap_name else None
    return asyncio.run(run_chaperone(settings, api_server))
