"""Configuration files, command lines and certificates of a cluster."""

import io
import ipaddress
import json
import tarfile
import tomllib
from pathlib import Path

from cluster import archive, layout, lifecycle
from cluster.conformance import gatewayapi, suite
from cluster.node import configs, pki, programs

PACKAGES = Path("/packages")


def test_containerd_and_kubelet_agree_on_the_socket():
    toml = tomllib.loads(configs.containerd(PACKAGES))
    assert configs.kubelet()["containerRuntimeEndpoint"] == f"unix://{toml['grpc']['address']}"
    cri = toml["plugins"]["io.containerd.grpc.v1.cri"]
    assert cri["sandbox_image"] == layout.PAUSE_IMAGE
    assert cri["cni"]["bin_dir"].startswith(str(PACKAGES))


def test_address_ranges_are_private_and_apart():
    link = f"{layout.NODE_ADDRESS}/{layout.LINK_PREFIX}"
    ranges = [layout.PODS, layout.SERVICES, layout.LOAD_BALANCERS, str(ipaddress.ip_interface(link).network)]
    networks = [ipaddress.ip_network(text) for text in ranges]
    assert all(network.is_private for network in networks)
    assert not any(one.overlaps(other) for one in networks for other in networks if one is not other)
    unusable = ipaddress.ip_address(layout.UNUSABLE_ADDRESS)
    assert not any(unusable in network for network in networks)


def test_everything_that_runs_has_its_log_and_files_in_the_state_directory():
    every = [*programs.first(PACKAGES), *programs.then()]
    assert len({program.name for program in every}) == len(every) == 8
    for program in every:
        for word in program.command[1:]:
            path = word.partition("=")[2]
            assert not path.startswith("/") or Path(path).is_relative_to(layout.STATE), word


def test_a_client_is_known_by_its_certificate():
    admin = next(one for one in pki.CERTIFICATES if one.name == "admin")
    assert pki.subject(admin) == "/CN=kubernetes-admin/O=system:masters"
    config = pki.kubeconfig(Path("/pki"), "admin")
    assert config["users"][0]["user"]["client-key"] == "/pki/admin.key"


def test_the_api_server_is_known_by_every_name_that_it_is_called_by():
    (served,) = [one for one in pki.CERTIFICATES if one.name == "apiserver"]
    text = pki.extensions(served)
    for name in (f"IP:{layout.NODE_ADDRESS}", f"IP:{layout.API_SERVICE}", "DNS:kubernetes.default.svc"):
        assert name in text


def test_leftover_mounts_are_found_innermost_first():
    mounts = "tmpfs /a tmpfs rw\nproc /a/b/c proc rw\nproc /ab proc rw\n"
    assert lifecycle.mounts_below(Path("/a"), mounts) == ["/a/b/c", "/a"]


def test_an_image_has_its_program_its_names_and_its_user():
    packed = archive.pack(["a/echo:1", "a/echo:2"], {"/bin/echo": b"program"}, "/bin/echo", "1:1")
    with tarfile.open(fileobj=io.BytesIO(packed)) as image:
        (manifest,) = json.load(image.extractfile("manifest.json"))
        config = json.load(image.extractfile(manifest["Config"]))
        with tarfile.open(fileobj=image.extractfile(manifest["Layers"][0])) as layer:
            assert layer.getnames() == ["bin", "tmp", "bin/echo"]
            assert layer.getmember("bin/echo").mode == 0o755
    assert manifest["RepoTags"] == ["a/echo:1", "a/echo:2"]
    assert config["config"] == {"Entrypoint": ["/bin/echo"], "User": "1:1"}
    assert archive.pack(["a/echo:1", "a/echo:2"], {"/bin/echo": b"program"}, "/bin/echo", "1:1") == packed


def test_images_are_found_by_the_last_part_of_their_name():
    manifests = ["image: example.test/x/echo:v1\n  - image: 'echo:v2'\n", "image: example.test/echo-other:v1\n"]
    assert gatewayapi.images_in(manifests, "echo") == ["echo:v2", "example.test/x/echo:v1"]


def test_a_whole_run_has_no_shortcuts():
    command = suite.command(Path("/report.yaml"))
    shortcuts = ("skip", "run-test", "exempt", "timeout-config", "features")
    assert not [word for word in command if any(shortcut in word for shortcut in shortcuts)]
    assert "--conformance-profiles=GATEWAY-HTTP" in command
    assert "-test.timeout=45m" in command
