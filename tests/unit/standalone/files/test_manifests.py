"""What a file says, and what is wrong with it."""

import json
import time

import pytest

from varnish_gateway.api import Key
from varnish_gateway.standalone.files.manifests import Reading, read_manifest
from varnish_gateway.standalone.schema import Catalogue

CATALOGUE = Catalogue()

ROUTE = """\
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata:
  name: {name}
spec:
  parentRefs:
  - name: gw
  hostnames:
  - {name}.example.com
  rules:
  - matches:
    - path:
        type: PathPrefix
        value: /api
    backendRefs:
    - name: {name}
      port: 8080
"""

SERVICE = "apiVersion: v1\nkind: Service\nmetadata: {name: tea}\nspec: {ports: [{port: 80}]}\n"


def read(text: str, name: str = "cafe.yaml") -> Reading:
    return read_manifest(name, text.encode(), CATALOGUE)


def complaints(text: str, name: str = "cafe.yaml") -> list[str]:
    return [str(complaint) for complaint in read(text, name).complaints]


def test_documents_become_objects_with_defaults_and_a_namespace():
    reading = read(f"{ROUTE.format(name='tea')}---\n{SERVICE}")
    assert reading.complaints == []
    route = reading.objects[Key("HTTPRoute", "default", "tea")]
    assert route.line == 1
    assert route.obj.spec.rules[0].backend_refs[0].weight == 1
    assert reading.objects[Key("Service", "default", "tea")].line == 19


def test_lists_are_unfolded_into_their_items():
    items = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in "ab"]
    reading = read(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}), "all.json")
    assert list(reading.objects) == [Key("Namespace", "", "a"), Key("Namespace", "", "b")]


def test_several_json_values_in_a_file_are_read():
    text = "\n".join(json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}) for name in "ab")
    reading = read(text, "all.json")
    assert [found.line for found in reading.objects.values()] == [1, 2]


def test_status_in_a_file_is_ignored():
    assert complaints(f"{ROUTE.format(name='tea')}status: {{parents: []}}\n") == []


def test_byte_order_mark_is_accepted():
    assert complaints(f"\ufeff{SERVICE}") == []
    assert (
        complaints("\ufeff" + json.dumps({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}}), "x.json")
        == []
    )


BAD_ROUTE = ROUTE.format(name="tea").replace("value: /api", "valeu: /api").replace("8080", '"8080"')


TEA = "HTTPRoute default/tea (document 2)"
PORT = "spec.rules[0].backendRefs[0].port"


def test_complaints_name_file_line_object_field_and_remedy():
    assert complaints(f"{SERVICE}---\n{BAD_ROUTE}") == [
        f'cafe.yaml:19: {TEA}: spec.rules[0].matches[0].path.valeu: unknown field; did you mean "value"?',
        f'cafe.yaml:22: {TEA}: {PORT}: expected an integer, got the string "8080"; remove the quotes',
    ]


def test_invalid_document_does_not_affect_others():
    reading = read(f"{SERVICE}---\n{BAD_ROUTE}")
    assert list(reading.objects) == [Key("Service", "default", "tea")]
    assert reading.broken == {Key("HTTPRoute", "default", "tea")}
    assert not reading.unnamed


def test_cel_rules_of_the_crd_are_applied():
    (complaint,) = complaints(ROUTE.format(name="tea").replace("value: /api", "value: api"))
    assert complaint.startswith("cafe.yaml:12: HTTPRoute default/tea (document 1): spec.rules[0].matches[0].path: ")


def test_complaint_inside_a_list_names_its_line():
    text = "kind: List\napiVersion: v1\nitems:\n- apiVersion: v1\n  kind: Service\n  metadata:\n    name: Tea\n"
    assert complaints(text) == [
        'cafe.yaml:7: Service default/Tea (document 1): metadata.name: "Tea" has to be written with lower case: "tea"'
    ]


def test_complaint_in_json_names_its_line():
    text = '{\n\t"apiVersion": "v1",\n\t"kind": "Service",\n\t"metadata": {"name": "x"},\n\t"spec": {"prts": []}\n}'
    (complaint,) = complaints(text, "x.json")
    assert complaint.endswith('spec.prts: unknown field; did you mean "ports"?')


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("a: [", "cafe.yaml:1: while parsing a flow node: did not find expected node content"),
        ("- a\n", "cafe.yaml:1: document 1: expected an object with apiVersion, kind and metadata"),
        ("kind: Service\n", "cafe.yaml:1: document 1: apiVersion: is required, as text"),
        ("apiVersion: v1\nkind: 5\n", "cafe.yaml:2: document 1: kind: is required, as text"),
        ("apiVersion: v1\nkind: Service\n", "cafe.yaml:1: Service (document 1): metadata: is required"),
        (
            "apiVersion: v1\nkind: Service\nmetadata: {}\n",
            "cafe.yaml:3: Service (document 1): metadata.name: is required",
        ),
        (
            "apiVersion: gateway.networking.k8s.io/v1\nkind: HttpRoute\nmetadata: {name: a}\n",
            'cafe.yaml:1: document 1: unknown kind "HttpRoute"; did you mean "HTTPRoute"?',
        ),
    ],
)
def test_document_without_a_name_freezes_the_file(text, complaint):
    reading = read(text)
    assert str(reading.complaints[0]) == complaint
    assert reading.unnamed


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('{"a": 1, "a": 2}', 'x.json:1: the key "a" is given twice'),
        ('{"a": 1}\n{"a" 1}', "x.json:2: Expecting ':' delimiter"),
        ("[" * 100_000, "x.json:1: nested too deep"),
    ],
)
def test_unreadable_json_is_reported(text, complaint):
    reading = read(text, "x.json")
    assert [str(each) for each in reading.complaints] == [complaint]
    assert reading.unnamed


def test_file_that_is_not_utf8_is_reported():
    reading = read_manifest("x.yaml", b"a: 1\nb: \xff\n", CATALOGUE)
    assert [str(each) for each in reading.complaints] == ["x.yaml:2: is not UTF-8 text; store the file as UTF-8"]


def test_object_defined_twice_in_a_file_is_reported():
    reading = read(f"{SERVICE}---\n{SERVICE}")
    (complaint,) = reading.complaints
    assert (complaint.line, complaint.document) == (6, 2)
    assert complaint.message == "is already defined in this file on line 1; that one stays, remove one of the two"
    assert list(reading.objects) == [Key("Service", "default", "tea")]


def test_unknown_kind_is_ignored():
    reading = read(f"apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: x}}\n---\n{SERVICE}")
    assert [str(each) for each in reading.ignored.values()] == [
        "cafe.yaml:1: Deployment (document 1): is not read by Varnish Gateway and was ignored"
    ]
    assert reading.complaints == []
    assert len(reading.objects) == 1


def test_reading_many_files_is_fast():
    texts = [ROUTE.format(name=f"route-{number}").encode() for number in range(500)]
    before = time.process_time()
    for text in texts:
        assert not read_manifest("x.yaml", text, CATALOGUE).complaints
    assert (time.process_time() - before) * 10 < 4, "seconds of CPU for 5,000 files"
