"""Find the API server and the credentials for it.

In:   the environment, and a kubeconfig or a context if the user names one.
Out:  Connection: address, TLS and credentials, ready for the client.
Order: the named kubeconfig, KUBECONFIG (a list of files; the first that defines a value wins), the
pod's own ServiceAccount, ~/.kube/config. Raises BadSettings with what to change.
"""

import base64
import binascii
import os
import ssl
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml
from msgspec import Struct

from varnish_gateway.errors import BadSettings

POD_FILES = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_PLUGINS = "make a kubeconfig with a token (kubectl create token) or a client certificate instead"


class Connection(Struct, frozen=True):
    """Where the API server is. Client certificates are inside ssl; token_file is read again when it changes."""

    server: str
    ssl: ssl.SSLContext | None
    token_file: Path | None = None
    token: str | None = None
    namespace: str = "default"

    def __repr__(self) -> str:
        """Leave the token out: this ends up in logs."""
        return f"Connection({self.server!r}, namespace={self.namespace!r})"


def connection(
    environment: Mapping[str, str],
    *,
    kubeconfig: Path | None = None,
    context: str | None = None,
    pod_files: Path = POD_FILES,
) -> Connection:
    """Return the connection that environment and options select."""
    if kubeconfig is not None:
        return _from_files([kubeconfig], context, must_exist=True)
    if listed := [Path(name) for name in environment.get("KUBECONFIG", "").split(os.pathsep) if name]:
        return _from_files(listed, context, must_exist=False)
    if context is None and (pods := _in_cluster(environment, pod_files)):
        return pods
    if home := environment.get("HOME"):
        return _from_files([Path(home) / ".kube" / "config"], context, must_exist=False)
    raise BadSettings("no API server: set KUBECONFIG, or run in a pod that has a ServiceAccount")


def _in_cluster(environment: Mapping[str, str], files: Path) -> Connection | None:
    """Return the connection of a pod, or None outside of one."""
    host, port = environment.get("KUBERNETES_SERVICE_HOST"), environment.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        return None
    token_file, authority, namespace = files / "token", files / "ca.crt", files / "namespace"
    if not token_file.is_file():
        raise BadSettings(
            f"KUBERNETES_SERVICE_HOST is set but {token_file} is missing: mount a ServiceAccount token"
            " (automountServiceAccountToken: true) or set KUBECONFIG"
        )
    return Connection(
        server=f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
        ssl=_trust(authority.read_text() if authority.is_file() else None, authority),
        token_file=token_file,
        namespace=namespace.read_text().strip() if namespace.is_file() else "default",
    )


def _from_files(paths: Sequence[Path], context: str | None, *, must_exist: bool) -> Connection:
    """Return the connection of one context. Files are merged like kubectl does: the first to define a name wins."""
    loaded = [(path, _load(path)) for path in paths if must_exist or path.is_file()]
    if not loaded:
        raise BadSettings(f"no API server: {' and '.join(map(str, paths))} can't be found; set KUBECONFIG")
    chosen = context or next((str(name) for _, config in loaded if (name := config.get("current-context"))), None)
    if chosen is None:
        raise BadSettings(f"{paths[0]} has no current-context: choose one with kubectl config use-context")
    _, about = _named(loaded, "context", chosen)
    cluster_file, cluster = _named(loaded, "cluster", str(about.get("cluster")))
    user_file, user = _named(loaded, "user", str(about["user"])) if about.get("user") else (cluster_file, {})
    return _assembled(
        _Section(cluster, cluster_file), _Section(user, user_file), str(about.get("namespace") or "default")
    )


