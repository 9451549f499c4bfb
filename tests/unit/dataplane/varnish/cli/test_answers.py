from varnish_gateway.dataplane.varnish.cli import answers

VCL_LIST = """[ 2, ["vcl.list", "-j"], 1794781809.554,
  {"status": "available", "state": "auto", "temperature": "warm", "busy": 0, "name": "b", "labels": 1},
  {"status": "available", "state": "label", "temperature": "warm", "busy": 0, "name": "lab", "label": {"name": "b"}},
  {"status": "active", "state": "auto", "temperature": "init", "name": "c", "new in some version": 1}
]"""


def test_a_list_of_vcls():
    b, label, c = answers.items(VCL_LIST, answers.VclEntry)
    assert (b.name, b.labels, b.label) == ("b", 1, None)
    assert label.label == answers.LabelTarget("b")
    assert (c.status, c.busy) == ("active", 0)


def test_a_parameter_keeps_the_type_of_its_value():
    text = '[2, ["param.show"], 1.0, {"name": "auto_restart", "value": true, "default": "on"}]'
    assert answers.single(text, answers.Parameter).value is True
    text = '[2, ["param.show"], 1.0, {"name": "default_ttl", "value": 120.000, "units": "seconds"}]'
    assert answers.single(text, answers.Parameter).value == 120.0


def test_pong():
    assert answers.pong("PONG 1794781808 1.0") == (1794781808.0, "1.0")


def test_listen_addresses():
    text = "http-80 127.0.0.1 41831\nhttp-80 ::1 41831\nsock /run/x -\n"
    assert answers.listen_addresses(text) == (
        ("http-80", "127.0.0.1", 41831),
        ("http-80", "::1", 41831),
        ("sock", "/run/x", 0),
    )
