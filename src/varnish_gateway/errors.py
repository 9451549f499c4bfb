"""Every error that Varnish Gateway raises on purpose.

GatewayError
├── InvalidInput        a person has to change something; never retried by itself
│   ├── UnknownKind     a document of a kind that we don't read
│   ├── BadDocument     a document that its schema refuses
│   └── BadSettings     an environment variable or an option
├── VclRejected         varnishd refused a VCL; the previous one is still serving
├── ReloadRefused       ghost refused a configuration; the previous one is still serving
├── AdminError          varnishd's command line answered with an error
└── ChildExited         a supervised process ended

``hint`` says what a person can do about it.
"""


class GatewayError(Exception):
    """Base of all."""

    hint = ""


class InvalidInput(GatewayError):
    """A person has to change something."""


class UnknownKind(InvalidInput):
    """A document of a kind that we don't read."""


class BadDocument(InvalidInput):
    """A document that its schema refuses."""


class BadSettings(InvalidInput):
    """An environment variable or an option that can't be used."""


class VclRejected(GatewayError):
    """varnishd refused a VCL; the previous one is still serving."""

    hint = "traffic still uses the previous VCL; correct the user VCL and it is tried again"


class ReloadRefused(GatewayError):
    """ghost refused a configuration; the previous one is still serving."""

    hint = "traffic still uses the previous routing"


class AdminError(GatewayError):
    """varnishd's command line answered with an error."""


class ChildExited(GatewayError):
    """A supervised process ended."""
