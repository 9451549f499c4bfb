import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from varnish_gateway.emit.manifests import covers

scalars = st.none() | st.booleans() | st.integers() | st.text(max_size=5)
documents = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=12,
)
objects = st.dictionaries(st.text(max_size=3), documents, max_size=4)


@given(documents)
def test_everything_covers_itself(document: object):
    assert covers(copy.deepcopy(document), document)


@given(objects, objects)
def test_additions_do_not_matter(observed: dict, more: dict):
    assert covers(more | observed, observed)


@given(objects, st.text(max_size=3), st.integers(min_value=1))
def test_a_changed_or_missing_field_matters(observed: dict, field: str, value: int):
    desired = observed | {field: value}
    assert covers(observed, desired) == (str(observed.get(field)) == str(value) and observed.get(field) is not True)
    assert not covers(observed | {field: value + 1}, desired)


@given(st.lists(objects, max_size=4), st.randoms(use_true_random=False))
def test_objects_are_found_in_any_place(items: list[dict], random):
    shuffled = [item | {"added": "x"} for item in items if "added" not in item] + [
        item for item in items if "added" in item
    ]
    random.shuffle(shuffled)
    assert covers(shuffled, items)


@pytest.mark.parametrize(
    ("observed", "desired"),
    [
        ({}, {"a": {}, "b": [], "c": "", "d": None, "e": False, "f": 0}),
        (None, {}),
        (None, []),
        ({"port": "80"}, {"port": 80}),
        ({"maxSurge": 1}, {"maxSurge": "1"}),
        ({"limits": {"cpu": "500m"}}, {"limits": {"cpu": "0.5"}}),
        ({"limits": {"cpu": "2"}}, {"limits": {"cpu": 2}}),
        ({"requests": {"memory": "1Gi"}}, {"requests": {"memory": "1024Mi"}}),
        ({"requests": {"memory": "1k"}}, {"requests": {"memory": "1e3"}}),
        ({"emptyDir": {"sizeLimit": "512Mi"}}, {"emptyDir": {"sizeLimit": "0.5Gi"}}),
        ({"ports": [{"port": 81}, {"port": 80, "nodePort": 30080}]}, {"ports": [{"port": 80}]}),
    ],
)
def test_the_api_servers_own_ways_of_saying_it(observed: object, desired: object):
    assert covers(observed, desired)


@pytest.mark.parametrize(
    ("observed", "desired"),
    [
        ({"a": {"b": 1}}, {"a": {"b": 1, "c": 2}}),
        ({"a": "1"}, {"a": {"b": 1}}),
        ({"a": {"b": 1}}, {"a": "1"}),
        ({"a": {"b": 1}}, {"a": [1]}),
        ({"command": ["a", "b"]}, {"command": ["b", "a"]}),
        ({"command": ["a", "b"]}, {"command": ["a"]}),
        ({"annotations": {"share": "500m"}}, {"annotations": {"share": "0.5"}}),
        ({"limits": {"cpu": "500m"}}, {"limits": {"cpu": "0.6"}}),
        ({"limits": {"cpu": "x"}}, {"limits": {"cpu": "y"}}),
        ({"limits": {"cpu": "1e999999999"}}, {"limits": {"cpu": "1e999999998"}}),
        ({"flag": False}, {"flag": True}),
        ({"flag": "True"}, {"flag": True}),
        ({"flag": True}, {"flag": False}),
        ({"flag": 1}, {"flag": True}),
        ({"ports": [{"port": 80}]}, {"ports": [{"port": 80}, {"port": 80}]}),
        ({"ports": [{"port": 80}]}, {"ports": [{"port": 81}]}),
        ({"replicas": 3}, {"replicas": 0}),
        ({"text": "something"}, {"text": ""}),
    ],
)
def test_missing_or_different_field_is_not_covered(observed: object, desired: object):
    assert not covers(observed, desired)
