"""main.vcl: preamble, user VCL, postamble.

In:   the user's VCL, if there is one.
Out:  the VCL that varnishd compiles, the same on every machine.
Pure. VCL concatenates subroutines of one name: the gateway routes first, the user's code runs
next, and what is left undecided is decided last. vcl_synth and vcl_backend_error are never
defined here: they belong to the user.
"""

import re

from varnish_gateway.ir import UserVcl

PREAMBLE = """\
vcl 4.1;

import ghost;

// Never used: ghost creates its own backends, but VCL requires a declared one.
backend ghost_unused none;

sub vcl_init {
    ghost.init();
}

sub vcl_recv {
    set req.backend_hint = ghost.recv();
    if (ghost.admin()) {
        return (pass);
    }
}

sub vcl_hash {
    hash_data(ghost.rule());
}

sub vcl_pipe {
    set bereq.backend = ghost.fetch(bereq.backend);
}

sub vcl_backend_fetch {
    set bereq.backend = ghost.fetch(bereq.backend);
}

sub vcl_backend_response {
    ghost.response();
}

sub vcl_deliver {
    ghost.deliver();
}
"""

POSTAMBLE = """\
// What user VCL changed about the request is routed again; what it left undecided is not cached.
sub vcl_recv {
    if (ghost.changed()) {
        set req.backend_hint = ghost.recv();
    }
    if (ghost.websocket()) {
        return (pipe);
    }
    return (pass);
}

// What is passed is passed whole: the built-in VCL would take the body off a GET.
sub vcl_backend_fetch {
    if (bereq.uncacheable) {
        return (fetch);
    }
}
"""

_BEGIN = "// user VCL begins: "
_END = "// user VCL ends"
_PLACE = re.compile(r"\('(?P<file>[^']*)' Line (?P<line>\d+) Pos (?P<pos>\d+)\)")


def main_vcl(user: UserVcl | None = None) -> str:
    """Return the whole VCL."""
    if user is None:
        return f"{PREAMBLE}\n{POSTAMBLE}"
    return f"{PREAMBLE}\n{_BEGIN}{user.source}\n{user.text.rstrip()}\n{_END}\n\n{POSTAMBLE}"


def localise(compiler_output: str, vcl: str, file: str) -> str:
    """Return the compiler's output with places in ``file``, which holds ``vcl``, as the user knows them."""
    lines = vcl.splitlines()
    begin = next((number for number, line in enumerate(lines, 1) if line.startswith(_BEGIN)), len(lines))
    end = len(lines) - lines[::-1].index(_END) if _END in lines else begin
    source = lines[begin - 1].removeprefix(_BEGIN)

    def place(found: re.Match[str]) -> str:
        line = int(found["line"])
        if found["file"] != file:
            return found[0]
        if begin < line < end:
            return f"({source} Line {line - begin} Pos {found['pos']})"
        if line >= end > begin:
            return f"(after the end of {source}: is a brace, a string or a comment not closed?)"
        return f"(the gateway's own VCL Line {line} Pos {found['pos']})"

    return _PLACE.sub(place, compiler_output)
