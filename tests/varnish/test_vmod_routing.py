"""ghost routes: hosts, answers of its own, filters, what reaches the backend."""

from collections import Counter
from collections.abc import Iterator

import pytest

from support.http.origins import Origin
from support.varnish.ghost import Config, GhostHarness, backend, prefix, route, to
from varnish_gateway.ir import wire

HTTPS = wire.Listener(name="tls", socket="https-8443", port=8443, scheme="https", hostname="*.example.com")
HTTP = wire.Listener(name="http", socket="http-80", port=80)


@pytest.fixture(scope="module")
def tea() -> Iterator[Origin]:
    with Origin("tea", headers=[("X-Tea", "green"), ("X-Tea", "black")]) as origin:
        yield origin


@pytest.fixture(scope="module")
def ghost() -> Iterator[GhostHarness]:
    with GhostHarness(Config(), sockets=["http-80", "https-8443"]) as running:
        yield running


@pytest.fixture
def serve(ghost, tea, coffee):
    """Reload with these routes; tea and coffee have one endpoint each, empty has none."""

    def reload(*routes: wire.Route, listeners=(HTTP, HTTPS)) -> GhostHarness:
        pools = {"tea": [tea], "coffee": [coffee], "empty": []}
        answer = ghost.reload(Config(routes, pools, listeners))
        assert answer.status == 200, answer.header("x-ghost-error")
        tea.seen.clear()
        coffee.seen.clear()
        return ghost

    return reload


def test_the_most_specific_rule_serves(serve):
    ghost = serve(
        route("any", to(backend("coffee"))),
        route("exact", to(backend("tea"), matches=[prefix("/tea")]), hosts=["cafe.example.com"]),
    )
    assert ghost.get("/tea/green", host="cafe.example.com").origin == "tea"
    assert ghost.get("/tea/green", host="CAFE.example.com.:8080").origin == "tea"
    assert ghost.get("/teapot", host="cafe.example.com").origin == "coffee"
    assert ghost.get("/tea", host="other.example.com").origin == "coffee"


def test_matches_by_method_header_and_query(serve):
    by_header = wire.Match(headers=(wire.ValueMatch(name="x-kind", value="a,b"),))
    by_query = wire.Match(query=(wire.ValueMatch(name="kind", value="gr.*", type="regex"),))
    ghost = serve(
        route("method", to(backend("tea"), matches=[wire.Match(method="DELETE")])),
        route("header", to(backend("tea"), matches=[by_header])),
        route("query", to(backend("tea"), matches=[by_query])),
        route("rest", to(backend("coffee"))),
    )
    assert ghost.get(method="DELETE").origin == "tea"
    assert ghost.get(headers=[("X-Kind", "a"), ("x-kind", "b")]).origin == "tea"
    assert ghost.get("/?kind=gr%65en").origin == "tea"
    assert ghost.get("/?kind=black", headers=[("X-Kind", "a")]).origin == "coffee"


def test_a_route_stays_on_its_listener(serve):
    ghost = serve(route("secure", to(backend("tea")), listeners=["tls"]))
    assert ghost.get(host="www.example.com", socket="https-8443").origin == "tea"
    assert ghost.get(host="www.example.com").status == 404
    assert ghost.get(host="www.example.org", socket="https-8443").status == 404


def test_no_route_is_a_404_with_a_reason(serve):
    answer = serve().get("/nothing")
    assert answer.status == 404
    assert answer.header("content-type") == "application/json"
    assert answer.json == {"status": 404, "reason": "no route takes this request"}


@pytest.mark.parametrize("host", ["a b", "exa_mple..com", "host:port", "[::1", "a/b", "x" * 300])
def test_a_malformed_host_is_a_400(serve, host):
    assert serve(route("any", to(backend("tea")))).get(host=host).status == 400


def test_a_malformed_target_is_a_400(serve):
    ghost = serve(route("any", to(backend("tea"))))
    answer = ghost.raw(b"GET nothing HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 400 ")


