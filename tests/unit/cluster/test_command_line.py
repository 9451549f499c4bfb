import pytest

from cluster.__main__ import read


@pytest.mark.parametrize(
    ("words", "handed_on"),
    [
        (["kubectl", "-n", "shop", "exec", "deploy/web", "--", "varnishadm", "-n", "x"], slice(1, None)),
        (["client", "curl", "--help"], slice(1, None)),
        (["client"], slice(1, None)),
        (["up"], slice(0, 0)),
        (["conformance", "--run-test", "HTTPRouteWeight"], slice(0, 0)),
    ],
)
def test_arguments_of_other_programs_are_handed_on_as_they_are(words, handed_on):
    parsed = read(words)
    assert parsed.arguments == words[handed_on]
    assert parsed.run.__name__ == words[0]


def test_options_of_a_command_are_its_own():
    assert read(["conformance", "--run-test", "HTTPRouteWeight"]).run_test == "HTTPRouteWeight"
    assert read(["down", "--force"]).force
