"""main.vcl and what the compiler says about it."""

from varnish_gateway.emit.vcl import POSTAMBLE, PREAMBLE, localise, main_vcl
from varnish_gateway.ir import UserVcl

USER = UserVcl(source="ConfigMap default/user-vcl, key user.vcl", text="vcl 4.1;\n\nsub vcl_recv {\n    oops\n}\n")


def test_order_is_preamble_user_postamble():
    vcl = main_vcl(USER)
    assert vcl.startswith(PREAMBLE)
    assert vcl.endswith(POSTAMBLE)
    assert vcl.index("import ghost") < vcl.index("oops") < vcl.index("return (pass);\n}\n", vcl.index("oops"))


def test_error_handling_is_left_to_the_user():
    assert "vcl_synth" not in main_vcl()
    assert "vcl_backend_error" not in main_vcl()


def test_a_place_in_user_vcl_has_the_users_line():
    vcl = main_vcl(USER)
    line = vcl.splitlines().index("    oops") + 1
    said = localise(f"Expected an action\n('/tmp/x/main.vcl' Line {line} Pos 5)\n", vcl)
    assert said == "Expected an action\n(ConfigMap default/user-vcl, key user.vcl Line 4 Pos 5)\n"


def test_a_place_outside_user_vcl_stays_as_it_is():
    vcl = main_vcl(USER)
    for place in ("('/tmp/x/main.vcl' Line 3 Pos 5)", f"('<builtin>' Line {len(vcl.splitlines())} Pos 5)"):
        assert localise(place, vcl) == place


def test_without_user_vcl_nothing_is_rewritten():
    assert localise("('x' Line 3 Pos 5)", main_vcl()) == "('x' Line 3 Pos 5)"


def test_user_vcl_that_contains_the_marker_keeps_its_lines():
    user = UserVcl(source="s", text="// user VCL ends\nsub vcl_recv { oops }\n")
    vcl = main_vcl(user)
    line = vcl.splitlines().index("sub vcl_recv { oops }") + 1
    assert localise(f"('main.vcl' Line {line} Pos 1)", vcl) == "(s Line 2 Pos 1)"
