"""main.vcl and what the compiler says about it."""

import re

from varnish_gateway.emit.vcl import POSTAMBLE, PREAMBLE, localise, main_vcl
from varnish_gateway.ir import UserVcl

USER = UserVcl(source="ConfigMap default/user-vcl, key user.vcl", text="vcl 4.1;\n\nsub vcl_recv {\n    oops\n}\n")


def test_order_is_preamble_user_postamble():
    vcl = main_vcl(USER)
    assert vcl.startswith(PREAMBLE)
    assert vcl.endswith(POSTAMBLE)
    assert vcl.index("import ghost") < vcl.index("oops") < vcl.index("return (pass);\n}\n", vcl.index("oops"))


def test_error_handling_is_left_to_the_user():
    """But for one guarded call in each subroutine."""
    for name, call in (("vcl_synth", "ghost.revived"), ("vcl_backend_error", "ghost.stale")):
        (body,) = re.findall(rf"sub {name} {{\n(.*?)\n}}\n", main_vcl(), re.DOTALL)
        assert re.fullmatch(rf" +if \({call}\(\)\) {{\n +return \((abandon|restart)\);\n +}}", body)


def test_pods_without_cache_policies_get_a_frame_without_them():
    vcl = main_vcl(USER, caching=False)
    assert "oops" in vcl
    assert "vcl_synth" not in vcl
    assert "vcl_backend_error" not in vcl
    assert "return (hash)" not in vcl


def mapped(line: int, vcl: str, file: str = "main.vcl") -> str:
    return localise(f"Expected an action\n('{file}' Line {line} Pos 5)\n", vcl, "main.vcl").splitlines()[1]


def test_a_place_in_user_vcl_has_the_users_line():
    vcl = main_vcl(USER)
    line = vcl.splitlines().index("    oops") + 1
    assert mapped(line, vcl) == "(ConfigMap default/user-vcl, key user.vcl Line 4 Pos 5)"


def test_error_behind_user_vcl_hints_at_an_unclosed_block():
    vcl = main_vcl(USER)
    last = len(vcl.splitlines())
    assert mapped(last, vcl).startswith("(after the end of ConfigMap default/user-vcl, key user.vcl: is a brace")


def test_a_place_before_user_vcl_is_in_the_gateways_own():
    assert mapped(3, main_vcl(USER)) == "(the gateway's own VCL Line 3 Pos 5)"
    assert mapped(3, main_vcl()) == "(the gateway's own VCL Line 3 Pos 5)"


def test_a_place_in_another_file_stays_as_it_is():
    assert mapped(45, main_vcl(USER), "<builtin>") == "('<builtin>' Line 45 Pos 5)"


def test_user_vcl_that_contains_the_marker_keeps_its_lines():
    vcl = main_vcl(UserVcl(source="s", text="// user VCL ends\nsub vcl_recv { oops }\n"))
    line = vcl.splitlines().index("sub vcl_recv { oops }") + 1
    assert mapped(line, vcl) == "(s Line 2 Pos 5)"
