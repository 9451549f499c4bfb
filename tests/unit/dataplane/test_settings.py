from pathlib import Path

import pytest

from varnish_gateway import errors
from varnish_gateway.dataplane.process.memory import Memory
from varnish_gateway.dataplane.settings import extra_arguments, from_environment
from varnish_gateway.runtime.environment import Address

SEED = {
    "NAMESPACE": "default",
    "VARNISH_ADMIN_PORT": "6082",
    "VARNISH_HTTP_ADDR": "localhost:8080",
    "VCL_PATH": "/tmp/main.vcl",
    "ROUTING_CONFIG_PATH": "/tmp/routing.json",
    "GHOST_CONFIG_PATH": "/tmp/ghost.json",
    "WORK_DIR": "/tmp/varnish",
    "HEALTH_ADDR": ":8081",
    "VARNISHD_EXTRA_ARGS": "-p;thread_pool_stack=160k",
}


def test_example_of_version_1():
    settings = from_environment(SEED)
    assert settings.admin_port == 6082
    assert settings.work_dir == Path("/tmp/varnish")
    assert settings.health == Address("", 8081)
    assert settings.extra_args == ("-p", "thread_pool_stack=160k")
    assert [socket.name for socket in settings.sockets.plain] == ["ghost-reload", "http-8080"]


def test_defaults_without_any_variable():
    settings = from_environment({"VARNISH_LISTEN": ""})
    assert settings.storage == ("malloc,256m",)
    assert settings.sockets.plain[1].argument == "http-80=:80,http"
    assert settings.ghost_config_path == Path("/var/run/varnish/ghost.json")
    assert settings.cached_routes == 200


def test_cache_of_a_pod_is_half_of_its_memory():
    def storage(limit: int | None, **env: str) -> tuple[str, ...]:
        return from_environment({"CONFIGMAP_NAME": "c", **env}, Memory(limit, 64 * 2**30)).storage

    assert storage(None) == ("malloc,256m",)
    assert storage(None, MEMORY_REQUEST=str(2**30)) == ("malloc,512m",)
    assert storage(None, MEMORY_REQUEST="0") == ("malloc,256m",)  # Kubernetes writes that for none
    assert storage(4 * 2**30, MEMORY_REQUEST=str(2**30)) == ("malloc,2048m",)
    assert storage(4 * 2**30, VARNISH_STORAGE="malloc,75%") == ("malloc,3072m",)
    assert storage(4 * 2**30, VARNISH_STORAGE="malloc,1g") == ("malloc,1g",)


def test_cache_from_files_is_that_of_one_machine():
    memory = Memory(physical=64 * 2**30)
    assert from_environment({}, memory).storage == ("malloc,1024m",)
    assert from_environment({"VARNISH_STORAGE": "malloc,50%"}, memory).storage == ("malloc,32768m",)


def test_every_variable_is_read():
    settings = from_environment(
        SEED
        | {
            "VARNISH_LISTEN": "a=:81",
            "VARNISH_DIR": "/v",
            "VARNISH_STORAGE": "malloc,1m;big=file,/x,1g",
            "ENDPOINTS_PATH": "/e",
            "DRAIN_SECONDS": "1.5",
            "LOG_LEVEL": "warn",
            "TLS_CERT_DIR": "/t",
            "INVALIDATION_TOKENS_FILE": "/s/tokens.json",
            "POD_NAME": "p",
            "GATEWAY_NAME": "g",
            "CONFIGMAP_NAME": "c",
            "DASHBOARD_ADDR": "[::1]:9",
            "METRICS_CACHED_ROUTES": "7",
        }
    )
    assert settings.sockets.plain[1].argument == "a=:81,http"
    assert settings.storage == ("malloc,1m", "big=file,/x,1g")
    assert (settings.drain_seconds, settings.log_level) == (1.5, "WARNING")
    assert settings.dashboard == Address("::1", 9)
    assert settings.invalidation_tokens == Path("/s/tokens.json")
    assert settings.cached_routes == 7


@pytest.mark.parametrize("flag", ["-M", "-S", "-F", "-f", "-n", "-n/tmp"])
def test_argument_of_the_chaperone_itself_is_rejected(flag):
    with pytest.raises(errors.BadSettings, match=f"VARNISHD_EXTRA_ARGS: {flag[:2]} belongs to the chaperone"):
        extra_arguments(f"-p;x=1;{flag}")


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("VARNISH_ADMIN_PORT", "many"),
        ("VARNISH_ADMIN_PORT", "70000"),
        ("HEALTH_ADDR", "8081"),
        ("DRAIN_SECONDS", "long"),
        ("DRAIN_SECONDS", "-1"),
        ("DRAIN_DELAY_SECONDS", "soon"),
        ("DRAIN_DELAY_SECONDS", "26"),
        ("CONFIGMAP_NAME", "My/Map"),
        ("SECRET_NAME", "-"),
        ("NAMESPACE", "a b"),
        ("LOG_LEVEL", "loud"),
        ("MEMORY_REQUEST", "512Mi"),
        ("METRICS_CACHED_ROUTES", "all"),
        ("VARNISH_HTTP_ADDR", "localhost"),
    ],
)
def test_bad_value_is_rejected_with_variable_and_remedy(variable, value):
    with pytest.raises(errors.BadSettings, match=rf"{variable}: .*{value}.*; write "):
        from_environment({variable: value})


def test_configmap_name_means_cluster_and_sets_the_drain_delay():
    assert from_environment({}).drain_delay_seconds == 0
    settings = from_environment({"CONFIGMAP_NAME": "gw.1-vcl", "SECRET_NAME": "gw.1-tls"})
    assert (settings.configmap_name, settings.secret_name) == ("gw.1-vcl", "gw.1-tls")
    assert (settings.drain_seconds, settings.drain_delay_seconds) == (25, 5)


def test_a_short_drain_has_a_short_delay():
    settings = from_environment({"CONFIGMAP_NAME": "c", "DRAIN_SECONDS": "2"})
    assert (settings.drain_seconds, settings.drain_delay_seconds) == (2, 2)
