from varnish_gateway.dataplane.change import Change
from varnish_gateway.dataplane.process.sockets import parse_listen
from varnish_gateway.ir import Tls

SOCKETS = parse_listen("http-80=:80,http")


def test_merge_keeps_fields_that_later_changes_leave_unset():
    first = Change(vcl="a", sockets=SOCKETS, extra_args=("-x",), tls=Tls(), generation="1")
    assert first.merge(Change(), Change(listed=frozenset({"n"}))) == Change(
        vcl="a", sockets=SOCKETS, extra_args=("-x",), tls=Tls(), generation="1", listed=frozenset({"n"})
    )


def test_merge_lets_the_latest_value_win():
    merged = Change(vcl="a", extra_args=("-x",), generation="1").merge(Change(vcl="b"), Change(extra_args=(), vcl="c"))
    assert merged == Change(vcl="c", extra_args=(), generation="1")


def test_merge_unites_mappings_and_later_entries_win():
    merged = Change(routing={0: b"a", 1: b"b"}, listed=frozenset({"m"})).merge(
        Change(routing={1: None, 2: b"c"}, listed=frozenset({"n"}), remembered={"n/s:80": ()})
    )
    assert merged.routing == {0: b"a", 1: None, 2: b"c"}
    assert (merged.listed, merged.remembered) == ({"m", "n"}, {"n/s:80": ()})


def test_merge_changes_none_of_its_parts():
    first = Change(routing={0: b"a"})
    first.merge(Change(routing={0: None}))
    assert first == Change(routing={0: b"a"})
