"""The parameters that we start every varnishd with, and those that the installed one has to offer.

In:   how many threads the kernel allows; the list of varnishd's parameters, as ``varnishd -x parameter`` writes it.
Out:  words for its command line; why it can't have the arguments of a class.
"""

import asyncio
import contextlib
import re
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Sequence

from varnish_gateway import errors
from varnish_gateway.dataplane.process.task_limit import task_limit
from varnish_gateway.ir.arguments import PLAINTEXT_HTTP2

# A head may take 32 KB (http_req_size, http_resp_size) in whatever lines it comes, as with other
# gateways; the workspaces hold it, its rewritten copy and the table of its headers. That of a
# thread holds the pieces of a head: without room for all of them varnishd would write some before
# ghost limits the time for that. A WebSocket may be silent for an hour. A full cache of small
# objects makes room for a large one: with varnishd's own limit of 50 evictions the response would
# be cut off.
ALWAYS = (
    "http_max_hdr=128",
    "http_req_hdr_len=32k",
    "http_resp_hdr_len=32k",
    "nuke_limit=100000",
    "pipe_timeout=3600",
    "workspace_client=96k",
    "workspace_backend=128k",
    "workspace_thread=5k",
)

# varnishd's defaults: two pools of 5,000 threads at most, and of 100 at least.
THREAD_POOLS = 2
MOST_THREADS = 5000
FEWEST_THREADS = 100
OTHER_TASKS = 200
"""For all else: varnishd's own threads, the TLS terminator, this process, and the compiler of VCL."""

_LIMIT = re.compile(r"^h2_rapid_reset_limit$", re.MULTILINE)


def parameters() -> tuple[str, ...]:
    """Return words for the command line of every varnishd on this machine."""
    return (*(word for parameter in ALWAYS for word in ("-p", parameter)), *thread_limit(task_limit()))


def thread_limit(tasks: int | None) -> tuple[str, ...]:
    """Return words that keep varnishd within so many tasks.

    Shares of workers are parts of ``thread_pool_max``: threads that can't be created would be shared out too.
    """
    most = MOST_THREADS if tasks is None else (tasks - OTHER_TASKS) // THREAD_POOLS
    return () if most >= MOST_THREADS else ("-p", f"thread_pool_max={max(most, FEWEST_THREADS)}")


def limits_rapid_resets(offered: str) -> bool:
    """Whether a varnishd with these parameters closes a connection that resets streams too fast."""
    return _LIMIT.search(offered) is not None


async def missing_limit(extra_args: Sequence[str]) -> errors.ChildExited | None:
    """Return why the installed varnishd can't speak HTTP/2 without TLS, where a class asks for it."""
    if not set(PLAINTEXT_HTTP2) <= set(extra_args):
        return None
    offered = await _offered()
    if not offered or limits_rapid_resets(offered):
        return None
    return errors.ChildExited(
        "http2.plaintext of the GatewayClassParameters needs a varnishd that limits rapid resets, and this one has "
        "no h2_rapid_reset_limit; remove the field, or install a newer varnishd"
    )


async def _offered() -> str:
    """Return varnishd's list; nothing where it can't be had: a start says why."""
    with contextlib.suppress(OSError):
        process = await asyncio.create_subprocess_exec(
            *("varnishd", "-x", "parameter"), stdin=DEVNULL, stdout=PIPE, stderr=DEVNULL
        )
        output, _ = await process.communicate()
        return output.decode(errors="replace") if process.returncode == 0 else ""
    return ""
