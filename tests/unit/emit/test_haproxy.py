import pytest

from varnish_gateway.dataplane.tls.admin import MOST_PAYLOAD
from varnish_gateway.emit.haproxy import Bind, Clients, Machine, admin_socket, config, crt_list, list_line, slots
from varnish_gateway.ir import wire

ONE = wire.Certificate(file="1.pem", names=("www.example.com", "*.example.com"))
ANY = wire.Certificate(file="2.pem", names=("*",))
MACHINE = Machine(1000, 2)


def test_the_first_certificate_has_a_slot_for_everybody_and_one_for_its_names():
    (default, first), (named, second) = slots(443, [ONE])
    assert (default.name, default.names, first) == ("443.default.pem", ("*",), ONE)
    assert (named.names, second) == (ONE.names, ONE)


def test_a_certificate_for_everybody_has_one_slot():
    assert [slot.names for slot, _ in slots(443, [ANY])] == [("*",)]
    assert [slot.names for slot, _ in slots(443, [ANY, ONE])] == [("*",), ONE.names]


def test_slots_follow_from_names_and_not_from_content():
    other = wire.Certificate(file="9.pem", names=ONE.names)
    assert [slot for slot, _ in slots(443, [ONE])] == [slot for slot, _ in slots(443, [other])]


def test_certificates_that_share_their_names_have_slots_of_their_own():
    both = slots(443, [ONE, wire.Certificate(file="9.pem", names=ONE.names)])
    assert len({slot.name for slot, _ in both}) == 3


def test_a_list_names_files_and_servers():
    default, named = (slot for slot, _ in slots(443, [ONE]))
    assert crt_list([default, named]) == f"tls/443.default.pem *\ntls/{named.name} www.example.com *.example.com\n"


@pytest.mark.parametrize(("count", "length", "portions"), [(500, 9, 1), (501, 9, 2), (2048, 9, 5), (300, 253, 3)])
def test_a_certificate_with_many_names_has_several_lines(count, length, portions):
    names = tuple(f"{number:0{length}}" for number in range(count))
    many = wire.Certificate(file="9.pem", names=names)
    (_, _), *filled = slots(443, [many, ONE])
    assert [certificate for _, certificate in filled] == [many] * portions + [ONE]
    assert tuple(name for slot, _ in filled[:-1] for name in slot.names) == names
    assert len({slot.name for slot, _ in filled}) == portions + 1
    assert max(len(list_line(slot)) for slot, _ in filled) < MOST_PAYLOAD


def test_a_name_that_is_too_long_for_any_line_is_alone():
    (_, _), (slot, _) = slots(443, [wire.Certificate(file="9.pem", names=("a" * 99999,))])
    assert len(slot.names) == 1


def test_each_port_has_its_frontend_and_its_varnishd_socket():
    text = config(
        [
            Bind(443, ("ipv4@*:443", "ipv6@[::]:443"), "https-443.sock"),
            Bind(8443, ("ipv4@127.0.0.1:8443",), "https-8443.sock"),
        ],
        MACHINE,
        admin_socket(7, "secret"),
    )
    assert "frontend https-443\n  bind ipv4@*:443,ipv6@[::]:443 v6only ssl crt-list tls/443.list alpn h2" in text
    assert "server varnishd unix@https-8443.sock send-proxy-v2 proxy-v2-options ssl,cert-cn,ssl-cipher" in text
    assert "stats socket unix@tls/admin-7-secret.sock mode 600 level admin" in text
    assert "verify" not in text


def test_validation_has_no_tickets_and_its_fallback_lets_everybody_in():
    text = config(
        [Bind(443, ("a:443",), "s", Clients("c.pem")), Bind(444, ("a:444",), "s", Clients("c.pem", True))], MACHINE, "a"
    )
    strict, insecure = (line for line in text.splitlines() if line.startswith("  bind "))
    assert strict.endswith(" no-tls-tickets verify required ca-file tls/c.pem")
    assert " no-tls-tickets verify optional ca-ignore-err all crt-ignore-err all ca-file tls/c.pem" in insecure


def test_a_plain_port_has_no_tls_and_states_its_own_port():
    text = config([Bind(8081, ("ipv4@*:8081",), "http-later.sock", is_tls=False)], MACHINE, "a")
    _, _, sections = text.partition("\nfrontend ")
    assert (
        sections
        == """\
http-8081
  bind ipv4@*:8081 v6only
  tcp-request connection set-dst-port int(8081)
  default_backend http-8081

backend http-8081
  server varnishd unix@http-later.sock send-proxy-v2 proxy-v2-options ssl,cert-cn,ssl-cipher,authority
"""
    )


@pytest.mark.parametrize(("drain_seconds", "finish"), [(5, "600s"), (900.5, "901s")])
def test_former_workers_are_few_and_have_time_and_never_less_than_a_drain(drain_seconds, finish):
    text = config([], MACHINE, "a", drain_seconds)
    assert f"  hard-stop-after {finish}\n" in text
    assert "  mworker-max-reloads 8\n" in text


def test_only_root_gives_the_worker_to_another_user():
    assert "user" not in config([], MACHINE, "a")
    assert "  user haproxy\n  group haproxy\n" in config([], Machine(1000, 2, "haproxy"), "a")
