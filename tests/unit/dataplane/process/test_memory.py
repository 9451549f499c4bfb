import os

import pytest

from varnish_gateway.dataplane.process.memory import Memory, memory

PHYSICAL = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def found(directory, own, **files) -> Memory:
    """Ask where these files hold limits; a name has "__" for "/"."""
    for name, text in files.items():
        path = directory / name.replace("__", "/")
        path = path.with_name(path.name.replace("memory_", "memory."))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (directory / "own").write_text(own)
    return memory(directory / "own", directory)


@pytest.mark.parametrize(
    ("own", "files", "limit"),
    [
        ("0::/\n", {"memory_max": "1048576\n"}, 1048576),
        ("0::/\n", {"memory_max": "max\n"}, None),
        ("0::/a/b\n", {"a__memory_max": "4096\n", "a__b__memory_max": "max\n"}, 4096),
        ("4:memory:/docker/one\n0::/\n", {"memory__memory_limit_in_bytes": "8192\n"}, 8192),
        ("4:memory:/\n", {"memory__memory_limit_in_bytes": "9223372036854771712\n"}, None),
        ("0::/\n", {"memory_max": f"{PHYSICAL}\n"}, None),
        ("0::/\n", {}, None),
    ],
    ids=["version 2", "no limit", "of a parent", "version 1", "version 1 without", "beyond the machine", "no files"],
)
def test_limit_of_the_cgroup_counts(tmp_path, own, files, limit):
    assert found(tmp_path, own, **files) == Memory(limit, PHYSICAL)
