"""Every error that Varnish Gateway raises on purpose.

GatewayError
├── InvalidInput        a person has to change something; never retried by itself
│   ├── UnknownKind     a document of a kind that we don't read
│   ├── BadDocument     a document that its schema refuses
│   ├── BadSettings     an environment variable or an option
│   └── NotOurs         an object of the name that we need belongs to somebody else
├── VclRejected         varnishd refused a VCL; the previous one is still serving
├── ReloadRefused       ghost refused a configuration; the previous one is still serving
├── TlsRefused          HAProxy, or OpenSSL, refused certificates; the previous ones are still serving
├── AdminError          varnishd's command line answered with an error
├── ChildExited         a supervised process ended
└── KubernetesError     the API server did not do what we asked
    ├── Unreachable     no answer
    ├── NotLeading      not sent: another operator leads, or may by now
    └── ApiRefused      an answer that says no; any status that is not below
        ├── NotFound        404
        ├── Conflict        409: somebody else was quicker, or the object is there already
        ├── FieldConflict   409: another field manager owns what we want to apply
        ├── Forbidden       401, 403
        ├── Invalid         400, 422: the API server does not take this object
        ├── Expired         410: the resource version is too old
        └── Throttled       429

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


class NotOurs(InvalidInput):
    """An object of the name that we need belongs to somebody else."""


class VclRejected(GatewayError):
    """varnishd refused a VCL; the previous one is still serving."""

    hint = "traffic still uses the previous VCL; correct the user VCL and it is tried again"


class ReloadRefused(GatewayError):
    """ghost refused a configuration; the previous one is still serving."""

    hint = "traffic still uses the previous routing"


class TlsRefused(GatewayError):
    """HAProxy, or OpenSSL, refused certificates; the previous ones are still serving."""

    hint = "traffic still uses the previous certificates; correct the Secret and it is tried again"


class AdminError(GatewayError):
    """varnishd's command line answered with an error."""


class ChildExited(GatewayError):
    """A supervised process ended."""


class KubernetesError(GatewayError):
    """The API server did not do what we asked."""


class Unreachable(KubernetesError):
    """No answer: the connection failed, broke or took too long."""

    hint = "it is tried again by itself; traffic is not touched"


class NotLeading(KubernetesError):
    """Not sent: another operator leads, or may by now."""


class ApiRefused(KubernetesError):
    """The API server's answer says no."""

    def __init__(self, message: str, *, status: int = 0, reason: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason


class NotFound(ApiRefused):
    """There is no such object, or no such kind."""


class Conflict(ApiRefused):
    """The object has changed since we read it, or is there already."""


class FieldConflict(ApiRefused):
    """Another field manager owns what we want to apply."""

    hint = "let go of these fields, or let the other manager remove them"

    def __init__(
        self, message: str, *, status: int = 409, managers: tuple[str, ...] = (), fields: tuple[str, ...] = ()
    ) -> None:
        super().__init__(message, status=status, reason="Conflict")
        self.managers = managers
        self.fields = fields


class Forbidden(ApiRefused):
    """Our ServiceAccount may not do this."""

    hint = "compare the ClusterRoles and their bindings with deploy/"


class Invalid(ApiRefused):
    """The API server does not take this object; the message names the field."""


class Expired(ApiRefused):
    """The resource version that we continue from is too old."""


class Throttled(ApiRefused):
    """The API server has too much to do."""

    def __init__(self, message: str, *, retry_after: float = 1.0) -> None:
        super().__init__(message, status=429, reason="TooManyRequests")
        self.retry_after = retry_after
