"""A pod of a Gateway without a gateway in it: what it answers to invalidations is fixed.

In:   the Gateway of a harness, and an answer.
Out:  the pod, with the invalidations that it gets.
"""

import contextlib
import http.server
import json
import threading
from collections.abc import Iterator
from typing import Any

from support.kube.documents import Document
from support.kube.operator_harness import OperatorHarness
from support.kube.pods.gateway_pod import GatewayPod
from varnish_gateway.emit.manifests.containers import HEALTH_PORT


class StubPod(GatewayPod):
    """``is_observed``: the operator has asked it what it serves."""

    is_observed = False


@contextlib.contextmanager
def stub_pod(harness: OperatorHarness, answer: Document | None) -> Iterator[tuple[StubPod, list[Document]]]:
    """Have a pod and the invalidations that it gets. One without an answer closes connections."""
    seen: list[Document] = []
    pod = StubPod(harness)

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            seen.append({"authorization": self.headers["Authorization"], **body})
            if answer is not None:
                content = json.dumps(answer).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

        def do_GET(self) -> None:
            pod.is_observed = True
            self.send_error(503)

        def log_message(self, *_: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer((pod.address, HEALTH_PORT), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    pod.create()
    try:
        yield pod, seen
    finally:
        harness.delete("Pod", pod.name)
        server.shutdown()
        server.server_close()
