import msgspec
import pytest

from varnish_gateway import errors
from varnish_gateway.kube.resources import RESOURCES
from varnish_gateway.kube.watching import Selection, events, page_of


def line(kind: str, **thing) -> bytes:
    return msgspec.json.encode({"type": kind, "object": thing})


def test_event_keeps_its_object_unchanged():
    thing = {"metadata": {"name": "a", "namespace": "n", "resourceVersion": "7"}, "spec": {"x": 1}}
    (event,) = events([line("ADDED", **thing)])
    metadata = event.head.metadata
    assert (event.type, metadata.namespace, metadata.name, metadata.resource_version) == ("ADDED", "n", "a", "7")
    assert msgspec.json.decode(event.object) == thing


def test_error_is_raised_after_the_events_before_it():
    lines = [line("DELETED", metadata={"name": "a"}), line("ERROR", code=410, message="too old")]
    seen = []
    with pytest.raises(errors.Expired, match="too old"):
        seen.extend(event.type for event in events(lines))  # list.extend keeps what it had taken
    with pytest.raises(errors.ApiError):
        list(events([line("ERROR", code=500, message="broken")]))


@pytest.mark.parametrize("bad", [b"", b"null", b"{}", b'{"type":"ADDED"}', b'{"type":"ADDED","object":{"metadata":1}}'])
def test_invalid_event_is_rejected(bad):
    with pytest.raises(errors.ApiError, match="not an event"):
        list(events([bad]))


def test_page_names_its_continuation():
    text = b'{"kind":"PodList","metadata":{"resourceVersion":"5","continue":"abc"},"items":[{"metadata":{"name":"a"}}]}'
    page = page_of(text, "Pod")
    assert (page.metadata.resource_version, page.metadata.continue_) == ("5", "abc")
    assert [head.metadata.name for head, _ in page.objects] == ["a"]


def test_list_of_a_nil_slice_is_empty():
    assert page_of(b'{"kind":"PodList","metadata":{"resourceVersion":"5"},"items":null}', "Pod").objects == []


def test_paths_have_quoted_selectors():
    selection = Selection(RESOURCES["ConfigMap"], "shop", "cm", "a in (b,c)")
    assert selection.list_path("x=/") == (
        "/api/v1/namespaces/shop/configmaps?limit=500&fieldSelector=metadata.name%3Dcm"
        "&labelSelector=a%20in%20%28b%2Cc%29&continue=x%3D%2F"
    )
    secrets = Selection(RESOURCES["Secret"], field_selector="type=kubernetes.io/tls")
    assert secrets.list_path("") == "/api/v1/secrets?limit=500&fieldSelector=type%3Dkubernetes.io%2Ftls"
    assert Selection(RESOURCES["Pod"]).watch_path("7", 290) == (
        "/api/v1/pods?watch=true&allowWatchBookmarks=true&resourceVersion=7&timeoutSeconds=290"
    )


def test_path_follows_the_version():
    selection = Selection(RESOURCES["ReferenceGrant"]).at_version("v1beta1")
    assert selection.list_path("").startswith("/apis/gateway.networking.k8s.io/v1beta1/referencegrants?")
