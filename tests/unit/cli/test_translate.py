"""vgw translate."""

import json

import pytest
import yaml

from varnish_gateway.cli.main import main


def test_translation_prints_statuses_routing_and_vcl(cafe, capsys):
    assert main(["translate", str(cafe)]) == 0
    out, err = capsys.readouterr()
    document = yaml.safe_load(out)
    assert err == ""
    assert [(each["kind"], each["name"]) for each in document["statuses"]] == [
        ("Gateway", "cafe"),
        ("HTTPRoute", "cafe"),
    ]
    (gateway,) = document["gateways"]
    assert gateway["listen"].endswith(";http-8080=:8080,http;http-8081=:8081,http")
    assert gateway["routes"][0]["rules"][0]["backends"][0] == {"weight": 9, "service": "default/tea", "port": 80}
    assert gateway["vcl"].startswith("vcl 4.1;\n")
    assert "vcl: |\n" in out, "as a person would write it"


def test_json_and_yaml_have_the_same_content(cafe, capsys):
    main(["translate", str(cafe)])
    as_yaml = yaml.safe_load(capsys.readouterr().out)
    assert main(["translate", "-o", "json", str(cafe)]) == 0
    assert json.loads(capsys.readouterr().out) == as_yaml


def test_gateway_of_an_unknown_class_is_an_error(cafe, capsys):
    cafe.write_text(cafe.read_text().replace("gatewayClassName: varnish", "gatewayClassName: varnsh", 1))
    assert main(["translate", str(cafe)]) == 1
    assert 'no file defines the GatewayClass "varnsh"; did you mean "varnish"?' in capsys.readouterr().err


def test_invalid_document_is_an_error(cafe, capsys):
    cafe.write_text(cafe.read_text().replace("matches:", "mtches:", 1))
    assert main(["translate", str(cafe)]) == 1
    what = 'spec.rules[0].mtches: unknown field; did you mean "matches"?'
    assert capsys.readouterr().err == f"error: {cafe}:18: HTTPRoute default/cafe (document 2): {what}\n"


def test_rejected_route_is_an_error(cafe, capsys):
    cafe.write_text(cafe.read_text().replace("sectionName: http", "sectionName: nix"))
    assert main(["translate", str(cafe)]) == 1
    assert "error: HTTPRoute default/cafe: not Accepted (NoMatchingParent)" in capsys.readouterr().err


def test_unknown_kind_is_a_warning(cafe, capsys):
    cafe.write_text(cafe.read_text() + "---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: x}\n")
    assert main(["translate", str(cafe)]) == 0
    assert capsys.readouterr().err.startswith("warning: ")


def test_missing_path_is_an_error(capsys):
    assert main(["translate", "nowhere"]) == 2
    assert capsys.readouterr().err == "vgw: nowhere: no such file or directory\n"


def test_port_of_two_gateways_is_an_error(cafe, capsys):
    other = cafe.with_name("other.yaml")
    other.write_text(cafe.read_text().partition("---")[0].replace("name: cafe", "name: other"))
    assert main(["translate", str(cafe.parent)]) == 1
    assert "Gateway default/other: " in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [[], ["translate"], ["nix"], ["translate", "-o", "xml", "x"]])
def test_usage_error_prints_the_usage(arguments, capsys):
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert "usage: vgw" in capsys.readouterr().err
