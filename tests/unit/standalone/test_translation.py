"""Files translated once."""

from support.manifests import USER_VCL_CLASS, gateway, user_vcl
from varnish_gateway.api import Key
from varnish_gateway.standalone.translation import translate_files

CAFE = Key("Gateway", "default", "cafe")


def translate(tmp_path, **files: str):
    for name, text in files.items():
        (tmp_path / f"{name}.yaml").write_text(text)
    return translate_files([str(tmp_path)])


def test_gateway_class_is_assumed(tmp_path):
    found = translate(tmp_path, gateway=gateway("cafe", 8080))
    assert [listener.socket for listener in found.gateways[CAFE].listeners] == ["http-8080"]
    assert found.gateways[CAFE].listen == "ghost-reload=127.0.0.1:1969,http;http-8080=:8080,http"


def test_user_vcl_is_read_from_a_config_map(tmp_path):
    found = translate(tmp_path, gateway=gateway("cafe", 8080), vcl=USER_VCL_CLASS, map=user_vcl("# mine"))
    assert "# mine" in found.gateways[CAFE].vcl


def test_missing_user_vcl_leaves_no_vcl(tmp_path):
    assert translate(tmp_path, gateway=gateway("cafe", 8080), vcl=USER_VCL_CLASS).gateways[CAFE].vcl is None
