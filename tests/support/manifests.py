"""Manifests as a user writes them.

In:   names, ports, weights.
Out:  YAML.
"""

USER_VCL_CLASS = """\
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: varnish}
spec:
  controllerName: varnish-software.com/gateway
  parametersRef: {group: gateway.varnish-software.com, kind: GatewayClassParameters, name: ours}
---
apiVersion: gateway.varnish-software.com/v1alpha1
kind: GatewayClassParameters
metadata: {name: ours}
spec:
  userVCLConfigMapRef: {name: user-vcl, namespace: default}
"""
"""A class whose VCL is that of ``user_vcl``."""


def user_vcl(*lines: str) -> str:
    text = "\n    ".join(lines)
    return f"""\
apiVersion: v1
kind: ConfigMap
metadata: {{name: user-vcl}}
data:
  user.vcl: |
    {text}
"""


def gateway(name: str, *ports: int) -> str:
    listeners = "".join(f"\n  - {{name: http-{port}, port: {port}, protocol: HTTP}}" for port in ports)
    return f"""\
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {{name: {name}}}
spec:
  gatewayClassName: varnish
  listeners:{listeners}
"""


def route(name: str, parent: str, host: str, **weights: int) -> str:
    """Return a route to Services by weight."""
    refs = ", ".join(f"{{name: {service}, port: 80, weight: {weight}}}" for service, weight in weights.items())
    return f"""\
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {{name: {name}}}
spec:
  parentRefs: [{{name: {parent}}}]
  hostnames: [{host}]
  rules: [{{backendRefs: [{refs}]}}]
"""


def service(name: str, *ports: int) -> str:
    """Return a Service and an EndpointSlice for each of its ports of this machine."""
    slices = "".join(
        f"""\
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {{name: {name}-{place}, labels: {{kubernetes.io/service-name: {name}}}}}
addressType: IPv4
ports: [{{name: http, port: {port}}}]
endpoints: [{{addresses: [127.0.0.1]}}]
"""
        for place, port in enumerate(ports)
    )
    return f"""\
apiVersion: v1
kind: Service
metadata: {{name: {name}}}
spec: {{ports: [{{name: http, port: 80}}]}}
{slices}"""
