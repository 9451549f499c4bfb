"""Rules for code at the C boundary of the VMOD that no compiler checks."""

import re

from support.source_tree import ROOT

VARNISH = ROOT / "ghost" / "vmod-ghost" / "src" / "varnish"
PANIC_TESTS = ROOT / "tests" / "varnish" / "test_vmod_faults.py"

_ENTRY = re.compile(
    r'\bfence\(\s*[^"(]*(?:\([^"]*\),\s*)?"([a-z0-9-]+)"|Function::new\("([a-z]+)"|ENTRY: &\'static str = "([a-z-]+)"'
)
# A reference that says: nothing else uses this memory now.
_EXCLUSIVE = re.compile(r"&mut (?:\*|sys::)|\.as_mut\(\)|\.as_mut_ptr\(\)|ptr::from_mut")


def code() -> str:
    return "\n".join(path.read_text() for path in sorted(VARNISH.rglob("*.rs")))


def test_a_panic_is_tested_in_every_entry_point():
    entries = {name for names in _ENTRY.findall(code()) for name in names if name}
    assert {"recv", "init", "pull", "http1pipe", "healthy"} <= entries
    tested = set(re.findall(r'"([a-z0-9-]+)"', PANIC_TESTS.read_text()))
    assert entries - tested == set()


def test_nothing_claims_varnishds_memory_for_itself():
    """Only varnishd decides: it has pointers of its own to all of it, and uses them in any call of ghost's."""
    found = [line.strip() for line in code().splitlines() if _EXCLUSIVE.search(line) and "//" not in line]
    assert [line for line in found if "buffer.as_mut_ptr()" not in line] == []
