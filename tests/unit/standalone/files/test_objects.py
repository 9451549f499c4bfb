"""What files define together, as they change."""

from hypothesis import given
from hypothesis import strategies as st

from varnish_gateway.api import Key, Namespace
from varnish_gateway.standalone.files.manifests import read_manifest
from varnish_gateway.standalone.files.objects import NAMESPACE_LABEL, Changes, Objects
from varnish_gateway.standalone.schema import Catalogue

CATALOGUE = Catalogue()
TEA, COFFEE = Key("Service", "default", "tea"), Key("Service", "default", "coffee")
DEFAULT = Key("Namespace", "", "default")


def service(name: str, port: object = 80, **metadata: object) -> str:
    more = "".join(f", {key}: {value}" for key, value in metadata.items())
    return (
        f"---\napiVersion: v1\nkind: Service\nmetadata: {{name: {name}{more}}}\nspec: {{ports: [{{port: {port}}}]}}\n"
    )


def update(objects: Objects, **files: str | None) -> Changes:
    return objects.update(
        {
            f"{name}.yaml": None if text is None else read_manifest(f"{name}.yaml", text.encode(), CATALOGUE)
            for name, text in files.items()
        }
    )


def port(changes: Changes, key: Key = TEA) -> int:
    return changes.objects[key].spec.ports[0].port


def test_only_changed_objects_are_returned():
    objects = Objects()
    assert set(update(objects, a=service("tea") + service("coffee")).objects) == {TEA, COFFEE, DEFAULT}
    assert update(objects, a=service("tea") + service("coffee")).objects == {}
    changes = update(objects, a=service("tea", 81) + service("coffee"))
    assert set(changes.objects) == {TEA}
    assert port(changes) == 81


def test_removed_document_deletes_its_object():
    objects = Objects()
    update(objects, a=service("tea") + service("coffee"))
    assert update(objects, a=service("tea")).objects == {COFFEE: None}
    assert update(objects, a=None).objects == {TEA: None, DEFAULT: None}


def test_invalid_document_freezes_its_object_alone():
    objects = Objects()
    update(objects, a=service("tea") + service("coffee"))
    changes = update(objects, a=service("tea", "x") + service("coffee", 81))
    assert set(changes.objects) == {COFFEE}
    assert len(changes.complaints) == 1
    assert port(update(objects, a=service("tea", 82) + service("coffee", 81))) == 82


def test_unreadable_file_freezes_its_objects():
    objects = Objects()
    update(objects, a=service("tea") + service("coffee"), b=service("milk"))
    assert update(objects, a="{", b=None).objects == {Key("Service", "default", "milk"): None}
    assert update(objects, a=service("coffee")).objects == {TEA: None}


def test_document_without_a_name_keeps_the_files_objects():
    objects = Objects()
    update(objects, a=service("tea") + service("coffee"))
    nameless = "---\napiVersion: v1\nkind: Service\nmetadata: {nme: tea}\n"
    changes = update(objects, a=nameless + service("coffee", 81))
    assert set(changes.objects) == {COFFEE}


def test_object_in_two_files_belongs_to_the_first_by_name():
    objects = Objects()
    update(objects, a=service("tea"))
    changes = update(objects, b=service("tea", 81))
    assert changes.objects == {}
    loser = (
        "b.yaml:2: Service default/tea: is already defined at a.yaml:2;"
        " that one stays, because its file comes first by name; remove one of the two"
    )
    assert [str(each) for each in changes.complaints] == [loser]
    changes = update(objects, a=None)
    assert port(changes) == 81
    assert (changes.complaints, objects.complaints) == ([], [])
    changes = update(objects, a=service("tea", 82))
    assert port(changes) == 82
    assert list(map(str, changes.complaints)) == list(map(str, objects.complaints)) == [loser]


