import pytest

from unit.translate.objects import VARNISH_API, obj, view_of
from varnish_gateway import api, ir
from varnish_gateway.api import Key
from varnish_gateway.translate.parameters import Configured, read

REF = {"userVCLConfigMapRef": {"name": "vcl", "namespace": "team"}}


def ask(*objects: api.Object, **spec) -> Configured:
    return read(obj("GatewayClassParameters", "p", group=VARNISH_API, spec=spec), view_of(*objects))


def vcl(**data: str) -> api.Object:
    return obj("ConfigMap", "vcl", "team", group="", data=data)


def test_nothing_asked():
    assert ask() == Configured(ir.Parameters())


def test_arguments_and_logging():
    got = ask(varnishdExtraArgs=["-p", "a=b"], logging={"mode": "varnishncsa", "format": "%r", "extraArgs": ["-b"]})
    assert got.parameters == ir.Parameters(("-p", "a=b"), ir.Logging("varnishncsa", "%r", ("-b",)))


@pytest.mark.parametrize("argument", ["-M", "-S", "-F", "-f", "-n", "-n/tmp/x"])
def test_arguments_of_our_own(argument: str):
    got = ask(varnishdExtraArgs=["-p", "a=b", argument])
    assert got.problem.reason == "InvalidParameters"
    assert argument[:2] in got.problem.message
    assert got.parameters is None


def test_a_logging_mode_that_does_not_exist():
    assert "logging.mode" in ask(logging={"mode": "loud"}).problem.message


def test_user_vcl_names_its_source():
    got = ask(vcl(**{"user.vcl": "text"}), **REF)
    assert got.user_vcl == ir.UserVcl("ConfigMap team/vcl, key user.vcl", "text")
    assert got.problem is None


def test_user_vcl_that_can_not_be_had():
    view = view_of()
    missing = read(obj("GatewayClassParameters", "p", group=VARNISH_API, spec=REF), view)
    assert isinstance(missing.user_vcl, ir.UserVclUnavailable)
    assert missing.problem.reason == "InvalidParameters"
    assert Key("ConfigMap", "team", "vcl") in view.seen
    assert "no key user.vcl" in ask(vcl(), **REF).problem.message
