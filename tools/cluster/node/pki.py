"""Keys, certificates and kubeconfigs of a cluster, made by openssl for each cluster.

In:   the directory they go to.
Out:  ca, front-proxy-ca, sa (for tokens), one NAME.crt and NAME.key for each certificate below.
"""

import json
from pathlib import Path
from typing import Any, NamedTuple

from cluster import layout
from cluster.openssl import create_key, openssl

DAYS = "30"


class Certificate(NamedTuple):
    """A certificate: who it is for, and which authority signs it."""

    name: str
    user: str
    group: str = ""
    names: tuple[str, ...] = ()
    authority: str = "ca"


SERVICE_NAMES = ("kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local")
CERTIFICATES = (
    Certificate(
        "apiserver",
        "kube-apiserver",
        names=(
            *(f"DNS:{name}" for name in (*SERVICE_NAMES, "localhost")),
            "IP:127.0.0.1",
            f"IP:{layout.NODE_ADDRESS}",
            f"IP:{layout.API_SERVICE}",
        ),
    ),
    Certificate("kubelet-client", "kube-apiserver-kubelet-client", layout.KUBELET_ADMINS),
    Certificate("front-proxy-client", "front-proxy-client", authority="front-proxy-ca"),
    Certificate("admin", "kubernetes-admin", "system:masters"),
    Certificate("controllers", "system:kube-controller-manager"),
    Certificate("scheduler", "system:kube-scheduler"),
    Certificate("proxy", "system:kube-proxy"),
    Certificate(
        "kubelet",
        f"system:node:{layout.NODE}",
        "system:nodes",
        (f"DNS:{layout.NODE}", f"IP:{layout.NODE_ADDRESS}", "IP:127.0.0.1"),
    ),
)
WITH_KUBECONFIG = ("admin", "controllers", "scheduler", "proxy", "kubelet")


def create(directory: Path) -> None:
    """Create everything in an empty private directory."""
    for authority in ("ca", "front-proxy-ca"):
        create_key(directory, f"{authority}.key")
        openssl(directory, "req", "-x509", "-new", "-key", f"{authority}.key", "-subj", f"/CN={authority}",
                 "-days", DAYS, "-addext", "keyUsage=critical,keyCertSign,digitalSignature",
             "-out", f"{authority}.crt")  # fmt: skip
    openssl(directory, "genrsa", "-out", "sa.key", "2048")
    openssl(directory, "rsa", "-in", "sa.key", "-pubout", "-out", "sa.pub")
    for certificate in CERTIFICATES:
        _sign(directory, certificate)


def subject(certificate: Certificate) -> str:
    """Return the subject by which Kubernetes knows user and group."""
    return f"/CN={certificate.user}" + (f"/O={certificate.group}" if certificate.group else "")


def extensions(certificate: Certificate) -> str:
    """Return the extensions as openssl reads them."""
    lines = [
        "keyUsage=critical,digitalSignature",
        "extendedKeyUsage=serverAuth,clientAuth",
        "authorityKeyIdentifier=keyid",
    ]
    if certificate.names:
        lines.append(f"subjectAltName={','.join(certificate.names)}")
    return "\n".join(lines) + "\n"


def kubeconfig(directory: Path, name: str) -> dict[str, Any]:
    """Return the configuration of a client that has the certificate of this name."""
    cluster = {"server": layout.SERVER, "certificate-authority": str(directory / "ca.crt")}
    user = {"client-certificate": str(directory / f"{name}.crt"), "client-key": str(directory / f"{name}.key")}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": layout.NAME, "cluster": cluster}],
        "users": [{"name": name, "user": user}],
        "contexts": [{"name": layout.NAME, "context": {"cluster": layout.NAME, "user": name}}],
        "current-context": layout.NAME,
    }


def write_kubeconfigs(certificates: Path, target: Path) -> None:
    for name in WITH_KUBECONFIG:
        (target / f"{name}.json").write_text(json.dumps(kubeconfig(certificates, name), indent=2))


def _sign(directory: Path, certificate: Certificate) -> None:
    name, authority = certificate.name, certificate.authority
    create_key(directory, f"{name}.key")
    (directory / f"{name}.ext").write_text(extensions(certificate))
    openssl(directory, "req", "-new", "-key", f"{name}.key", "-subj", subject(certificate), "-out", f"{name}.csr")
    openssl(directory, "x509", "-req", "-in", f"{name}.csr", "-CA", f"{authority}.crt", "-CAkey", f"{authority}.key",
             "-CAcreateserial", "-days", DAYS, "-extfile", f"{name}.ext", "-out", f"{name}.crt")  # fmt: skip
