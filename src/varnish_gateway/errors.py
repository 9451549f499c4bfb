"""Every error that Varnish Gateway raises on purpose.

GatewayError
├── InvalidInput        the user has to change something; not retried until then
│   ├── UnknownKind     a document of a kind that Varnish Gateway does not read
│   ├── BadDocument     a document that violates its schema
│   ├── BadSettings     an environment variable or an option that can't be used
│   └── NotOurs         an object with a name that the operator needs belongs to another owner
├── VclRejected         varnishd rejected a VCL; the previous one keeps serving
├── ReloadRejected      ghost rejected a configuration; the previous one keeps serving
├── TlsRejected         HAProxy or OpenSSL rejected certificates; the previous ones keep serving
├── AdminError          varnishd's command line returned an error
├── ChildExited         a supervised process exited
├── NotConfirmed        a running gateway did not do or answer what a command asked it for
└── KubernetesError     a request to the API server failed
    ├── Unreachable     no response
    ├── NotLeading      not sent: another operator leads, or may lead by now
    └── ApiError        an error response; any status that is not below
        ├── NotFound        404
        ├── Conflict        409: the object changed since it was read, or exists already
        ├── FieldConflict   409: another field manager owns fields that the operator applies
        ├── Forbidden       401, 403
        ├── Invalid         400, 422: the API server rejects this object
        ├── Expired         410: the resource version is too old
        └── Throttled       429

``hint`` tells the user what to do about it.
"""


class GatewayError(Exception):
    """Base of all errors that are raised on purpose."""

    hint = ""


class InvalidInput(GatewayError):
    """The user has to change something."""


class UnknownKind(InvalidInput):
    """A document of a kind that Varnish Gateway does not read."""


class BadDocument(InvalidInput):
    """A document that violates its schema."""


class BadSettings(InvalidInput):
    """An environment variable or an option that can't be used."""


class NotOurs(InvalidInput):
    """An object with a name that the operator needs belongs to another owner."""


class VclRejected(GatewayError):
    """varnishd rejected a VCL; the previous one keeps serving."""

    hint = "traffic still uses the previous VCL; correct the user VCL and it is tried again"


class ReloadRejected(GatewayError):
    """ghost rejected a configuration; the previous one keeps serving."""

    hint = "traffic still uses the previous routing"


class TlsRejected(GatewayError):
    """HAProxy or OpenSSL rejected certificates; the previous ones keep serving."""

    hint = "traffic still uses the previous certificates; correct the Secret and it is tried again"


class AdminError(GatewayError):
    """varnishd's command line returned an error."""


class ChildExited(GatewayError):
    """A supervised process exited."""


class NotConfirmed(GatewayError):
    """A running gateway did not do or answer what a command asked it for."""


class KubernetesError(GatewayError):
    """A request to the API server failed."""


class Unreachable(KubernetesError):
    """No response: the connection failed, broke or timed out."""

    hint = "the request is retried; traffic is not affected"


class NotLeading(KubernetesError):
    """Not sent: another operator leads, or may lead by now."""


class ApiError(KubernetesError):
    """The API server returned an error. ``retry_after``: it asks for so many seconds of patience, 0 for none."""

    def __init__(self, message: str, *, status: int = 0, reason: str = "", retry_after: float = 0.0) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.retry_after = retry_after


class NotFound(ApiError):
    """The object or its kind does not exist."""


class Conflict(ApiError):
    """The object changed since it was read, or exists already."""


class FieldConflict(ApiError):
    """Another field manager owns fields that the operator applies."""

    hint = "remove these fields from the other manager's configuration, or release its ownership"

    def __init__(
        self, message: str, *, status: int = 409, managers: tuple[str, ...] = (), fields: tuple[str, ...] = ()
    ) -> None:
        super().__init__(message, status=status, reason="Conflict")
        self.managers = managers
        self.fields = fields


class Forbidden(ApiError):
    """The ServiceAccount lacks the permission."""

    hint = "compare the ClusterRoles and their bindings with deploy/"


class Invalid(ApiError):
    """The API server rejects this object; the message names the field."""


class Expired(ApiError):
    """The resource version to resume from is too old."""


class Throttled(ApiError):
    """The API server is overloaded."""

    def __init__(self, message: str, *, retry_after: float = 1.0) -> None:
        super().__init__(message, status=429, reason="TooManyRequests", retry_after=retry_after)
