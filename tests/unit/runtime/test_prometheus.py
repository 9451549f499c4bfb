from varnish_gateway.runtime.prometheus import family, sample


def test_metric_has_its_help_and_type():
    assert list(family("x_total", "counter", "All of x.", [({}, 1), ({"a": "b"}, 2.5)])) == [
        "# HELP x_total All of x.",
        "# TYPE x_total counter",
        "x_total 1",
        'x_total{a="b"} 2.5',
    ]


def test_label_values_are_escaped():
    assert sample("x", {"a": 'b"\\\n'}, 1) == 'x{a="b\\"\\\\\\n"} 1'
