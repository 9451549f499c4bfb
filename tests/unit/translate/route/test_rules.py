from support.builders.objects import route, service, view_of
from varnish_gateway.ir import wire
from varnish_gateway.translate.route.compiled_matches import compile_matches
from varnish_gateway.translate.route.rules import Rules, translate_rules

WEB = {"name": "web", "port": 80}
SERVED = wire.Backend(service="default/web", port=80, port_name="http")


def translate(*rules: dict) -> Rules:
    asked = route(rules=rules)
    return translate_rules(asked, compile_matches(asked), allow_external_name=True, view=view_of(service()))


def test_a_rule_with_a_backend():
    got = translate({"name": "n", "backendRefs": [WEB]})
    assert got == Rules((wire.Rule(name="n", backends=(SERVED,)),), (), ())
    assert got.rejection is None


def test_unresolved_backend_answers_500_for_its_weight():
    got = translate({"backendRefs": [WEB, {"name": "gone", "port": 80, "weight": 2}]})
    assert got.rules[0].backends == (SERVED, wire.Backend(weight=2, status=500))
    assert [problem.reason for problem in got.unresolved] == ["BackendNotFound"]
    assert not got.invalid


def test_a_share_of_nothing_is_kept_out_but_looked_at():
    got = translate({"backendRefs": [WEB, {"name": "gone", "port": 80, "weight": 0}]})
    assert got.rules[0].backends == (SERVED,)
    assert got.unresolved


def test_a_rule_without_a_backend_answers_500():
    assert translate({}).rules == (wire.Rule(status=500),)
    assert translate({"backendRefs": [WEB | {"weight": 0}]}).rules == (wire.Rule(status=500),)


def test_a_redirect_needs_no_backend():
    got = translate({"filters": [{"type": "RequestRedirect", "requestRedirect": {"port": 81}}]})
    assert got.rules == (wire.Rule(redirect=wire.Redirect(port=81)),)


def test_a_redirect_can_not_have_a_backend():
    redirect = {"type": "RequestRedirect", "requestRedirect": {"port": 81}}
    got = translate({"filters": [redirect], "backendRefs": [WEB]})
    assert got.rules == (wire.Rule(status=500),)
    assert got.rejection.reason == "IncompatibleFilters"


def test_filters_of_a_backend_go_with_it_unless_it_leads_nowhere():
    filters = [{"type": "URLRewrite", "urlRewrite": {"hostname": "x.org"}}]
    got = translate({"backendRefs": [WEB | {"filters": filters}, {"name": "gone", "port": 80, "filters": filters}]})
    expected = wire.Filters(rewrite=wire.Rewrite(hostname="x.org"))
    assert [backend.filters for backend in got.rules[0].backends] == [expected, None]


def test_an_unsupported_filter_of_a_backend_is_one_of_its_rule():
    got = translate({"backendRefs": [WEB | {"filters": [{"type": "RequestMirror"}]}]})
    assert got.rules == (wire.Rule(status=500),)


def test_unsupported_fields_are_named():
    got = translate({"backendRefs": [WEB], "sessionPersistence": {}})
    assert got.rules == (wire.Rule(status=500),)
    assert "sessionPersistence" in got.rejection.message


def test_time_outs_retries_and_cors_belong_to_the_rule():
    cors = {"type": "CORS", "cors": {"allowOrigins": ["https://a.org"]}}
    got = translate({"backendRefs": [WEB], "filters": [cors], "timeouts": {"request": "1s"}, "retry": {"codes": [503]}})
    assert got.rules == (
        wire.Rule(
            backends=(SERVED,),
            timeouts=wire.Timeouts(request=1000),
            retry=wire.Retry(codes=(503,)),
            cors=wire.Cors(origins=("https://a.org",)),
        ),
    )


def test_rules_at_fault_are_named_and_the_others_served():
    got = translate({"backendRefs": [WEB]}, {"name": "slow", "timeouts": {"request": "soon"}})
    assert [problem.message.split(":")[0] for problem in got.invalid] == ["rule 1 (slow)"]
    assert got.rejection is None
    assert got.rules[0].backends == (SERVED,)


def test_a_rule_whose_match_is_at_fault_keeps_its_index_and_is_marked():
    bad = {"matches": [{"headers": [{"name": "a", "type": "RegularExpression", "value": "["}]}], "backendRefs": [WEB]}
    got = translate(bad, {"backendRefs": [WEB]})
    assert [(rule.status, rule.approximate) for rule in got.rules] == [(500, True), (None, False)]
    assert got.invalid[0].message.startswith("rule 0:")


def test_a_rule_with_valid_matches_is_not_marked_by_another_problem():
    (rule,) = translate({"backendRefs": [WEB], "sessionPersistence": {}}).rules
    assert not rule.approximate


def test_one_missing_service_is_one_problem():
    gone = {"backendRefs": [{"name": "gone", "port": 80}]}
    assert len(translate(gone, gone).unresolved) == 1


def test_valid_regex_without_a_backend_answers_500_by_a_backend():
    """Otherwise ghost would take it for what an earlier operator left of an invalid one, and rank it last."""
    regex = {"matches": [{"path": {"type": "RegularExpression", "value": "/tea/.*"}}]}
    for rule in (regex, {**regex, "filters": [{"type": "ExtensionRef"}]}):
        (translated,) = translate(rule).rules
        assert (translated.status, translated.backends) == (None, (wire.Backend(status=500),))
        assert not translated.approximate
