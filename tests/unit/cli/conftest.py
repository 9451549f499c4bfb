"""A small gateway in files."""

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

CAFE = """\
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: cafe}
spec:
  gatewayClassName: varnish
  listeners:
  - {name: http, port: 8080, protocol: HTTP}
  - {name: admin, port: 8081, protocol: HTTP, hostname: admin.example.com}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: cafe}
spec:
  parentRefs: [{name: cafe, sectionName: http}]
  hostnames: [cafe.example.com]
  rules:
  - name: tea
    matches: [{path: {type: PathPrefix, value: /tea}}]
    filters:
    - type: RequestHeaderModifier
      requestHeaderModifier: {set: [{name: x-a, value: b}], remove: [x-c]}
    - type: URLRewrite
      urlRewrite: {hostname: origin.example.com, path: {type: ReplacePrefixMatch, replacePrefixMatch: /t}}
    backendRefs: [{name: tea, port: 80, weight: 9}, {name: green, port: 80, weight: 1}]
  - matches: [{path: {type: PathPrefix, value: /old}}]
    filters: [{type: RequestRedirect, requestRedirect: {statusCode: 301, hostname: new.example.com}}]
  - matches: [{path: {type: PathPrefix, value: /}, method: GET, headers: [{name: x-v, value: "1"}]}]
    backendRefs: [{name: tea, port: 80}]
---
apiVersion: v1
kind: Service
metadata: {name: tea}
spec: {ports: [{port: 80}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: tea-1, labels: {kubernetes.io/service-name: tea}}
addressType: IPv4
endpoints: [{addresses: [127.0.0.1]}, {addresses: [127.0.0.2]}]
ports: [{port: 9101}]
---
apiVersion: v1
kind: Service
metadata: {name: green}
spec: {type: ExternalName, externalName: localhost, ports: [{port: 80}]}
"""


@pytest.fixture
def cafe(tmp_path):
    path = tmp_path / "cafe.yaml"
    path.write_text(CAFE)
    return path


class Gateway(BaseHTTPRequestHandler):
    """Answers with ``server.answer`` and keeps what it was asked."""

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.seen.append((self.path, self.headers["Authorization"], json.loads(body)))
        status, content = self.server.answer
        self.send_response(status)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_): ...


@pytest.fixture
def gateway():
    with HTTPServer(("127.0.0.1", 0), Gateway) as server:
        server.seen, server.answer = [], (200, b'{"objects":[12]}')
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()
