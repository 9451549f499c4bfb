"""vgw chaperone."""

from varnish_gateway.cli import chaperone
from varnish_gateway.cli.main import main


def test_settings_come_from_the_environment(monkeypatch, tmp_path):
    seen = []

    async def note(settings) -> int:
        seen.append(settings)
        return 3

    monkeypatch.setattr(chaperone, "run_chaperone", note)
    monkeypatch.setattr(chaperone.logs, "set_up", lambda **_: None)
    monkeypatch.setenv("WORK_DIR", str(tmp_path))
    monkeypatch.setenv("VARNISH_LISTEN", "http-80=:80,http")
    assert main(["chaperone"]) == 3
    assert seen[0].work_dir == tmp_path


def test_a_setting_that_can_not_be_used(monkeypatch, capsys):
    monkeypatch.setenv("VARNISH_LISTEN", "nonsense")
    assert main(["chaperone"]) == 2
    assert capsys.readouterr().err.startswith("vgw: VARNISH_LISTEN: 'nonsense' ")
