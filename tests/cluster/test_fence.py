"""User VCL in a gateway pod: chaperone, HAProxy and varnishd have the same user there."""

import asyncio

import pytest

from cluster.api import Api, Document
from support.http.traffic import Target, ask
from support.kube.cluster_harness import ClusterHarness, class_parameters
from varnish_gateway.ir import pod

TOKEN = f"{pod.TOKEN.path}/token"
READABLE = "/etc/passwd"
VCL = f"""
import std;

sub vcl_recv {{
    return (synth(200));
}}

sub vcl_synth {{
    set resp.body = std.fileread("{READABLE}") + "token: <" + std.fileread("{TOKEN}") + ">";
    return (deliver);
}}
"""


def user_vcl(namespace: str) -> Document:
    metadata = {"name": "user-vcl", "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"user.vcl": VCL}}


@pytest.mark.timeout(300)
async def test_user_vcl_in_a_pod_reads_no_token(api: Api, harness: ClusterHarness):
    harness.put(user_vcl(harness.namespace))
    reference = {"name": "user-vcl", "namespace": harness.namespace}
    with class_parameters(api, "fence", userVCLConfigMapRef=reference):
        address = await asyncio.to_thread(harness.gateway)
        streams = await asyncio.open_connection(address, 80)
        status, body, _ = await ask(Target(address, "a.test"), streams)
        streams[1].close()
    assert status == 200
    assert b"root:" in body, "it reads files that are no secret"
    assert body.endswith(b"token: <>")
