"""docs/reference/configuration.md names everything that can be set."""

import argparse
import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import yaml

from varnish_gateway.api.varnish import CacheFields
from varnish_gateway.cli.main import parser
from varnish_gateway.emit import names
from varnish_gateway.ir.capabilities import CAPABILITIES
from varnish_gateway.ir.reserved import RESERVED_PORTS
from varnish_gateway.translate.policy.presets import PRESETS

ROOT = Path(__file__).parents[3]
SOURCE = ROOT / "src" / "varnish_gateway"
PAGE = (ROOT / "docs" / "reference" / "configuration.md").read_text()
SECTIONS = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL))
DEPLOYED = yaml.safe_load((ROOT / "charts" / "varnish-gateway" / "values.yaml").read_text())


def rows(section: str, text: str | None = None) -> dict[str, list[str]]:
    """Return the rows of the tables of a section, or of a part of it, by each name in the first cell."""
    found = {}
    for line in re.findall(r"^\| (`.*) \|$", SECTIONS[section] if text is None else text, re.MULTILINE):
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)]
        names_here = re.findall(r"`([^`]+)`", cells[0])
        assert not found.keys() & names_here, f"{names_here} is there twice"
        found |= dict.fromkeys(names_here, cells[1:])
    return found


def fields(schema: dict, path: str = "") -> Iterator[tuple[str, dict, bool]]:
    """Yield every field of a CRD's schema: its path, its schema, whether it is required."""
    for name, inside in schema.get("properties", {}).items():
        here = f"{path}.{name}".lstrip(".")
        yield here, inside, name in schema.get("required", ())
        yield from fields(inside, here)
        if "items" in inside:
            yield from fields(inside["items"], f"{here}[]")


def crd_fields() -> list[tuple[str, str, dict, bool]]:
    """Return every field of our CRDs, with its kind."""
    crds = [yaml.safe_load(path.read_text())["spec"] for path in sorted((ROOT / "deploy" / "crds").glob("*.yaml"))]
    return [
        (crd["names"]["kind"], *field)
        for crd in crds
        for field in fields(crd["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"])
    ]


def field_rows(kind: str) -> dict[str, list[str]]:
    """Return the rows of the table of a kind's fields, which is the first one."""
    return rows(kind, SECTIONS[kind].partition("\n### ")[0])


@pytest.mark.parametrize("page", ["guides/upgrading.md", "contributing/decisions/048-capabilities.md"])
def test_every_capability_has_a_row_and_no_other(page):
    table = (ROOT / "docs" / page).read_text().partition("| Capability |")[2].partition("\n\n")[0]
    assert rows("", table).keys() == CAPABILITIES.keys()


@pytest.mark.parametrize("kind", {kind: None for kind, *_ in crd_fields()})
def test_every_field_of_a_crd_is_named_and_no_other(kind):
    assert field_rows(kind).keys() == {path for one, path, _, _ in crd_fields() if one == kind}


@pytest.mark.parametrize(
    ("kind", "path", "schema", "required"), crd_fields(), ids=[f"{kind} {path}" for kind, path, *_ in crd_fields()]
)
def test_the_default_of_a_field_is_right(kind, path, schema, required):
    documented = field_rows(kind)[path][0]
    assert (documented == "required") == required
    if schema.get("default") not in (None, {}):
        assert documented == f"`{schema['default']}`"


def test_every_preset_is_described_with_its_fields():
    described = dict(re.findall(r"^\| `([-\w]+)` \| [^|]* \| (.*) \|$", PAGE.partition("### Presets")[2], re.MULTILINE))
    expected = {name: "; ".join(preset_fields(fields)) for name, fields in PRESETS.items()}
    assert {name: described.get(name) for name in PRESETS} == expected


def preset_fields(preset: CacheFields) -> Iterator[str]:
    for path, value in flat(msgspec.to_builtins(preset)):
        values = value if isinstance(value, tuple) else [json.dumps(value).strip('"')]
        yield f"`{path}` {', '.join(f'`{one}`' for one in values)}"


