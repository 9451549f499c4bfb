import pytest

from varnish_gateway import errors
from varnish_gateway.dataplane.tls import haproxy


@pytest.mark.parametrize(
    ("script", "problem", "message"),
    [
        ("echo '[ALERT]    (7) : too many words' >&2; exit 1", errors.TlsRejected, "too many words"),
        ("exit 1", errors.TlsRejected, "gives no reason"),
        ("kill -9 $$", errors.ChildExited, "signal SIGKILL"),
    ],
)
async def test_killed_check_rejects_nothing(tmp_path, monkeypatch, script, problem, message):
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setattr(haproxy, "PROGRAM", str(program))
    with pytest.raises(problem, match=message):
        await haproxy.check(tmp_path)
