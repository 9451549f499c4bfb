"""YAML is read strictly, and a refusal names its line."""

import pytest

from varnish_gateway.standalone.files.yamltext import MAX_ALIASED, MAX_DEPTH, Unreadable, documents, plain


def values(text: str) -> list[object]:
    return [document.value for document in documents(text)]


def refusal(text: str) -> tuple[int, str]:
    with pytest.raises(Unreadable) as caught:
        values(text)
    return caught.value.line, caught.value.message


def test_documents_have_their_lines():
    found = list(documents("a: 1\n---\n\nb: [x, {c: d}]\n---\n---\nnull\n"))
    assert [(each.value, each.line) for each in found] == [({"a": 1}, 1), ({"b": ["x", {"c": "d"}]}, 4)]


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("yes", True),
        ("Off", False),
        ("~", None),
        ("", None),
        ("8080", 8080),
        ("-1", -1),
        ("0x1f", 31),
        ("010", 8),
        ("1_000", 1000),
        ("1.5", 1.5),
        ("1e3", 1000.0),
        ("10:30", "10:30"),
        ("2026-01-31", "2026-01-31"),
        (".inf", ".inf"),
        ("1.2.3", "1.2.3"),
        ("text", "text"),
    ],
)
def test_plain_scalars_are_typed_as_in_kubernetes(written, value):
    assert plain(written) == value


def test_quoted_and_tagged_scalars_are_text():
    assert values("a: 'yes'\nb: \"80\"\nc: !!str 80\nd: |\n  80\n") == [{"a": "yes", "b": "80", "c": "80", "d": "80\n"}]


def test_aliases_are_copied_and_merge_keys_applied():
    (value,) = values("x: &x {b: [1], c: 2}\ny: *x\nz:\n  <<: *x\n  c: 3\n")
    assert value == {"x": {"b": [1], "c": 2}, "y": {"b": [1], "c": 2}, "z": {"b": [1], "c": 3}}
    assert value["x"]["b"] is not value["y"]["b"]


def test_fields_have_the_lines_of_their_keys():
    (document,) = documents("spec:\n  rules:\n  - name: a\n    paths:\n    - b\n    - c\n", lines=True)
    assert document.lines[("spec", "rules", 0, "paths")] == 4
    assert document.lines[("spec", "rules", 0, "paths", 1)] == 6


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("a: 1\nb: 2\na: 3\n", 3, 'the key "a" is given twice'),
        ("a:\n\t- b\n", 2, "a tab indents this line; YAML allows only spaces there"),
        ("a: b\n c: d\n", 2, "mapping values are not allowed in this context"),
        ("a: [b\n", 1, "while parsing a flow sequence: did not find expected ',' or ']'"),
        ("a: &x [*x]\n", 1, "the alias *x stands before the end of its anchor"),
        ("? {a: b}\n: c\n", 1, "a key has to be plain text"),
        ("a: !!binary aGk=\n", 1, "the tag 'binary' has no meaning here; remove it"),
        ("a: 1\nb: \x01\n", 2, "the character '\\x01' is not allowed here: control characters are not allowed"),
        ("*a\n", 1, "a document can't be an alias of another one"),
        ("a: &a {c: 1}\nb:\n  <<: *a\n  c: 2\n  c: 3\n", 5, 'the key "c" is given twice'),
        ("a: &a [1]\nb: {<<: *a}\n", 2, 'a merge key "<<" takes one alias of a mapping'),
    ],
)
def test_invalid_value_is_rejected(text, line, message):
    assert refusal(text) == (line, message)


def test_depth_is_bounded():
    line, message = refusal("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1))
    assert (line, message) == (1, f"nested more than {MAX_DEPTH} levels deep")
    assert values("[" * MAX_DEPTH + "]" * MAX_DEPTH)


def test_alias_bombs_are_bounded():
    lines = ["a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    for name, before in zip("bcdefgh", "abcdefg", strict=True):
        lines.append(f"{name}: &{name} [{', '.join([f'*{before}'] * 10)}]")
    assert refusal("\n".join(lines))[1] == f"aliases unfold to more than {MAX_ALIASED} values"
