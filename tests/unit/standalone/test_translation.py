"""Files translated once."""

from varnish_gateway.api import Key
from varnish_gateway.standalone.translation import translate_files

GATEWAY = """\
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: cafe}
spec: {gatewayClassName: varnish, listeners: [{name: http, port: 8080, protocol: HTTP}]}
"""

WITH_USER_VCL = """\
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
spec: {userVCLConfigMapRef: {name: vcl, namespace: default}}
"""

CONFIG_MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: vcl}\ndata: {user.vcl: '# mine'}\n"
CAFE = Key("Gateway", "default", "cafe")


def translate(tmp_path, **files: str):
    for name, text in files.items():
        (tmp_path / f"{name}.yaml").write_text(text)
    return translate_files([str(tmp_path)])


def test_the_class_is_assumed(tmp_path):
    found = translate(tmp_path, gateway=GATEWAY)
    assert [listener.socket for listener in found.gateways[CAFE].listeners] == ["http-8080"]
    assert found.gateways[CAFE].listen == "ghost-reload=127.0.0.1:1969,http;http-8080=:8080,http"


def test_user_vcl_comes_from_a_config_map(tmp_path):
    found = translate(tmp_path, gateway=GATEWAY, vcl=WITH_USER_VCL, map=CONFIG_MAP)
    assert "# mine" in found.gateways[CAFE].vcl


def test_user_vcl_that_is_missing_leaves_no_vcl(tmp_path):
    assert translate(tmp_path, gateway=GATEWAY, vcl=WITH_USER_VCL).gateways[CAFE].vcl is None
