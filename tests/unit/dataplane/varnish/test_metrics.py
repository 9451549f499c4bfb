from pathlib import Path

from varnish_gateway.dataplane.varnish.counters import parse, read_counters
from varnish_gateway.dataplane.varnish.metrics import cache_lines

COUNTERS = {
    "MAIN.n_object": 3,
    "MAIN.n_expired": 4,
    "MAIN.n_lru_nuked": 5,
    "MAIN.n_lru_limited": 6,
    "SMF.s0.g_bytes": 100,
    "SMF.s0.g_space": 0,
    "SMF.s0.c_fail": 2,
    "SMA.Transient.g_bytes": 7,
    "SMA.Transient.g_space": 0,
    "SMA.Transient.c_fail": 0,
}


def test_every_store_has_its_fill_level():
    lines = [*cache_lines(COUNTERS)]
    assert 'vgw_cache_used_bytes{store="s0"} 100' in lines
    assert 'vgw_cache_free_bytes{store="s0"} 0' in lines
    assert 'vgw_cache_full_total{store="s0"} 2' in lines
    assert "vgw_cache_objects 3" in lines
    assert "vgw_cache_expired_total 4" in lines
    assert "vgw_cache_evictions_total 5" in lines
    assert "vgw_cache_eviction_limits_total 6" in lines


def test_store_without_a_limit_is_not_reported_as_full():
    lines = [*cache_lines(COUNTERS)]
    assert 'vgw_cache_used_bytes{store="Transient"} 7' in lines
    assert not any("vgw_cache_free_bytes" in line and "Transient" in line for line in lines)


def test_counters_that_varnishd_lacks_are_left_out():
    assert all(line.startswith("#") for line in cache_lines({}))


def test_json_of_varnishstat_is_read():
    assert parse(b'{"version": 1, "counters": {"MAIN.n_object": {"description": "x", "value": 2}}}') == {
        "MAIN.n_object": 2
    }
    assert parse(b"Could not get hold of varnishd") is None


async def test_no_varnishstat_is_no_fault(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert await read_counters(tmp_path) is None


async def test_silent_varnishstat_is_killed(tmp_path, monkeypatch):
    program = tmp_path / "varnishstat"
    program.write_text(f"#!/bin/sh\necho $$ >{tmp_path}/pid\nexec /bin/sleep 60\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("varnish_gateway.dataplane.varnish.counters.SECONDS", 0.5)
    assert await read_counters(tmp_path) is None
    assert not Path("/proc", (tmp_path / "pid").read_text().strip()).exists()