def flat(document: dict, path: str = "") -> Iterator[tuple[str, object]]:
    for name, value in document.items():
        if isinstance(value, dict):
            yield from flat(value, f"{path}{name}.")
        elif value is not None:
            yield f"{path}{name}", value


def variables(*modules: str) -> set[str]:
    """Return the names of environment variables in the code: words in capitals that are looked up."""
    found = set()
    for module in modules:
        for node in ast.walk(ast.parse((SOURCE / module).read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found |= set(re.findall(r"^(?:[A-Z]+(?:_[A-Z]+)+|NAMESPACE|KUBECONFIG)$", node.value))
    return found - {"KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"}  # set by Kubernetes in every pod


@pytest.mark.parametrize(
    ("section", "modules"),
    [
        ("Operator", ("operator/settings.py", "kube/connection.py", "runtime/environment.py")),
        (
            "Chaperone",
            (
                "dataplane/settings.py",
                "dataplane/process/workdir.py",
                "dataplane/varnish/fence.py",
                "kube/connection.py",
                "runtime/environment.py",
            ),
        ),
    ],
)
def test_every_variable_is_named_and_no_other(section, modules):
    named = {name for name in rows(section) if name.isupper()}
    assert len(named) > 8
    assert named == variables(*modules)


def test_the_chart_sets_variables_that_the_operator_reads():
    (deployment,) = [
        document
        for document in yaml.safe_load_all((ROOT / "deploy" / "01-operator.yaml").read_text())
        if document["kind"] == "Deployment"
    ]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    documented = {variable["name"] for variable in container["env"]}
    assert documented <= variables("operator/settings.py", "runtime/environment.py")


def values(schema: dict, path: str = "") -> Iterator[str]:
    """Yield every value of the chart that is not a map of values itself."""
    for name, inside in schema["properties"].items():
        here = f"{path}.{name}".lstrip(".")
        if "properties" in inside and name != "affinity":
            yield from values(inside, here)
        elif name != "global":
            yield here


def chart_values() -> list[str]:
    return sorted(values(json.loads((ROOT / "charts" / "varnish-gateway" / "values.schema.json").read_text())))


def test_every_value_of_the_chart_is_named_and_no_other():
    assert sorted(rows("Helm values")) == chart_values()


@pytest.mark.parametrize("path", chart_values())
def test_the_default_of_a_value_is_right(path):
    default = DEPLOYED
    for name in path.split("."):
        default = default.get(name, "") if isinstance(default, dict) else ""
    if isinstance(default, dict) and default:
        expected = ", ".join(f"`{name}: {value}`" for name, value in default.items())
    else:
        expected = f"`{json.dumps(default).strip(chr(34))}`"
    documented = rows("Helm values")[path][0]
    assert documented == expected or default == "", path


def options() -> Iterator[tuple[str, str]]:
    top = parser()
    (commands,) = [action for action in top._actions if isinstance(action, argparse._SubParsersAction)]
    for name, command in commands.choices.items():
        yield from ((name, option) for action in command._actions for option in action.option_strings)


@pytest.mark.parametrize(("command", "option"), [pair for pair in options() if pair[1] not in {"-h", "--help"}])
def test_every_option_is_named(command, option):
    section = SECTIONS["Command line"]
    (part,) = re.findall(rf"^\| `vgw {command}\b.*\n(?:\| \| .*\n)*", section, re.MULTILINE)
    assert re.search(rf"`{re.escape(option)}\b", part)


def test_every_label_and_annotation_is_named():
    keys = {value for name, value in vars(names).items() if name.isupper() and isinstance(value, str) and "/" in value}
    assert len(keys) >= 8
    assert rows("Labels and annotations").keys() == keys


def test_every_reserved_port_is_named():
    assert all(re.search(rf"^\| {port} \|", SECTIONS["Ports"], re.MULTILINE) for port in RESERVED_PORTS)
