"""``vgw operator``: Gateways on Kubernetes, as the environment says."""

import argparse
import asyncio
import os
import sys
from pathlib import Path

from varnish_gateway.cli import logs
from varnish_gateway.kube.connection import connection
from varnish_gateway.operator.run import run_operator
from varnish_gateway.operator.settings import from_environment

NESTING = 12_000
"""The API server takes objects that are nested 10,000 deep, and one of them must not be the end of us."""

_DESCRIPTION = """\
Watch Gateways, HTTPRoutes and what they refer to; write the configuration of the gateway pods
and everything that they need; say in their statuses what became of it. Settings come from the
environment.

  GATEWAY_CLASS_NAME      the GatewayClass whose Gateways are served (varnish)
  GATEWAY_IMAGE           image of the gateway pods
  IMAGE_PULL_SECRETS      names of Secrets for it, joined with ","
  LEADER_ELECTION         false: there is no other operator (true)
  LEASE_SECONDS           how long after the end of a leader that could not say so another leads (15)
  POD_NAMESPACE, POD_NAME where the Lease is, and who holds it
  METRICS_ADDR            /metrics (:8080)
  HEALTH_ADDR             /healthz and /readyz (:8081)
  CHAPERONE_CLUSTER_ROLE  the ClusterRole by which pods read EndpointSlices
  LOG_LEVEL               debug, info, warning or error (info)

Inside a cluster the pod's ServiceAccount is used, elsewhere KUBECONFIG or ~/.kube/config.
"""


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the command line."""
    command = commands.add_parser(
        "operator",
        help="serve the Gateways of a Kubernetes cluster",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument("--kubeconfig", type=Path, metavar="FILE", help="use this instead of KUBECONFIG")
    command.add_argument("--context", metavar="NAME", help="a context of the kubeconfig")
    command.add_argument("--log-format", choices=("text", "json"), default="json", help="default: json")
    command.set_defaults(execute=execute)


def execute(arguments: argparse.Namespace) -> int:
    """Run until a signal ends it."""
    sys.setrecursionlimit(NESTING)
    settings = from_environment(os.environ)
    logs.set_up(log_format=arguments.log_format, level=settings.log_level)
    where = connection(os.environ, kubeconfig=arguments.kubeconfig, context=arguments.context)
    return asyncio.run(run_operator(settings, where))
