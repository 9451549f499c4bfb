"""vgw explain."""

import pytest
import yaml

from varnish_gateway.cli.main import main


@pytest.fixture
def explain(cafe, capsys):
    def ask(*arguments: str) -> tuple[int, list[str]]:
        status = main(["explain", str(cafe), *arguments])
        out, err = capsys.readouterr()
        return status, (out + err).splitlines()

    return ask


def test_matching_rule_is_explained_with_backends_and_filters(explain):
    status, lines = explain("GET", "http://cafe.example.com:8080/tea/green", "-H", "x-v: 1")
    assert status == 0
    assert lines[:11] == [
        "Gateway    default/cafe, port 8080",
        "Listener   http (socket http-8080, hostname *)",
        'Route      default/cafe, rule 0, match 0 "tea"',
        "Because    host cafe.example.com, path prefix /tea",
        "Backends    90.0%  default/tea:80: 127.0.0.1:9101, 127.0.0.2:9101",
        "            10.0%  default/green:80: 127.0.0.1:80",
        "Filter     request header x-a is set to 'b'",
        "Filter     request header x-c is removed",
        "Filter     Host becomes origin.example.com",
        "Filter     the matched prefix becomes /t",
        "Filter     the backend is asked for /t/green",
    ]
    assert lines[11].startswith(
        "Instead of default/cafe, rule 2, match 0: host cafe.example.com, path prefix /, method GET"
    )


def test_list_printed_by_kubectl_is_explained(cafe, explain):
    """docs/guides/troubleshooting.md: with what the API server adds, in a List."""
    items = list(yaml.safe_load_all(cafe.read_text()))
    for item in items:
        stored = {"uid": "a", "resourceVersion": "1", "generation": 1, "creationTimestamp": "2026-01-01T00:00:00Z"}
        item["metadata"] |= stored | {"namespace": "default", "managedFields": [{"manager": "kubectl"}]}
        item["status"] = {"loadBalancer": {}} if item["kind"] == "Service" else {}
    cafe.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "List", "metadata": {}, "items": items}))
    status, lines = explain("GET", "http://cafe.example.com:8080/tea")
    assert (status, lines[2]) == (0, 'Route      default/cafe, rule 0, match 0 "tea"')
    assert not [line for line in lines if line.startswith("error")]


def test_redirect_is_explained(explain):
    status, lines = explain("GET", "http://cafe.example.com:8080/old?a=b")
    assert status == 0
    assert "Answer     301 to http://new.example.com:8080/old?a=b" in lines


def test_request_without_a_matching_rule_is_explained(explain):
    status, lines = explain("POST", "http://cafe.example.com:8080/nix")
    assert status == 1
    assert "Answer     404, no rule matches cafe.example.com/nix" in lines
    assert any(line.startswith("Considered default/cafe, rule 2") for line in lines)


def test_request_that_regexes_take_too_many_steps_for_is_explained(cafe, explain):
    items = list(yaml.safe_load_all(cafe.read_text()))
    (route,) = (item for item in items if item["kind"] == "HTTPRoute")
    headers = ([{"name": "x", "type": "RegularExpression", "value": f".*b{n}"}] for n in range(60))
    route["spec"]["rules"] = [{"matches": [{"headers": each} for each in headers]}]
    cafe.write_text(yaml.safe_dump_all(items))
    status, lines = explain("GET", "http://cafe.example.com:8080/", "-H", "x: " + "a" * 30_000)
    assert status == 1
    assert lines[2].startswith("Answer     431, routes and their cache policy take more than 1500000 steps")


PATHS = """---
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: varnish}
spec:
  controllerName: varnish-software.com/gateway
  parametersRef: {group: gateway.varnish-software.com, kind: GatewayClassParameters, name: strict}
---
apiVersion: gateway.varnish-software.com/v1alpha1
kind: GatewayClassParameters
metadata: {name: strict}
spec: {paths: {mergeSlashes: true, reject: ["%2F"]}}
"""


def test_slashes_are_merged_as_the_class_asks(cafe, explain):
    assert explain("POST", "http://cafe.example.com:8080//old")[0] == 1, "no rule matches it as it is"
    cafe.write_text(cafe.read_text() + PATHS)
    status, lines = explain("POST", "http://cafe.example.com:8080//old?a=//b")
    assert status == 0
    assert "Answer     301 to http://new.example.com:8080/old?a=//b" in lines


def test_path_that_the_class_rejects_is_an_error(cafe, explain):
    assert explain("POST", "http://cafe.example.com:8080/old/a%2fb")[0] == 0
    cafe.write_text(cafe.read_text() + PATHS)
    status, lines = explain("POST", "http://cafe.example.com:8080/old/a%2fb")
    assert status == 1
    assert lines[-1].startswith("vgw: the request is answered with 400: paths.reject of the GatewayClassParameters")


def test_request_without_a_matching_listener_is_explained(explain):
    status, lines = explain("GET", "http://cafe.example.com:8081/tea")
    assert status == 1
    assert lines == [
        "Gateway    default/cafe, port 8081",
        "Listener   none on http-8081 takes the host 'cafe.example.com'",
        "Answer     404, no listener matches",
    ]


def test_port_without_a_listener_is_an_error(explain):
    status, lines = explain("GET", "http://cafe.example.com:81/tea")
    assert status == 1
    served = "http on 8080 (Gateway default/cafe), http on 8081 (Gateway default/cafe)"
    assert lines == [f"vgw: nothing listens on port 81: the connection is refused; served: {served}"]


