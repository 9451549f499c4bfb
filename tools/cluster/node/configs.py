"""Configuration files of what runs on the node. Pure: JSON, which is YAML as well, and TOML for containerd.

What differs from defaults, and why: pods are under a control group that ``cgroups`` made; nothing
lowers its out-of-memory score, as root may lack the right to; nothing writes kernel settings that
are the machine's; no image is ever pulled or removed.
"""

from pathlib import Path
from typing import Any

from cluster import layout

Document = dict[str, Any]


def kubelet() -> Document:
    pki = layout.PKI
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "failCgroupV1": False,
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": layout.CGROUP,
        "oomScoreAdj": 0,
        "failSwapOn": False,
        "containerRuntimeEndpoint": f"unix://{layout.CONTAINERD_SOCKET}",
        "address": layout.NODE_ADDRESS,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(pki / "ca.crt")},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": str(pki / "kubelet.crt"),
        "tlsPrivateKeyFile": str(pki / "kubelet.key"),
        "clusterDNS": [layout.DNS_SERVICE],
        "clusterDomain": "cluster.local",
        "resolvConf": str(layout.CONFIGS / "resolv.conf"),
        "maxPods": 250,
        "imageGCHighThresholdPercent": 100,
        "evictionHard": {
            "memory.available": "100Mi",
            "nodefs.available": "1%",
            "nodefs.inodesFree": "1%",
            "imagefs.available": "1%",
            "imagefs.inodesFree": "1%",
        },
        "podLogsDir": str(layout.POD_LOGS),
        "volumePluginDir": str(layout.STATE / "volumeplugins"),
        "nodeStatusUpdateFrequency": "4s",
        "registryPullQPS": 0,
        "eventRecordQPS": 0,
        "serializeImagePulls": False,
        "shutdownGracePeriod": "0s",
    }


def proxy() -> Document:
    """Return the configuration of kube-proxy; zeros leave the machine's connection tracking alone."""
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "iptables",
        "clientConnection": {"kubeconfig": str(layout.KUBECONFIGS / "proxy.json")},
        "clusterCIDR": layout.PODS,
        "hostnameOverride": layout.NODE,
        "oomScoreAdj": 0,
        "bindAddress": layout.NODE_ADDRESS,
        "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
        "iptables": {"minSyncPeriod": "100ms", "syncPeriod": "30s"},
    }


def pod_network() -> Document:
    """Return the CNI configuration: one bridge on the node."""
    addresses = {
        "type": "host-local",
        "ranges": [[{"subnet": layout.PODS}]],
        "routes": [{"dst": "0.0.0.0/0"}],
        "dataDir": "/run/cni-addresses",
    }
    bridge = {"type": "bridge", "bridge": "cni0", "isGateway": True, "ipMasq": True, "hairpinMode": True}
    return {
        "cniVersion": "1.0.0",
        "name": "pods",
        "plugins": [
            {**bridge, "ipam": addresses},
            {"type": "portmap", "capabilities": {"portMappings": True}},
        ],
    }


def containerd(packages: Path) -> str:
    """Return the configuration of containerd, whose programs were unpacked under ``packages``."""
    unused = ", ".join(f'"io.containerd.snapshotter.v1.{name}"' for name in ("aufs", "btrfs", "zfs", "devmapper"))
    cri = 'plugins."io.containerd.grpc.v1.cri"'
    return f"""\
version = 2
root = "{layout.STATE}/containerd"
state = "/run/containerd"
disabled_plugins = [{unused}]

[grpc]
address = "{layout.CONTAINERD_SOCKET}"

[plugins."io.containerd.internal.v1.opt"]
path = "{layout.STATE}/opt"

[{cri}]
sandbox_image = "{layout.PAUSE_IMAGE}"
stream_server_address = "127.0.0.1"
restrict_oom_score_adj = true

[{cri}.cni]
bin_dir = "{packages}/usr/lib/cni"
conf_dir = "{layout.CONFIGS}/cni"

[{cri}.containerd]
snapshotter = "overlayfs"
default_runtime_name = "runc"

[{cri}.containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"

[{cri}.containerd.runtimes.runc.options]
BinaryName = "{packages}/usr/sbin/runc"
SystemdCgroup = false
"""
