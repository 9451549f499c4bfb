import msgspec
import pytest

from varnish_gateway import errors
from varnish_gateway.kube.answers import refusal


def status(**fields) -> bytes:
    return msgspec.json.encode({"kind": "Status", "message": "no", **fields})


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (400, errors.Invalid),
        (401, errors.Forbidden),
        (403, errors.Forbidden),
        (404, errors.NotFound),
        (409, errors.Conflict),
        (410, errors.Expired),
        (422, errors.Invalid),
        (429, errors.Throttled),
        (500, errors.ApiError),
        (503, errors.ApiError),
        (307, errors.ApiError),
    ],
)
def test_every_status_code_has_its_error(code, error):
    found = refusal(code, status())
    assert type(found) is error
    assert (found.status, str(found)) == (code, "no")


def test_field_conflict_names_managers_and_fields():
    causes = [
        {"reason": "FieldManagerConflict", "message": 'conflict with "kubectl" using v1', "field": ".data.b"},
        {"reason": "FieldManagerConflict", "message": 'conflict with "helm" with subresource', "field": ".data.a"},
        {"reason": "FieldManagerConflict", "message": 'conflict with "helm"', "field": ".data.c"},
    ]
    found = refusal(409, status(reason="Conflict", details={"causes": causes}))
    assert isinstance(found, errors.FieldConflict)
    assert found.managers == ("helm", "kubectl")
    assert found.fields == (".data.a", ".data.b", ".data.c")


@pytest.mark.parametrize(
    ("headers", "details", "seconds"),
    [
        ({"Retry-After": "3"}, {"retryAfterSeconds": 7}, 3),
        ({"Retry-After": "Fri, 31 Dec 1999 23:59:59 GMT"}, {"retryAfterSeconds": 7}, 7),
        ({}, {"retryAfterSeconds": 7}, 7),
        ({}, {}, 1),
        (None, {}, 1),
    ],
)
def test_throttled_request_says_when_to_retry(headers, details, seconds):
    assert refusal(429, status(details=details), headers).retry_after == seconds


@pytest.mark.parametrize("body", [b"404 page not found\n", b"", b"{}", b'{"message": 3}', b"\xff\xfe", b"[1]"])
def test_body_that_is_not_a_status_is_quoted(body):
    found = refusal(404, body)
    assert isinstance(found, errors.NotFound)
    assert str(found).startswith("the API server answered 404")


def test_error_event_of_a_watch_is_decoded():
    assert isinstance(refusal(410, msgspec.Raw(status(code=410))), errors.Expired)
