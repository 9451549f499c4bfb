"""Who may invalidate in a gateway pod: clients of the file, and the operator."""

import json

import pytest

from varnish_gateway.dataplane.invalidation.pod_tokens import PodTokens
from varnish_gateway.dataplane.invalidation.token_file import TokenFile

OPERATOR, CLIENT = "f" * 64, "0123456789abcdef"


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "tokens.json"
    path.write_text(json.dumps({"tokens": [{"name": "ci", "token": CLIENT}]}))
    return TokenFile(path, "SETTING")


def test_both_the_operator_and_clients_have_their_tokens(file):
    tokens = PodTokens(file, lambda: OPERATOR)
    assert tokens.has_any()
    assert tokens.holder(f"Bearer {OPERATOR}").name == "the operator"
    assert not tokens.holder(f"Bearer {OPERATOR}").is_scoped
    assert tokens.holder(f"Bearer {CLIENT}").name == "ci"
    for wrong in (None, "", "Bearer", f"Basic {OPERATOR}", f"Bearer {OPERATOR[1:]}", "Bearer \udcff\u20ac"):
        assert tokens.holder(wrong) is None


@pytest.mark.parametrize("operator_token", ["", "short"])
def test_empty_or_short_token_of_the_operator_lets_nobody_in(operator_token):
    tokens = PodTokens(TokenFile(None, "SETTING"), lambda: operator_token)
    assert not tokens.has_any()
    assert tokens.holder(f"Bearer {operator_token}") is None


def test_operators_token_counts_as_soon_as_the_secret_was_read():
    current = [""]
    tokens = PodTokens(TokenFile(None, "SETTING"), lambda: current[0])
    assert (tokens.has_any(), tokens.holder(f"Bearer {OPERATOR}")) == (False, None)
    current[0] = OPERATOR
    assert tokens.has_any()
    assert tokens.holder(f"Bearer {OPERATOR}") is not None
    assert tokens.setting == "SETTING"