def test_dot_segments_are_resolved_before_matching_and_forwarding(serve, tea):
    ghost = serve(route("tea", to(backend("tea"), matches=[prefix("/tea")])))
    assert ghost.get("/coffee/%2e%2E/tea/./a//b%2Fc?q=/../x").origin == "tea"
    assert tea.seen[-1].target == "/tea/a//b%2Fc?q=/../x"
    assert ghost.get("/tea/../coffee").status == 404


def test_head_of_an_answer_of_its_own_has_no_body(serve):
    with serve().client() as client:
        head = client.get(method="HEAD")
        assert (head.status, head.body, head.header("content-type")) == (404, b"", None)
        assert client.get().status == 404  # the connection is still in step


def test_a_status_instead_of_backends(serve):
    ghost = serve(
        route("broken", wire.Rule(status=500), hosts=["broken.example.com"]),
        route("unresolved", to(wire.Backend(status=500)), hosts=["unresolved.example.com"]),
        route("weightless", to(backend("tea", weight=0)), hosts=["weightless.example.com"]),
        route("empty", to(backend("empty")), hosts=["empty.example.com"]),
        route("unknown", to(backend("unknown")), hosts=["unknown.example.com"]),
    )
    statuses = {
        name: ghost.get(host=f"{name}.example.com").status
        for name in ("broken", "unresolved", "weightless", "empty", "unknown")
    }
    assert statuses == {"broken": 500, "unresolved": 500, "weightless": 500, "empty": 503, "unknown": 503}


def test_weights_share_the_requests(serve):
    ghost = serve(route("canary", to(backend("tea", weight=9), backend("coffee", weight=1))))
    with ghost.client() as client:
        served = Counter(client.get().origin for _ in range(2000))
    assert 120 < served["coffee"] < 290  # 200 expected; five standard deviations
    assert served["tea"] + served["coffee"] == 2000


# -- redirects -------------------------------------------------------------------------


def redirect(**parts) -> wire.Rule:
    return wire.Rule(matches=(prefix("/old"), prefix("/older/path")), redirect=wire.Redirect(**parts))


@pytest.mark.parametrize(
    ("parts", "path", "location"),
    [
        ({}, "/old/x?q=1", "http://www.example.com/old/x?q=1"),
        ({"scheme": "https"}, "/old", "https://www.example.com/old"),
        ({"hostname": "new.example.org"}, "/old", "http://new.example.org/old"),
        ({"port": 8080}, "/old", "http://www.example.com:8080/old"),
        ({"path": wire.PathModifier(type="full", value="/new")}, "/old/x?q", "http://www.example.com/new?q"),
        ({"path": wire.PathModifier(type="prefix", value="/new")}, "/old/x", "http://www.example.com/new/x"),
        ({"path": wire.PathModifier(type="prefix", value="/new")}, "/older/path/x", "http://www.example.com/new/x"),
        ({"path": wire.PathModifier(type="prefix", value="/")}, "/old", "http://www.example.com/"),
    ],
)
def test_redirects(serve, parts, path, location):
    answer = serve(route("moved", redirect(**parts))).get(path, host="www.example.com")
    assert (answer.status, answer.header("location"), answer.body) == (302, location, b"")


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirect_statuses_also_for_head(serve, status):
    ghost = serve(route("moved", redirect(status=status)))
    for method in ("GET", "HEAD", "POST"):
        answer = ghost.get("/old", method=method)
        assert (answer.status, answer.header("location")) == (status, "http://example.com/old")


def test_a_redirect_keeps_scheme_and_port_of_its_listener(serve):
    ghost = serve(route("moved", redirect(hostname="new.example.com"), listeners=["http", "tls"]))
    secure = ghost.get("/old", host="www.example.com:1", socket="https-8443")
    assert secure.header("location") == "https://new.example.com:8443/old"


# -- filters ---------------------------------------------------------------------------


def headers(**pairs: str) -> tuple[wire.Header, ...]:
    return tuple(wire.Header(name=name.replace("_", "-"), value=value) for name, value in pairs.items())


