"""Which VCLs are loaded, refused, kept; varnishd is a few lines here."""

from types import SimpleNamespace

import pytest

from varnish_gateway import errors
from varnish_gateway.dataplane.quarantine import ROUTINE, Quarantine
from varnish_gateway.dataplane.varnish.cli import CliError, CliStatus
from varnish_gateway.dataplane.varnish.vcl import KEPT_VCLS, VclLoader, digest


class Varnishd:
    """Holds VCLs by name; ``fault`` is what the next load ends with."""

    def __init__(self):
        self.held: dict[str, str] = {}
        self.active = ""
        self.loads = 0
        self.fault: CliError | None = None

    async def vcl_load(self, name, path):
        self.loads += 1
        if self.fault is not None:
            raise self.fault
        self.held[name] = path

    async def vcl_use(self, name):
        self.active = name

    async def vcl_list(self):
        return [
            SimpleNamespace(name=name, status="active" if name == self.active else "available", labels=0)
            for name in self.held
        ]

    async def vcl_discard(self, name):
        del self.held[name]


@pytest.fixture
def varnishd():
    return Varnishd()


@pytest.fixture
def loader(varnishd, tmp_path):
    return VclLoader(varnishd, tmp_path, Quarantine(lambda: None, ROUTINE))


async def test_unchanged_vcl_is_loaded_once(loader, varnishd):
    name = await loader.ensure("a")
    assert varnishd.active == loader.active == name
    assert await loader.ensure("a") is None
    assert varnishd.loads == 1


async def test_rejected_vcl_is_compiled_once_and_leaves_no_file(loader, varnishd, tmp_path):
    await loader.ensure("good")
    loader.accepted()
    varnishd.fault = CliError("vcl.load", CliStatus.PARAMETER, "no such word")
    for _ in range(2):
        with pytest.raises(errors.VclRejected, match="no such word"):
            await loader.ensure("bad")
    assert varnishd.loads == 2
    assert (loader.last_good, len(list(tmp_path.iterdir()))) == ("good", 1)
    loader.release()
    varnishd.fault = None
    assert await loader.ensure("bad")


async def test_lost_connection_does_not_quarantine_the_vcl(loader, varnishd):
    varnishd.fault = CliError("vcl.load", CliStatus.COMMUNICATION, "gone")
    with pytest.raises(CliError):
        await loader.ensure("a")
    varnishd.fault = None
    assert await loader.ensure("a")


async def test_new_varnishd_loads_the_last_good_vcl_again(loader, tmp_path):
    await loader.ensure("a")
    loader.accepted()
    loader.forget()
    assert (loader.active, loader.last_good, list(tmp_path.iterdir())) == (None, "a", [])
    assert await loader.ensure(loader.last_good)


async def test_the_oldest_go_and_the_one_in_use_stays(loader, varnishd, tmp_path):
    names = [await loader.ensure(f"text {number}") for number in range(KEPT_VCLS + 8)]
    await loader.discard_old()
    kept = names[-KEPT_VCLS - 1 :]
    assert list(varnishd.held) == kept
    assert sorted(path.stem for path in tmp_path.iterdir()) == sorted(kept)


@pytest.mark.parametrize("kept", [0, 1, 9])
async def test_at_most_the_kept_number_of_vcls_stays(loader, varnishd, kept):
    names = [await loader.ensure(f"text {number}") for number in range(4)]
    await loader.discard_old(kept)
    assert list(varnishd.held) == names[-kept - 1 :]


async def test_vcls_of_others_are_left_alone(loader, varnishd):
    varnishd.held = {f"boot-{number}": "" for number in range(9)}
    await loader.ensure("a")
    await loader.discard_old()
    assert len(varnishd.held) == 10


async def test_reason_is_equal_for_every_attempt(loader, varnishd):
    reasons = set()
    for attempt in (1, 2):
        name = f"vgw-{attempt}-{digest('a')}"
        words = f'VCL "{name}" failed: vcl_{name}.170000000{attempt}.5/vgc.so: no such file'
        varnishd.fault = CliError("vcl.load", CliStatus.PARAMETER, words)
        loader.release()
        with pytest.raises(errors.VclRejected) as refusal:
            await loader.ensure("a")
        reasons.add(str(refusal.value))
    assert reasons == {f'VCL "{digest("a")}" failed: {digest("a")}/vgc.so: no such file'}
