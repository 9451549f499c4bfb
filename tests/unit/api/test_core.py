from support.builders.objects import obj, service


def test_a_service_is_of_type_cluster_ip_unless_it_says_otherwise():
    assert service().spec.type == "ClusterIP"


def test_a_port_is_tcp_and_unnamed_unless_it_says_otherwise():
    (port,) = service(ports=[{"port": 80}]).spec.ports
    assert (port.name, port.protocol, port.app_protocol) == ("", "TCP", None)


def test_what_a_secret_holds_is_not_kept():
    assert "c2VjcmV0" not in repr(obj("Secret", "tls", group="", data={"tls.key": "c2VjcmV0"}))


def test_a_config_map_holds_text():
    assert obj("ConfigMap", "vcl", group="", data={"user.vcl": "x"}).data == {"user.vcl": "x"}