def test_request_headers_of_rule_then_backend(serve, tea):
    of_rule = wire.HeaderModifier(set=headers(X_Set="rule"), add=headers(X_Add="rule"), remove=("x-gone",))
    of_backend = wire.HeaderModifier(set=headers(x_set="backend"), add=headers(X_Add="backend"))
    rule = to(backend("tea", filters=wire.Filters(request=of_backend)), filters=wire.Filters(request=of_rule))
    sent = [("X-Set", "client"), ("x-set", "again"), ("X-Add", "client"), ("X-Gone", "1"), ("X-GONE", "2")]
    assert serve(route("tea", rule)).get(headers=sent).origin == "tea"
    seen = tea.seen[-1]
    assert seen.values("x-set") == ["backend"]
    assert seen.values("x-add") == ["client", "rule", "backend"]
    assert seen.values("x-gone") == []


def test_response_headers_of_backend_then_rule(serve):
    of_backend = wire.HeaderModifier(set=headers(X_By="backend"), remove=("X-Tea",))
    of_rule = wire.HeaderModifier(set=headers(X_By="rule"), add=headers(X_More="1", X_more="2"))
    rule = to(backend("tea", filters=wire.Filters(response=of_backend)), filters=wire.Filters(response=of_rule))
    answer = serve(route("tea", rule)).get()
    assert answer.values("x-tea") == []
    assert answer.values("x-by") == ["rule"]
    assert answer.values("x-more") == ["1", "2"]


def test_rewrites_reach_the_backend_only(serve, tea):
    rewrite = wire.Rewrite(hostname="inside", path=wire.PathModifier(type="prefix", value="/new"))
    rule = to(backend("tea"), matches=[prefix("/old"), prefix("/older/path")], filters=wire.Filters(rewrite=rewrite))
    ghost = serve(route("tea", rule))
    for path, seen in [("/old", "/new"), ("/old/x?y", "/new/x?y"), ("/older/path/z", "/new/z")]:
        assert ghost.get(path, host="outside").json["target"] == seen
        assert tea.seen[-1].values("host") == ["inside"]


def test_a_full_path_rewrite_keeps_the_query(serve, tea):
    rewrite = wire.Rewrite(path=wire.PathModifier(type="full", value="/all"))
    serve(route("tea", to(backend("tea"), filters=wire.Filters(rewrite=rewrite)))).get("/a/b?c=d")
    assert tea.seen[-1].target == "/all?c=d"


def test_rewrite_of_a_backend_replaces_that_of_the_rule(serve, tea):
    of_rule = wire.Rewrite(hostname="rule", path=wire.PathModifier(type="prefix", value="/rule"))
    of_backend = wire.Rewrite(path=wire.PathModifier(type="prefix", value="/backend"))
    rule = to(
        backend("tea", filters=wire.Filters(rewrite=of_backend)),
        matches=[prefix("/old")],
        filters=wire.Filters(rewrite=of_rule),
    )
    serve(route("tea", rule)).get("/old/x")
    assert tea.seen[-1].target == "/backend/x"
    assert tea.seen[-1].values("host") == ["rule"]


# -- what the backend receives ---------------------------------------------------------


def test_the_backend_learns_listener_and_route(serve, tea):
    serve(route("tea", to(backend("tea")))).get()
    assert tea.seen[-1].values("x-gateway-listener") == ["http-80"]
    assert tea.seen[-1].values("x-gateway-route") == ["default/tea"]


def test_clients_cannot_forge_them(serve, tea):
    ghost = serve(route("tea", to(backend("tea"))))
    forged = [
        ("X-Gateway-Route", "forged/route"),
        ("x-gateway-listener", "forged"),
        ("X-GATEWAY-Anything", "forged"),
        ("X-Ghost-Anything", "forged"),
        ("Connection", "X-Gateway-Route, X-Gateway-Listener"),
    ]
    ghost.get(headers=forged)
    names = sorted(name.lower() for name, _ in tea.seen[-1].headers if name.lower().startswith("x-g"))
    assert names == ["x-gateway-listener", "x-gateway-route"]
    assert tea.seen[-1].values("x-gateway-route") == ["default/tea"]
    assert tea.seen[-1].values("x-gateway-listener") == ["http-80"]
