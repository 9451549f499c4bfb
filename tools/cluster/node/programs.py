"""Command lines of what runs on the node. Pure."""

import sys
from pathlib import Path
from typing import NamedTuple

from cluster import layout
from cluster.layout import BIN, CONFIGS, KUBECONFIGS, NODE, NODE_ADDRESS, PKI, STATE


class Program(NamedTuple):
    """Something that the node keeps running."""

    name: str
    command: tuple[str, ...]


def first(packages: Path) -> list[Program]:
    """Return what runs before there is an API server, and the API server."""
    return [
        Program("containerd", (f"{packages}/usr/bin/containerd", "--config", f"{CONFIGS}/containerd.toml")),
        _etcd(),
        _api_server(),
    ]


def then() -> list[Program]:
    """Return what needs an API server."""
    return [_controllers(), _scheduler(), _kubelet(), _proxy(), _load_balancer()]


def _etcd() -> Program:
    clients, peers = "http://127.0.0.1:2379", "http://127.0.0.1:2380"
    return _program(
        "etcd",
        f"--data-dir={STATE}/etcd",
        f"--listen-client-urls={clients}",
        f"--advertise-client-urls={clients}",
        f"--listen-peer-urls={peers}",
        f"--initial-advertise-peer-urls={peers}",
        f"--initial-cluster=default={peers}",
        "--unsafe-no-fsync",
    )


def _api_server() -> Program:
    return _program(
        "kube-apiserver",
        "--etcd-servers=http://127.0.0.1:2379",
        "--bind-address=0.0.0.0",
        f"--secure-port={layout.API_PORT}",
        f"--advertise-address={NODE_ADDRESS}",
        f"--tls-cert-file={PKI}/apiserver.crt",
        f"--tls-private-key-file={PKI}/apiserver.key",
        f"--client-ca-file={PKI}/ca.crt",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--allow-privileged=true",
        f"--service-cluster-ip-range={layout.SERVICES}",
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
        f"--service-account-key-file={PKI}/sa.pub",
        f"--service-account-signing-key-file={PKI}/sa.key",
        f"--kubelet-client-certificate={PKI}/kubelet-client.crt",
        f"--kubelet-client-key={PKI}/kubelet-client.key",
        f"--kubelet-certificate-authority={PKI}/ca.crt",
        "--kubelet-preferred-address-types=InternalIP",
        f"--requestheader-client-ca-file={PKI}/front-proxy-ca.crt",
        "--requestheader-allowed-names=front-proxy-client",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        f"--proxy-client-cert-file={PKI}/front-proxy-client.crt",
        f"--proxy-client-key-file={PKI}/front-proxy-client.key",
        "--profiling=false",
    )


def _controllers() -> Program:
    return _program(
        "kube-controller-manager",
        *_kubeconfigs("controllers"),
        "--leader-elect=false",
        "--use-service-account-credentials=true",
        f"--service-account-private-key-file={PKI}/sa.key",
        f"--root-ca-file={PKI}/ca.crt",
        f"--cluster-signing-cert-file={PKI}/ca.crt",
        f"--cluster-signing-key-file={PKI}/ca.key",
        "--allocate-node-cidrs=false",
        f"--cluster-cidr={layout.PODS}",
        "--kube-api-qps=200",
        "--kube-api-burst=400",
        "--concurrent-namespace-syncs=20",
        "--profiling=false",
    )


def _scheduler() -> Program:
    return _program("kube-scheduler", *_kubeconfigs("scheduler"), "--leader-elect=false", "--profiling=false")


def _kubelet() -> Program:
    return _program(
        "kubelet",
        f"--config={CONFIGS}/kubelet.json",
        f"--kubeconfig={KUBECONFIGS}/kubelet.json",
        f"--hostname-override={NODE}",
        f"--node-ip={NODE_ADDRESS}",
        f"--root-dir={STATE}/kubelet",
        f"--cert-dir={STATE}/kubelet/pki",
    )


def _proxy() -> Program:
    return _program("kube-proxy", f"--config={CONFIGS}/proxy.json")


def _load_balancer() -> Program:
    return Program("load-balancer", (sys.executable, "-m", "cluster.node.loadbalancer"))


def _kubeconfigs(name: str) -> list[str]:
    """Return the same kubeconfig for everything that a component asks the API server."""
    path = KUBECONFIGS / f"{name}.json"
    flags = ("--kubeconfig", "--authentication-kubeconfig", "--authorization-kubeconfig")
    return [f"{flag}={path}" for flag in flags]


def _program(name: str, *arguments: str) -> Program:
    return Program(name, (str(BIN / name), *arguments))
