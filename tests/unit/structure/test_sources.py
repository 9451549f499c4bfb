"""Folders, names, sizes and repetitions, as CONTRIBUTING promises them.

An exception needs an entry here with its reason; an entry that is no longer needed fails the test.
"""

import re
from collections import Counter, defaultdict
from statistics import median

from support.source_tree import ROOT, files, functions, public_classes, repeated_passages

MODULES_PER_FOLDER = 15
LARGE_FOLDERS: dict[str, str] = {
    "src/varnish_gateway/translate/gateway": "one module for each rule; all of them are about the same few kinds",
}
SOURCES = {".py": ("src", "tools", "tests/support"), ".rs": ("ghost",)}

SAME_SIGNATURE = "both implement one signature: patch() of a client, pull() of a step of a body, read() of an object"
PASSAGES_IN = (("src", ".py"), ("tests", ".py"), ("tools", ".py"), ("bench", ".py"), ("ghost", ".rs"))
REPEATED_PASSAGES: dict[tuple[str, str], str] = {
    ("src/varnish_gateway/kube/client.py", "tests/support/simulation/client.py"): SAME_SIGNATURE,
    (
        "ghost/vmod-ghost/src/varnish/cache/incomplete.rs",
        "ghost/vmod-ghost/src/varnish/pool/sending/whole.rs",
    ): SAME_SIGNATURE,
    (
        "ghost/vmod-ghost/src/varnish/cache/size.rs",
        "ghost/vmod-ghost/src/varnish/pool/body_deadline.rs",
    ): SAME_SIGNATURE,
}


def test_a_folder_has_at_most_fifteen_modules():
    counts = Counter(
        str(path.parent)
        for suffix, folders in SOURCES.items()
        for folder in folders
        for path in files(folder, suffix)
        if path.name not in ("__init__.py", "mod.rs", "lib.rs", "main.rs")
    )
    large = {folder for folder, count in counts.items() if count > MODULES_PER_FOLDER}
    assert large == LARGE_FOLDERS.keys()


def test_a_public_class_name_appears_once_in_the_package():
    modules = defaultdict(list)
    for path in files("src", ".py"):
        for name in public_classes(path):
            modules[name].append(str(path))
    assert {name: found for name, found in modules.items() if len(found) > 1} == {}


def test_no_passage_is_repeated():
    paths = [path for folder, suffix in PASSAGES_IN for path in files(folder, suffix)]
    repeated = repeated_passages(paths)
    assert {pair: at for pair, at in repeated.items() if pair not in REPEATED_PASSAGES} == {}
    assert REPEATED_PASSAGES.keys() <= repeated.keys(), "an exception is no longer needed"


def test_half_of_the_files_and_functions_are_small():
    paths = [path for path in files("src", ".py") if path.name != "__init__.py"]
    lines = [len((ROOT / path).read_text().splitlines()) for path in paths]
    lengths = [node.end_lineno - node.lineno + 1 for path in paths for node in functions(path)]
    assert median(lines) <= 90
    assert median(lengths) <= 7


def test_unsafe_code_is_behind_the_safe_api_of_varnish():
    unsafe = {
        str(path)
        for path in files("ghost/vmod-ghost/src", ".rs")
        if "varnish" not in path.parts and re.search(r"^[^/]*\bunsafe\b(?!_)", (ROOT / path).read_text(), re.MULTILINE)
    }
    assert unsafe == set()
