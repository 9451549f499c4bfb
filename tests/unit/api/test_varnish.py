from support.builders.objects import VARNISH_API, obj


def test_user_vcl_key_defaults_to_user_vcl():
    spec = {"userVCLConfigMapRef": {"name": "vcl", "namespace": "default"}}
    assert (
        obj("GatewayClassParameters", "p", group=VARNISH_API, spec=spec).spec.user_vcl_config_map_ref.key == "user.vcl"
    )


def test_pod_shaped_fields_are_copied_unchanged():
    spec = {"resources": {"requests": {"cpu": "1"}}, "tolerations": [{"key": "a"}], "nodeSelector": {"disk": "ssd"}}
    got = obj("GatewayClassParameters", "p", group=VARNISH_API, spec=spec).spec
    assert got.resources == {"requests": {"cpu": "1"}}
    assert got.tolerations == ({"key": "a"},)
    assert got.node_selector == {"disk": "ssd"}