class _Section:
    """One cluster or user of a kubeconfig; paths are relative to the file that contains it."""

    def __init__(self, values: Mapping[str, Any], file: Path) -> None:
        self._values = values
        self._file = file

    def get(self, name: str) -> Any:  # noqa: ANN401 (YAML holds anything)
        return self._values.get(name)

    def path(self, name: str) -> Path | None:
        """Return a path that is written in the file."""
        return self._file.parent / str(value) if (value := self._values.get(name)) else None

    def text(self, name: str) -> str | None:
        """Return the decoded value of ``NAME-data``, or the content of the file at the path NAME."""
        if data := self._values.get(f"{name}-data"):
            try:
                return base64.b64decode(str(data), validate=True).decode()
            except (binascii.Error, UnicodeDecodeError) as error:
                raise BadSettings(f"{self._file}: {name}-data is not base64 of a PEM file") from error
        if (path := self.path(name)) is None:
            return None
        try:
            return path.read_text()
        except OSError as error:
            raise BadSettings(f"{self._file}: can't read {name} {path}: {error.strerror}") from error


def _assembled(cluster: _Section, user: _Section, namespace: str) -> Connection:
    server = str(cluster.get("server") or "").rstrip("/")
    if not server.startswith(("https://", "http://")):
        raise BadSettings(f"the kubeconfig's server {server!r} is not an http or https address")
    for plugin in ("exec", "auth-provider"):
        if user.get(plugin):
            raise BadSettings(f"the kubeconfig's user needs {plugin}, a plugin that can't be run here: {_PLUGINS}")
    if user.get("username"):
        raise BadSettings(f"the kubeconfig's user has a password, which API servers no longer accept: {_PLUGINS}")
    if cluster.get("proxy-url"):
        raise BadSettings("the kubeconfig's cluster has a proxy-url: connect without a proxy")
    return Connection(
        server=server,
        ssl=_tls(cluster, user) if server.startswith("https:") else None,
        token_file=user.path("tokenFile"),
        token=str(user.get("token")) if user.get("token") else None,
        namespace=namespace,
    )


def _tls(cluster: _Section, user: _Section) -> ssl.SSLContext:
    context = _trust(cluster.text("certificate-authority"), cluster.path("certificate-authority"))
    if cluster.get("insecure-skip-tls-verify"):
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    certificate, key = user.text("client-certificate"), user.text("client-key")
    if certificate and key:
        with _pem_file(certificate + "\n" + key) as path:
            try:
                context.load_cert_chain(path)
            except ssl.SSLError as error:
                raise BadSettings(f"the kubeconfig's client certificate can't be used: {error}") from error
    elif certificate or key:
        raise BadSettings("the kubeconfig has only one of client-certificate and client-key: give both")
    return context


def _trust(authority: str | None, origin: Path | None) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cadata=authority)
    except ssl.SSLError as error:
        raise BadSettings(
            f"the certificate authority {origin or 'in the kubeconfig'} can't be used: {error}"
        ) from error
    # Newer Pythons ask for extensions that the authorities of many clusters lack; no other client does.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


@contextmanager
def _pem_file(content: str) -> Iterator[Path]:
    """Give a file that only we can read: Python's ssl takes client certificates from files alone."""
    with tempfile.NamedTemporaryFile("w", prefix="vgw-", suffix=".pem") as file:
        file.write(content)
        file.flush()
        yield Path(file.name)


def _load(path: Path) -> dict[str, Any]:
    try:
        config = yaml.safe_load(path.read_text())
    except OSError as error:
        raise BadSettings(f"can't read the kubeconfig {path}: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise BadSettings(f"the kubeconfig {path} is not YAML: {error}") from error
    if not isinstance(config, dict):
        raise BadSettings(f"{path} is no kubeconfig")
    return config


def _named(loaded: Sequence[tuple[Path, Mapping[str, Any]]], what: str, name: str) -> tuple[Path, Mapping[str, Any]]:
    """Return the first section of that name, with the file that holds it."""
    for path, config in loaded:
        for entry in config.get(f"{what}s") or ():
            if isinstance(entry, Mapping) and entry.get("name") == name:
                return path, entry.get(what) or {}
    raise BadSettings(f"the kubeconfig {loaded[0][0]} has no {what} {name!r}")
