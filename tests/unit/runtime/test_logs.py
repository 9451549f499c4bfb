"""The log, for people and for machines."""

import contextvars
import json
import logging

import pytest

from varnish_gateway.runtime import logs
from varnish_gateway.runtime.logs import GATEWAY


@pytest.fixture(autouse=True)
def _put_back():
    root = logging.getLogger()
    before = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = before


def test_json_log_has_one_object_per_line(capsys):
    logs.set_up(log_format="json")
    logging.getLogger("a.b").warning("%s went away", "varnishd", extra={"pid": 5})
    line = json.loads(capsys.readouterr().err)
    assert line.pop("time").endswith("+00:00")
    assert line == {"level": "warning", "logger": "a.b", "message": "varnishd went away", "fields": {"pid": 5}}


def test_text_log_is_plain_without_a_terminal(capsys):
    logs.set_up()
    logging.getLogger("a").info("hello", extra={"pid": 5})
    line = capsys.readouterr().err
    assert line.endswith(" info    hello\n")
    assert "\x1b" not in line, "no colours where there is no terminal"


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_log_names_the_gateway(capsys, log_format):
    logs.set_up(log_format=log_format)
    context = contextvars.copy_context()
    context.run(GATEWAY.set, "default/cafe")
    context.run(logging.getLogger("a").info, "hello")
    line = capsys.readouterr().err
    if log_format == "json":
        assert json.loads(line)["fields"] == {"gateway": "default/cafe"}
    else:
        assert line.endswith("default/cafe: hello\n")


def test_exception_keeps_its_traceback(capsys):
    logs.set_up(log_format="json")
    try:
        int("x")
    except ValueError:
        logging.getLogger("a").exception("oh")
    assert "ValueError: invalid literal" in json.loads(capsys.readouterr().err)["exception"]


def test_records_below_the_level_are_dropped(capsys):
    logs.set_up(level="warning")
    logging.getLogger("a").info("hidden")
    assert capsys.readouterr().err == ""
