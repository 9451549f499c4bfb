"""A file of tokens that changes while it is used."""

import errno
import json
import logging
import shutil

import pytest

from support.directories import replace
from varnish_gateway.dataplane.invalidation.token_file import LARGEST, TokenFile

OLD, NEW = "a" * 16, "b" * 16


def document(**tokens: str) -> str:
    return json.dumps({"tokens": [{"name": name, "token": token} for name, token in tokens.items()]})


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "tokens.json"
    path.write_text(document(ci=OLD, cms=NEW))
    return path


@pytest.fixture
def tokens(path):
    return TokenFile(path, "SETTING")


def holder(tokens: TokenFile, authorization: str | None) -> str | None:
    assert tokens.has_any()
    token = tokens.holder(authorization)
    return None if token is None else token.name


@pytest.mark.parametrize(
    ("authorization", "name"),
    [
        (f"Bearer {OLD}", "ci"),
        (f"bearer   {NEW} ", "cms"),
        (None, None),
        ("", None),
        (OLD, None),
        (f"Basic {OLD}", None),
        ("Bearer", None),
        (f"Bearer {OLD}x", None),
        (f"Bearer {OLD[:-1]}", None),
        ("Bearer \udcff", None),
    ],
)
def test_token_is_compared_as_a_whole(tokens, authorization, name):
    assert holder(tokens, authorization) == name


def test_there_are_no_tokens_without_a_file(tmp_path, caplog):
    assert not TokenFile(None, "SETTING").has_any()
    assert caplog.records == []
    missing = TokenFile(tmp_path / "missing.json", "SETTING")
    assert [missing.has_any(), missing.has_any()] == [False, False]
    message = f"SETTING: {tmp_path}/missing.json: the file is not there, so no client may invalidate"
    assert [record.getMessage() for record in caplog.records] == [message], "once"


def test_changed_file_counts_at_once(tokens, path):
    assert holder(tokens, f"Bearer {OLD}") == "ci"
    replace(path, document(cms=NEW))
    assert holder(tokens, f"Bearer {OLD}") is None
    path.write_text(document(ci=OLD, cms=NEW, more="c" * 16))
    assert holder(tokens, f"Bearer {OLD}") == "ci"
    path.unlink()
    assert not tokens.has_any()
    assert tokens.holder(f"Bearer {OLD}") is None
    path.write_text(document(ci=OLD))
    assert holder(tokens, f"Bearer {OLD}") == "ci"


def test_file_that_may_be_read_later_is_read_then(tokens, path, monkeypatch, caplog):
    """New permissions leave its content, and so its signature, alone."""

    def forbidden(*_):
        raise PermissionError(errno.EACCES, "Permission denied")

    with monkeypatch.context() as patched:
        patched.setattr(type(path), "open", forbidden)
        assert [tokens.has_any(), tokens.has_any()] == [False, False]
    assert [record.getMessage() for record in caplog.records] == [
        f"SETTING: {path}: Permission denied; the tokens from before count"
    ]
    assert holder(tokens, f"Bearer {OLD}") == "ci"


def test_mounted_secret_is_followed(tmp_path):
    """The kubelet replaces a link to a directory."""
    for number, token in enumerate((OLD, NEW)):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "tokens.json").write_text(document(ci=token))
    (tmp_path / "..data").symlink_to("0")
    (tmp_path / "tokens.json").symlink_to("..data/tokens.json")
    tokens = TokenFile(tmp_path / "tokens.json", "SETTING")
    assert holder(tokens, f"Bearer {OLD}") == "ci"
    (tmp_path / "new").symlink_to("1")
    (tmp_path / "new").replace(tmp_path / "..data")
    shutil.rmtree(tmp_path / "0")
    assert holder(tokens, f"Bearer {OLD}") is None
    assert holder(tokens, f"Bearer {NEW}") == "ci"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (document(ci=OLD)[:-1], "Input data was truncated"),
        (document(ci="short-and-secret"[:12]), "tokens[0].token: write 16 letters"),
        (f'{{"tokens": "{"x" * LARGEST}"}}', f"it has more than {LARGEST} bytes"),
    ],
    ids=["half", "weak", "large"],
)
def test_wrong_file_is_logged_once_and_changes_nothing(tokens, path, caplog, content, reason):
    assert holder(tokens, f"Bearer {OLD}") == "ci"
    replace(path, content)
    assert [holder(tokens, f"Bearer {OLD}") for _ in range(3)] == ["ci"] * 3
    (record,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    message = record.getMessage()
    assert message.startswith(f"SETTING: {path}: {reason}")
    assert message.endswith("the tokens from before count")


def test_log_and_memory_have_no_token(tokens, path, caplog):
    with caplog.at_level(logging.DEBUG):
        holder(tokens, f"Bearer {OLD}")
        replace(path, document(ci=OLD, cms=OLD))
        holder(tokens, f"Bearer {OLD}")
    assert len(caplog.records) == 2
    assert OLD not in caplog.text
    assert tokens.holder(f"Bearer {OLD}").token == "", "only hashes stay"
