"""Other caches on the same machine, set up as their documentation recommends for speed.

In:   a directory, and the port of an origin.
Out:  a running server with one worker on the measured core, which caches what the origin says may be cached.
"""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import lab

from loopback import free_port
from support.processes import children
from support.waiting import until

NGINX = lab.ROOT / "build" / "nginx" / "usr" / "sbin" / "nginx"
"""Debian's nginx, which tools/unpack_packages.py unpacks: installed, it would start a service."""

NGINX_CONF = """\
daemon off;
worker_processes 1;
pid {directory}/nginx.pid;
error_log {directory}/error.log;
events {{ worker_connections 1024; }}
http {{
    access_log off;
    sendfile on;
    tcp_nopush on;
    keepalive_requests 1000000000;
    client_body_temp_path {directory}/body;
    proxy_temp_path {directory}/proxy;
    fastcgi_temp_path {directory}/fastcgi;
    scgi_temp_path {directory}/scgi;
    uwsgi_temp_path {directory}/uwsgi;
    proxy_cache_path {directory}/cache levels=1:2 keys_zone=objects:16m max_size=256m inactive=1h use_temp_path=off;
    open_file_cache max=10000 inactive=1h;
    open_file_cache_valid 1h;
    upstream origin {{
        server 127.0.0.1:{origin};
        keepalive 16;
    }}
    server {{
        listen 127.0.0.1:{port};
        location / {{
            proxy_pass http://origin;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_set_header Host $host;
            proxy_cache objects;
            proxy_cache_key "$host$uri$arg_id$http_accept_language";
        }}
    }}
}}
"""

# HAProxy's key is host and target, and can't be changed.
HAPROXY_CFG = """\
global
    nbthread 1
defaults
    mode http
    timeout connect 5s
    timeout client 60s
    timeout server 60s
cache objects
    total-max-size 64
    max-age 3600
frontend clients
    bind 127.0.0.1:{port}
    http-request cache-use objects
    http-response cache-store objects
    default_backend origin
backend origin
    server origin 127.0.0.1:{origin}
"""


@contextlib.contextmanager
def nginx(directory: Path, origin: int) -> Iterator[lab.Server]:
    """Run nginx with a proxy_cache that has the policy's key."""
    port = free_port()
    directory.mkdir()
    conf = directory / "nginx.conf"
    conf.write_text(NGINX_CONF.format(directory=directory, port=port, origin=origin))
    command = [str(NGINX), "-p", str(directory), "-e", str(directory / "error.log"), "-c", str(conf)]
    with lab.running(_pinned(command), ("127.0.0.1", port), directory / "log") as process:
        # The master listens before it starts its worker.
        worker, *_ = until(lambda: _workers(process.pid), "nginx has a worker")
        yield lab.Server(worker, port)


def _workers(master: int) -> list[int]:
    return list(filter(_is_worker, children(master)))


def _is_worker(pid: int) -> bool:
    return Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"nginx: worker")


@contextlib.contextmanager
def haproxy(directory: Path, origin: int) -> Iterator[lab.Server]:
    """Run HAProxy with its cache."""
    port = free_port()
    directory.mkdir()
    cfg = directory / "haproxy.cfg"
    cfg.write_text(HAPROXY_CFG.format(port=port, origin=origin))
    environment = {**os.environ, "PATH": f"{os.environ['PATH']}{os.pathsep}/usr/sbin"}
    command = _pinned(["haproxy", "-db", "-f", str(cfg)])
    with lab.running(command, ("127.0.0.1", port), directory / "log", environment) as process:
        yield lab.Server(process.pid, port)


def _pinned(command: list[str]) -> list[str]:
    return ["taskset", "--cpu-list", str(lab.MEASURED_CORE), *command]
