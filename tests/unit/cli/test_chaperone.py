"""vgw chaperone."""

import json

import pytest

from varnish_gateway.chaperone import run
from varnish_gateway.cli.main import main
from varnish_gateway.runtime import logs


@pytest.fixture
def started(monkeypatch):
    """Collect what chaperones are started with, instead of starting them."""
    seen = []

    async def note(settings, connection) -> int:
        seen.append((settings, connection))
        return 3

    monkeypatch.setattr(run, "run_chaperone", note)
    monkeypatch.setattr(logs, "set_up", lambda **_: None)
    return seen


def test_settings_come_from_the_environment(monkeypatch, started, tmp_path):
    monkeypatch.setenv("WORK_DIR", str(tmp_path))
    monkeypatch.setenv("VARNISH_LISTEN", "http-80=:80,http")
    assert main(["chaperone"]) == 3
    ((settings, connection),) = started
    assert settings.work_dir == tmp_path
    assert connection is None


def test_configmap_needs_an_api_server(monkeypatch, started, tmp_path):
    kubeconfig = tmp_path / "config"
    cluster = {"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}
    context = {"name": "x", "context": {"cluster": "c", "user": "u"}}
    user = {"name": "u", "user": {"token": "t"}}
    kubeconfig.write_text(
        json.dumps({"clusters": [cluster], "contexts": [context], "users": [user], "current-context": "x"})
    )
    monkeypatch.setenv("CONFIGMAP_NAME", "gw-vcl")
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
    assert main(["chaperone"]) == 3
    ((settings, connection),) = started
    assert settings.configmap_name == "gw-vcl"
    assert connection.server == "https://127.0.0.1:1"


def test_help_lists_cluster_settings(capsys):
    with pytest.raises(SystemExit):
        main(["chaperone", "--help"])
    assert "CONFIGMAP_NAME" in capsys.readouterr().out


def test_unusable_setting_is_rejected(monkeypatch, capsys):
    monkeypatch.setenv("VARNISH_LISTEN", "nonsense")
    assert main(["chaperone"]) == 2
    assert capsys.readouterr().err.startswith("vgw: VARNISH_LISTEN: 'nonsense' ")
