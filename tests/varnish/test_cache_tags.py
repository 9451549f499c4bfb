"""Tags of responses: where they come from, who sees them, and how many there may be."""

import pytest

from support.http.scripted_origin import ScriptedOrigin, Step, answer
from support.varnish.caching import outcome, policy, reason
from support.varnish.invalidation import HOST, index, invalidate, uri
from support.waiting import until

EVERYTHING = {"everything": True}
FIELDS = ("Surrogate-Key", "Cache-Tag", "xkey", "Cache-Groups", "Cache-Tags", "X-Cache-Tags", "X-Magento-Tags")

pytestmark = pytest.mark.usefixtures("empty_cache", "empty_index")


def get(ghost, path: str = "/page"):
    return ghost.get(path, host=HOST)


def hits(ghost, *tags: str) -> list[int]:
    """Return how many objects have each tag, and leave them there."""
    return invalidate(ghost, *({"tags": [tag]} for tag in tags), mode="soft")


@pytest.mark.parametrize(
    ("lines", "tags", "others"),
    [
        (["Surrogate-Key: a b,c", "surrogate-key:  d"], ["a", "b,c", "d"], ["b", "c", "a b,c"]),
        (["Cache-Tag: a b,c", "Cache-Tag: d"], ["a b", "c", "d"], ["a", "b"]),
        (["xkey: a b,c"], ["a", "b", "c"], ["b,c"]),
        (['Cache-Groups: "a b", "c"'], ["a b", "c"], ["a", '"c"']),
    ],
)
def test_tags_are_read_from_each_field_and_clients_do_not_see_it(ghost, serve, lines, tags, others):
    field = lines[0].partition(":")[0]
    with ScriptedOrigin(answer(headers=lines)) as origin:
        serve(origin, cache=policy(grace=60_000, tag_headers=(field,)))
        answers = [get(ghost), get(ghost)]
        assert [outcome(one) for one in answers] == ["uri-miss", "hit"]
        assert [one.header(field) for one in answers] == [None, None]
        assert not [name for one in answers for name, _ in one.headers if name.startswith("x-ghost")]
        assert hits(ghost, *tags, *others) == [1] * len(tags) + [0] * len(others)


def test_all_fields_of_a_policy_count(ghost, serve):
    lines = ["Surrogate-Key: s", "Cache-Tag: t", "xkey: x", 'Cache-Groups: "g"']
    with ScriptedOrigin(answer(headers=lines)) as origin:
        serve(origin, cache=policy(grace=60_000, tag_headers=FIELDS))
        get(ghost)
        assert hits(ghost, "s", "t", "x", "g") == [1, 1, 1, 1]
        assert invalidate(ghost, {"tags": ["s", "t", "x", "g"]}) == [1]


def test_field_that_the_policy_does_not_name_is_an_ordinary_one(ghost, serve):
    with ScriptedOrigin(answer(headers=["Surrogate-Key: s", "Cache-Tag: t"])) as origin:
        serve(origin, cache=policy(grace=60_000, tag_headers=("Cache-Tag",)))
        assert (get(ghost).header("surrogate-key"), get(ghost).header("cache-tag")) == ("s", None)
        assert hits(ghost, "s", "t") == [0, 1]


def test_tags_with_odd_bytes_are_named_by_percent_encoding(ghost, serve):
    utf8 = "Cache-Tag: café, 100%, a%2Cb".encode().decode("latin-1")
    with ScriptedOrigin(latin1(utf8, "Cache-Tag: \xfe\xff, x\ty")) as origin:
        serve(origin, cache=policy(grace=60_000, tag_headers=("Cache-Tag",)))
        get(ghost)
        assert hits(ghost, "café", "caf%C3%A9", "100%25", "a%252Cb", "%fe%FF", "x%09y") == [1] * 6
        assert hits(ghost, "caf%E9", "a%2Cb", "a,b", "x y") == [0] * 4


def latin1(*lines: str) -> Step:
    """Answer with header lines in which a character is a byte."""
    head = "\r\n".join(["HTTP/1.1 200 OK", "Content-Length: 0", *lines, "", ""])

    def step(connection, _) -> bool:
        connection.sendall(head.encode("latin-1"))
        return True

    return step


def lines_of(count: int) -> list[str]:
    """Make fields with so many tags. varnishd takes lines of 8 KB unless it is told otherwise."""
    tags = [f"tag-{number}" for number in range(count)]
    return ["Surrogate-Key: " + " ".join(tags[begin : begin + 500]) for begin in range(0, count, 500)]


@pytest.mark.parametrize(("count", "stored"), [(1000, True), (1024, True), (1025, False)])
def test_response_may_have_so_many_tags(ghost, serve, count, stored):
    before = index(ghost)["refused"]["too-many-tags"]
    with ScriptedOrigin(answer(headers=lines_of(count))) as origin:
        serve(origin, cache=policy(grace=60_000, tag_headers=("Surrogate-Key",)))
        first, second = get(ghost, f"/{count}"), get(ghost, f"/{count}")
        assert (first.status, first.body) == (200, b"done")
        if stored:
            assert outcome(second) == "hit"
            assert hits(ghost, "tag-0", f"tag-{count - 1}", "tag-") == [1, 1, 0]
        else:
            assert reason(first) == "uri-miss too-many-tags"
            assert outcome(second) != "hit"
            assert index(ghost)["objects"] == 0
            assert index(ghost)["refused"]["too-many-tags"] == before + 2


def test_tags_that_user_vcl_sets_count_and_too_many_of_them_keep_the_object_out(ghost, serve):
    before = index(ghost)["refused"]["too-many-tags"]
    with ScriptedOrigin(answer(headers=["Surrogate-Key: origin"])) as origin:
        serve(origin, cache=policy(grace=60_000, tag_headers=("Surrogate-Key",)))
        ghost.load_vcl('sub vcl_backend_response { set beresp.http.Surrogate-Key = "user"; }')
        get(ghost)
        assert hits(ghost, "origin", "user") == [0, 1]
        ghost.load_vcl(f'sub vcl_backend_response {{ set beresp.http.Surrogate-Key = "{"x " * 1100}"; }}')
        assert [outcome(get(ghost, "/many")) for _ in range(2)] == ["uri-miss", "uri-miss"]
        assert index(ghost)["refused"]["too-many-tags"] == before + 2
        until(lambda: index(ghost)["objects"] == 1, "only the first object is left")


def test_validation_replaces_tags(ghost, serve):
    steps = [
        answer(headers=['ETag: "1"', "Surrogate-Key: old"]),
        answer(304, b"", headers=['ETag: "1"', "Surrogate-Key: new"]),
        answer(304, b"", headers=['ETag: "1"']),
    ]
    with ScriptedOrigin(*steps) as origin:
        serve(origin, cache=policy(tag_headers=("Surrogate-Key",)))
        get(ghost)
        for expected in [[0, 1], [0, 1]]:
            invalidate(ghost, uri("/page"), mode="soft")
            assert outcome(get(ghost)) == "stale"
            until(lambda: index(ghost)["objects"] == 1, "the old object is gone")
            assert hits(ghost, "old", "new") == expected
