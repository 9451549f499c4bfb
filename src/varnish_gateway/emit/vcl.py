"""main.vcl: preamble, user VCL, postamble.

In:   the user's VCL, if there is one, and whether the pods that read it carry out cache policies.
Out:  the VCL that varnishd compiles, the same on every machine.
Pure. VCL concatenates subroutines of one name: the gateway decides first, the user's code runs
next, and what is left undecided is decided last. vcl_synth and vcl_backend_error belong to the
user: each begins with one call, which acts only if a stale object takes the place of an error.
The text is the same whatever the policies are: they are data in ghost.
"""

import re

from varnish_gateway.ir import UserVcl

_BEGINNING = """\
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

sub vcl_pipe {
    set bereq.backend = ghost.fetch(bereq.backend);
}

sub vcl_backend_fetch {
    set bereq.backend = ghost.fetch(bereq.backend);
}

sub vcl_deliver {
    ghost.deliver();
}
"""

PREAMBLE = f"""\
{_BEGINNING}
sub vcl_hash {{
    ghost.hash();
}}

sub vcl_miss {{
    ghost.miss();
}}

sub vcl_backend_response {{
    ghost.response();
    if (ghost.store()) {{
        return (abandon);
    }}
}}

// A stale object in place of the error. In every other case the user's code runs.
sub vcl_backend_error {{
    if (ghost.stale()) {{
        return (abandon);
    }}
}}

sub vcl_synth {{
    if (ghost.revived()) {{
        return (restart);
    }}
}}
"""

POSTAMBLE = """\
// What user VCL changed about the request is routed again; what it left undecided is cached if
// a policy says so.
sub vcl_recv {
    if (ghost.changed()) {
        set req.backend_hint = ghost.recv();
    }
    if (ghost.websocket()) {
        return (pipe);
    }
    if (ghost.lookup()) {
        return (hash);
    }
    return (pass);
}

// The built-in VCL adds nothing to a key that is complete.
sub vcl_hash {
    if (ghost.keyed()) {
        return (lookup);
    }
}

// What is passed is passed whole: the built-in VCL would take the body off a GET.
sub vcl_backend_fetch {
    if (bereq.uncacheable) {
        return (fetch);
    }
}

// The built-in VCL would undo what a policy decided.
sub vcl_backend_response {
    if (ghost.decided()) {
        return (deliver);
    }
}
"""

_PREAMBLE_WITHOUT_CACHING = f"""\
{_BEGINNING}
sub vcl_hash {{
    hash_data(ghost.rule());
}}

sub vcl_backend_response {{
    ghost.response();
}}
"""

_POSTAMBLE_WITHOUT_CACHING = """\
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


def main_vcl(user: UserVcl | None = None, *, caching: bool = True) -> str:
    """Return the whole VCL; without ``caching``, for pods that lack the capability cache-policies."""
    preamble = PREAMBLE if caching else _PREAMBLE_WITHOUT_CACHING
    postamble = POSTAMBLE if caching else _POSTAMBLE_WITHOUT_CACHING
    if user is None:
        return f"{preamble}\n{postamble}"
    return f"{preamble}\n{_BEGIN}{user.source}\n{user.text.rstrip()}\n{_END}\n\n{postamble}"


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
