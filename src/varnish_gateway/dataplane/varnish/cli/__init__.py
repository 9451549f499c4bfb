"""varnishd's command line (CLI), over a connection that varnishd itself opens.

``Admin`` listens on loopback; varnishd calls it (``-M``), is authenticated by the secret
file that both know (``-S``) and from then on takes commands. Commands are serialised,
each has a time-out, and each has a typed method with a typed answer.
"""

from varnish_gateway.dataplane.varnish.cli.commands import Admin
from varnish_gateway.dataplane.varnish.cli.protocol import CliError, CliStatus

__all__ = ["Admin", "CliError", "CliStatus"]
