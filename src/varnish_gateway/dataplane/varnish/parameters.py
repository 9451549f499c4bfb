"""The parameters that we start varnishd with, by what the installed varnishd offers.

In:   the list of its parameters, as ``varnishd -x parameter`` writes it.
Out:  words for its command line.
"""

import asyncio
import contextlib
import logging
import re
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Sequence

# A head may take 32 KB (http_req_size, http_resp_size) in whatever lines it comes, as with other
# gateways; the workspaces hold it, its rewritten copy and the table of its headers. A WebSocket
# may be silent for an hour.
ALWAYS = (
    "http_max_hdr=128",
    "http_req_hdr_len=32k",
    "http_resp_hdr_len=32k",
    "pipe_timeout=3600",
    "workspace_client=96k",
    "workspace_backend=128k",
)
# A client that resets each stream at once has varnishd fetch without end, at no cost of its own
# (CVE-2023-44487). So there is no HTTP/2 without a limit on such resets.
HTTP2 = ("feature=+http2", "h2_rapid_reset=1", "h2_rapid_reset_limit=100", "h2_rapid_reset_period=60")

_LIMIT = re.compile(r"^h2_rapid_reset_limit$", re.MULTILINE)

log = logging.getLogger(__name__)


def limits_rapid_resets(offered: str) -> bool:
    """Whether a varnishd with these parameters closes a connection that resets streams too fast."""
    return _LIMIT.search(offered) is not None


def parameters(offered: str) -> tuple[str, ...]:
    """Return words for the command line of a varnishd that offers these parameters."""
    chosen = (*ALWAYS, *(HTTP2 if limits_rapid_resets(offered) else ()))
    return tuple(word for parameter in chosen for word in ("-p", parameter))


def report_http2(words: Sequence[str]) -> None:
    """Log that a varnishd with these words has no HTTP/2."""
    if not set(HTTP2) <= set(words):
        log.warning(
            "HTTP/2 is off on listeners without TLS: varnishd has no limit on rapid resets (h2_rapid_reset_limit); "
            "install a newer one, or accept the risk with the argument -p feature=+http2"
        )


async def installed_parameters() -> tuple[str, ...]:
    """Return words for the command line of the installed varnishd."""
    return parameters(await _offered())


async def _offered() -> str:
    """Return varnishd's list; nothing where it can't be had: a start says why."""
    with contextlib.suppress(OSError):
        process = await asyncio.create_subprocess_exec(
            *("varnishd", "-x", "parameter"), stdin=DEVNULL, stdout=PIPE, stderr=DEVNULL
        )
        output, _ = await process.communicate()
        return output.decode(errors="replace") if process.returncode == 0 else ""
    return ""
