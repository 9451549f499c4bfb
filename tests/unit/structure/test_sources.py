"""Folders, names, sizes and repetitions, as CONTRIBUTING promises them.

An exception needs an entry here with its reason.
"""

import re
from collections import Counter, defaultdict
from statistics import median

from support.source_tree import ROOT, files, functions, public_classes, repeated_passages

MODULES_PER_FOLDER = 15
LARGE_FOLDERS: dict[str, str] = {
    "src/varnish_gateway/translate/gateway": "one module per rule of Gateways and listeners, by its Gateway API name",
}
SOURCES = {".py": ("src", "tools", "tests/support"), ".rs": ("ghost",)}

REPEATED_CLASSES: dict[str, str] = {}
SAME_SIGNATURE = "the simulated client has the signature of the real one"
PASSAGES_IN = (("src", ".py"), ("tests", ".py"), ("tools", ".py"), ("bench", ".py"), ("ghost", ".rs"))
REPEATED_PASSAGES: dict[tuple[str, str], str] = {
    ("src/varnish_gateway/kube/client.py", "tests/support/simulation/client.py"): SAME_SIGNATURE,
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
    assert large - LARGE_FOLDERS.keys() == set()


def test_a_public_class_name_appears_once_in_the_package():
    places = defaultdict(list)
    for path in files("src", ".py"):
        for name in public_classes(path):
            places[name].append(str(path))
    repeated = {name: found for name, found in places.items() if len(found) > 1}
    assert {name: found for name, found in repeated.items() if name not in REPEATED_CLASSES} == {}


def test_no_passage_is_repeated():
    paths = [path for folder, suffix in PASSAGES_IN for path in files(folder, suffix)]
    assert {pair: at for pair, at in repeated_passages(paths).items() if pair not in REPEATED_PASSAGES} == {}


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
