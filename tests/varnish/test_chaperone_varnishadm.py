"""Every command against a real varnishd."""

import pytest

from support.varnish.dataplane import must_serve, running
from support.waiting import until_async
from varnish_gateway import errors
from varnish_gateway.dataplane.change import Change
from varnish_gateway.dataplane.varnish.cli import CliError, CliStatus

VCL = "vcl 4.1;\nbackend default none;\n"
PROBED = f"""{VCL}
backend origin {{ .host = "127.0.0.1"; .port = "1"; .probe = {{ .interval = 1h; }} }}
sub vcl_recv {{ set req.backend_hint = origin; }}
"""


@pytest.fixture
async def admin():
    async with running() as data_plane:
        await must_serve(data_plane, Change(vcl=PROBED))
        yield data_plane.admin


async def test_vcl_commands_load_use_and_discard(admin):
    await admin.vcl_inline("mine", VCL + '# a "quoted" word, a \\ and an ü\n', "warm")
    assert '# a "quoted" word, a \\ and an ü' in await admin.vcl_show("mine")
    assert "VCL.SHOW" in await admin.vcl_show("mine", verbose=True)
    await admin.vcl_label("label", "mine")
    entries = {entry.name: entry for entry in await admin.vcl_list()}
    assert (entries["mine"].labels, entries["mine"].temperature) == (1, "warm")
    assert entries["label"].label.name == "mine"
    assert {entry.name: entry.deps for entry in await admin.vcl_deps()}["label"] == ("mine",)
    await admin.vcl_use("label")
    await admin.vcl_use(next(name for name in entries if name.startswith("vgw-")))
    await admin.vcl_discard("label")
    await admin.vcl_state("mine", "cold")
    await admin.vcl_discard("mine")
    assert "mine" not in {entry.name for entry in await admin.vcl_list()}


async def test_rejected_command_raises_with_its_status(admin):
    with pytest.raises(CliError, match="nothing") as raised:
        await admin.vcl_use("nothing")
    assert raised.value.status == CliStatus.PARAMETER
    with pytest.raises(errors.AdminError, match="Cannot read file"):
        await admin.vcl_load("x", "/no/such/file with spaces.vcl")


async def test_parameters_are_read_and_set(admin):
    assert (await admin.param_set("default_ttl", "10")).value == 10
    assert [parameter.name for parameter in await admin.param_list(changed=True) if parameter.name == "default_ttl"]
    await admin.param_reset("default_ttl")
    assert (await admin.param_show("default_ttl")).value == 120
    assert len(await admin.param_list()) > 50
    with pytest.raises(CliError, match="Unknown parameter"):
        await admin.param_show("nothing")


async def test_backend_health_is_listed(admin):
    backends = await admin.backend_list(probes=True)
    name = next(name for name in backends if name.endswith(".origin"))
    assert (backends[name].type, backends[name].admin_health) == ("backend", "probe")
    await admin.backend_set_health(name, "sick")
    assert (await admin.backend_list(name))[name].admin_health == "sick"


async def test_bans_hold_any_value(admin):
    await admin.ban(("req.url", "~", '^/a "b" [.]c'), ("req.http.x", "!=", "word"))
    specs = [ban.spec for ban in await admin.ban_list()]
    assert any('"b"' in spec and "!= word" in spec for spec in specs), specs


async def test_remaining_commands_return_their_answers(admin):
    assert {device.name for device in await admin.storage_list()} >= {"Transient"}
    assert await admin.status() == "running"
    pids = await admin.pid()
    assert pids.worker
    assert pids.worker != pids.master
    assert (await admin.ping()).version == "1.0"
    assert "Varnish Cache CLI" in await admin.banner()
    assert "vcl.load" in {command.request for command in await admin.help()}
    assert await admin.panic_show() is None
    with pytest.raises(CliError) as raised:
        await admin.panic_clear()
    assert raised.value.status == CliStatus.CANNOT


async def test_tls_commands_fail_on_builds_without_tls(admin):
    if "tls.cert.list" in {command.request for command in await admin.help()}:
        assert isinstance(await admin.tls_cert_list(), tuple)
        return
    for call in (admin.tls_cert_list(), admin.tls_cert_commit(), admin.tls_cert_load("a", "/b.pem")):
        with pytest.raises(CliError) as raised:
            await call
        assert raised.value.status == CliStatus.UNKNOWN


async def test_worker_stops_and_starts(admin):
    before = (await admin.pid()).worker
    await admin.stop()

    async def runs() -> bool:
        return await admin.status() == "running"

    await until_async(runs, "the data plane starts it again")
    assert (await admin.pid()).worker != before


async def test_restarted_varnishd_reconnects_after_quit(admin):
    await admin.quit()
    assert (await admin.ping()).version == "1.0"