@given(st.permutations("abc"))
def test_order_in_which_files_appear_does_not_matter(order):
    objects = Objects()
    for number, name in enumerate(order):
        changes = update(objects, **{name: service("tea", 80 + "abc".index(name))})
        assert len(objects.complaints) == number
        if TEA in changes.objects:
            served = port(changes)
    assert served == 80
    assert {complaint.file for complaint in objects.complaints} == {"b.yaml", "c.yaml"}


def test_complaints_last_until_the_file_is_corrected_or_deleted():
    objects = Objects()
    update(objects, a=service("tea", "x"), b="{", c=service("coffee"))
    assert [complaint.file for complaint in objects.complaints] == ["a.yaml", "b.yaml"]
    update(objects, c=service("coffee", 81))
    assert [complaint.file for complaint in objects.complaints] == ["a.yaml", "b.yaml"]
    update(objects, a=service("tea"), b=None)
    assert objects.complaints == []


def gateway(class_name: str) -> str:
    return (
        "---\napiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {name: cafe}\n"
        f"spec: {{gatewayClassName: {class_name}, listeners: [{{name: http, port: 80, protocol: HTTP}}]}}\n"
    )


def gateway_class(name: str, controller: str = "varnish-software.com/gateway") -> str:
    return (
        f"---\napiVersion: gateway.networking.k8s.io/v1\nkind: GatewayClass\nmetadata: {{name: {name}}}\n"
        f"spec: {{controllerName: {controller}}}\n"
    )


def test_gateway_of_a_class_that_no_file_defines_is_complained_about():
    objects = Objects()
    changes = update(objects, a=gateway("varnsh"))
    (complaint,) = changes.complaints
    assert str(complaint).startswith("a.yaml:2: Gateway default/cafe: spec.gatewayClassName: no file defines")
    assert complaint.message == 'no file defines the GatewayClass "varnsh"; did you mean "varnish"?'
    assert list(objects.unclassed) == [Key("Gateway", "default", "cafe")]
    assert update(objects, b=service("tea")).complaints == [], "it is complained about once"
    update(objects, a=gateway("varnish"))
    assert objects.complaints == []
    changes = update(objects, c=gateway_class("varnsh"))
    assert 'did you mean "varnsh"?' in str(changes.complaints[0]), "a class in the files replaces the assumed one"
    update(objects, c=gateway_class("varnish", "example.com/other"))
    assert objects.complaints == [], "it belongs to another controller"


def test_renamed_file_is_not_a_duplicate():
    objects = Objects()
    update(objects, a=service("tea"))
    changes = update(objects, b=service("tea"), a=None)
    assert changes.objects == {}
    assert changes.complaints == []


def test_generation_counts_changes_of_the_content():
    objects = Objects()

    def generation(text: str) -> int:
        return update(objects, a=text).objects[TEA].metadata.generation

    assert generation(service("tea")) == 1
    assert generation(service("tea", labels="{a: b}")) == 1
    assert generation(service("tea", 81, labels="{a: b}")) == 2
    assert generation(service("tea", 82, generation=7)) == 7
    update(objects, a=None)
    assert generation(service("tea")) == 1


def test_namespaces_in_use_exist():
    objects = Objects()
    shop = Key("Namespace", "", "shop")
    changes = update(objects, a=service("tea", namespace="shop"))
    assert changes.objects[shop].metadata.labels == {NAMESPACE_LABEL: "shop"}
    text = "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop, labels: {team: a}}\n"
    changes = update(objects, b=text)
    assert isinstance(changes.objects[shop], Namespace)
    assert changes.objects[shop].metadata.labels == {NAMESPACE_LABEL: "shop", "team": "a"}
    assert update(objects, a=None).objects == {Key("Service", "shop", "tea"): None}
    assert update(objects, b=None).objects == {shop: None}


def test_unknown_kind_is_reported_once():
    objects = Objects()
    pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: x}\n"
    assert len(update(objects, a=pod).ignored) == 1
    assert update(objects, a=pod + "---\n" + pod, b=pod).ignored == []
