"""``vgw operator``: run the operator."""

import argparse
import sys
from pathlib import Path

from varnish_gateway.cli.options import Commands, add_log_format

NESTING = 12_000
"""Python's recursion limit: the API server accepts objects that are nested 10,000 levels deep."""

_DESCRIPTION = """\
Watch Gateways, HTTPRoutes and the objects that they reference. Create the gateway pods and
everything that the pods need, write their configuration, and report the result in the status of
Gateways and routes. Settings come from the environment.

  GATEWAY_CLASS_NAME      the GatewayClass whose Gateways this operator serves (varnish)
  GATEWAY_IMAGE           image of the gateway pods
  IMAGE_PULL_SECRETS      names of Secrets to pull it with, joined with ","
  LEADER_ELECTION         false: this is the only operator (true)
  LEASE_SECONDS           how long another operator waits after the leader crashed (15)
  POD_NAMESPACE, POD_NAME the namespace of the Lease, and its holder
  METRICS_ADDR            /metrics (:8080)
  HEALTH_ADDR             /healthz and /readyz (:8081)
  INVALIDATION_ADDR       /gateways/NAMESPACE/NAME/invalidate, such as :8082 (not served)
  CHAPERONE_CLUSTER_ROLE  the ClusterRole that lets gateway pods read EndpointSlices
  LOG_LEVEL               debug, info, warning or error (info)

Inside a cluster the operator uses the pod's ServiceAccount, elsewhere KUBECONFIG or ~/.kube/config.
"""


def add_to(commands: "Commands[argparse.ArgumentParser]") -> None:
    """Add the command to the command line."""
    command = commands.add_parser(
        "operator",
        help="serve the Gateways of a Kubernetes cluster",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument("--kubeconfig", type=Path, metavar="FILE", help="use this file instead of KUBECONFIG")
    command.add_argument("--context", metavar="NAME", help="a context of the kubeconfig")
    add_log_format(command, "json")
    command.set_defaults(execute=execute)


def execute(arguments: argparse.Namespace) -> int:
    """Run until SIGTERM or SIGINT."""
    import asyncio
    import os

    from varnish_gateway.kube.connection import connection
    from varnish_gateway.operator.run import run_operator
    from varnish_gateway.operator.settings import from_environment
    from varnish_gateway.runtime import logs

    sys.setrecursionlimit(NESTING)
    settings = from_environment(os.environ)
    logs.set_up(log_format=arguments.log_format, level=settings.log_level)
    api_server = connection(os.environ, kubeconfig=arguments.kubeconfig, context=arguments.context)
    return asyncio.run(run_operator(settings, api_server))