@pytest.mark.parametrize(
    ("url", "where"),
    [("https://cafe.example.com:8080/tea", "port 8080 does not serve https"), ("https://a/", "no port serves https")],
)
def test_scheme_that_the_port_does_not_speak_is_an_error(explain, url, where):
    status, lines = explain("GET", url)
    assert status == 1
    assert lines[0].startswith(f"vgw: {where}: the connection fails; served: http on 8080 (Gateway default/cafe)")


def test_pool_without_endpoints_is_an_error_of_the_gateway(cafe, explain):
    cafe.write_text(cafe.read_text().replace("service-name: tea", "service-name: milk"))
    status, lines = explain("GET", "http://cafe.example.com:8080/tea")
    assert status == 1
    assert "Backends    90.0%  default/tea:80: no endpoints, 503 from the gateway itself" in lines


def test_backend_that_does_not_exist_is_an_error_of_the_gateway(cafe, explain):
    cafe.write_text(cafe.read_text().replace("{name: green, port: 80, weight: 1}", "{name: milk, port: 80, weight: 1}"))
    status, lines = explain("GET", "http://cafe.example.com:8080/tea")
    assert status == 1
    assert "            10.0%  500 from the gateway itself" in lines


def test_backend_without_weight_is_no_error(cafe, explain):
    cafe.write_text(cafe.read_text().replace("{name: green, port: 80, weight: 1}", "{name: milk, port: 80, weight: 0}"))
    assert explain("GET", "http://cafe.example.com:8080/tea")[0] == 0


def test_external_name_and_many_endpoints_are_shown_in_short(cafe, explain):
    many = ", ".join(f"{{addresses: [10.0.0.{number}]}}" for number in range(1, 11))
    text = cafe.read_text().replace("externalName: localhost", "externalName: example.com")
    cafe.write_text(text.replace("[{addresses: [127.0.0.1]}, {addresses: [127.0.0.2]}]", f"[{many}]"))
    status, lines = explain("GET", "http://cafe.example.com:8080/tea")
    assert status == 0
    assert lines[4].startswith("Backends    90.0%  default/tea:80: 10.0.0.1:9101, 10.0.0.10:9101, ")
    assert lines[4].endswith(" and 2 more")
    assert lines[5] == "            10.0%  default/green:80: the addresses of example.com"


def test_url_without_a_port_is_explained_for_every_socket(explain):
    status, lines = explain("GET", "/tea", "-H", "Host: cafe.example.com")
    assert status == 1, "one of them does not take it"
    assert [line for line in lines if line.startswith("Gateway")] == [
        "Gateway    default/cafe, port 8080",
        "Gateway    default/cafe, port 8081",
    ]


def test_invalid_request_is_an_error(explain):
    status, lines = explain("GET", "/tea", "-H", "Host: a b")
    assert status == 1
    assert lines[0].startswith("vgw: the request is answered with 400: ")


def test_header_without_a_colon_is_a_usage_error(cafe, capsys):
    with pytest.raises(SystemExit):
        main(["explain", str(cafe), "GET", "/", "-H", "nonsense"])
    assert "'nonsense' is not of the form 'name: value'" in capsys.readouterr().err


def test_invalid_url_is_an_error(explain):
    assert explain("GET", "http://a:b/")[0] == 2


SHOP = """
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: shop}
spec: {gatewayClassName: varnish, listeners: [{name: http, port: 8080, protocol: HTTP}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: shop}
spec:
  parentRefs: [{name: shop}]
  rules:
  - matches: [{path: {value: /orders}, method: PUT}]
    timeouts: {request: 10s, backendRequest: 500ms}
    retry: {codes: [503], attempts: 2}
    filters:
    - type: CORS
      cors: {allowOrigins: ["https://a.org"], allowMethods: [PUT], exposeHeaders: [X-Id], allowCredentials: true}
    backendRefs: [{name: shop, port: 80}]
---
apiVersion: v1
kind: Service
metadata: {name: shop}
spec: {ports: [{port: 80}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: shop-1, labels: {kubernetes.io/service-name: shop}}
addressType: IPv6
endpoints: [{addresses: ["::1"]}]
ports: [{port: 9101}]
"""
CORS_LINES = [
    "CORS       pages of https://a.org may read the answers",
    "CORS       they may use PUT",
    "CORS       they may read X-Id",
    "CORS       with credentials",
]


@pytest.fixture
def explain_shop(tmp_path, capsys):
    def ask(*arguments: str) -> list[str]:
        path = tmp_path / "shop.yaml"
        path.write_text(SHOP)
        assert main(["explain", str(path), *arguments]) == 0
        return capsys.readouterr().out.splitlines()

    return ask


def test_timeouts_retries_and_cors_are_explained(explain_shop):
    assert explain_shop("PUT", "http://a:8080/orders")[4:] == [
        "Backends   100.0%  default/shop:80: [::1]:9101",
        *CORS_LINES,
        "Time-outs  10 s for the request",
        "           0.5 s for the attempt",
        "Retries    up to 2, 0.025 s later or more, after 503, a broken connection or a time-out",
    ]


def test_disabled_timeout_is_explained(explain_shop, monkeypatch):
    monkeypatch.setitem(globals(), "SHOP", SHOP.replace("request: 10s, backendRequest: 500ms", "request: 0s"))
    assert "Time-outs  no limit for the request" in explain_shop("PUT", "http://a:8080/orders")


def test_preflight_is_explained(explain_shop):
    headers = ["-H", "Origin: https://a.org", "-H", "Access-Control-Request-Method: PUT"]
    lines = explain_shop("OPTIONS", "http://a:8080/orders", *headers)
    assert lines[2:] == [
        "Route      default/shop, rule 0, match 0",
        "Because    host *, path prefix /orders, method PUT",
        "Answer     204 from the gateway itself, to a preflight",
        *CORS_LINES,
    ]
