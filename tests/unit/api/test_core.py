from support.builders.objects import obj, service


def test_service_type_defaults_to_cluster_ip():
    assert service().spec.type == "ClusterIP"


def test_port_defaults_to_tcp_without_a_name():
    (port,) = service(ports=[{"port": 80}]).spec.ports
    assert (port.name, port.protocol, port.app_protocol) == ("", "TCP", None)


def test_secret_is_printed_without_its_data():
    assert "c2VjcmV0" not in repr(obj("Secret", "tls", group="", data={"tls.key": "c2VjcmV0"}))


def test_config_map_holds_text():
    assert obj("ConfigMap", "vcl", group="", data={"user.vcl": "x"}).data == {"user.vcl": "x"}
