"""Objects of users that are called like a Gateway, and installations from before ours were called otherwise."""

from support.kube.documents import gateway, service
from support.simulation.documents import HOME, OURS, Document, basics, certificate, https, pod
from support.simulation.operators import SimulatedOperator, at_rest
from support.simulation.store import Store, key_of
from support.simulation.virtualtime import in_virtual_time
from varnish_gateway.api import Key
from varnish_gateway.emit import manifests, names
from varnish_gateway.emit.manifests import GatewayShape, Installation
from varnish_gateway.ir import Tls, wire

G1 = Key("Gateway", HOME, "g1")
FORMER_SECRET, SECRET = (Key("Secret", HOME, name) for name in ("g1-tls", "g1-vgw-tls"))
KINDS = frozenset(names.WORKLOAD_KINDS)


async def rest(store: Store, operator: SimulatedOperator) -> None:
    assert await at_rest(store, [operator])
    store.give_addresses()
    assert await at_rest(store, [operator])
    assert operator.bugs == []


async def assert_nothing_left_to_write(store: Store, operator: SimulatedOperator) -> None:
    await operator.stop()
    fresh = SimulatedOperator(store)
    await rest(store, fresh)
    assert fresh.writing.writes == []
    await fresh.stop()


def earlier_installation(name: str = "g1", **spec) -> Store:
    """Return a cluster where an earlier version created the objects of a Gateway, with one pod."""
    store = Store()
    store.put(*basics(), gateway(HOME, name, OURS, **spec))
    uid = store.documents[Key("Gateway", HOME, name)]["metadata"]["uid"]
    listener = wire.Listener(name="http", socket="http-80", port=80)
    shape = GatewayShape(namespace=HOME, name=name, uid=uid, class_name=OURS, listeners=(listener,), former=KINDS)
    made = manifests.objects(shape, Installation(image="of-an-earlier-version"))
    secret = names.former_secret(name)
    for key, manifest in made.items():
        if key.kind == "Deployment":
            (container,) = manifest["spec"]["template"]["spec"]["containers"]
            container["env"] = [{"name": "SECRET_NAME", "value": secret}]
        store.apply(manifest, names.GATEWAY_MANAGER)
    store.apply(manifests.secret(shape, Tls(), secret), names.GATEWAY_MANAGER)
    store.put(pod_reading(secret, f"{name}-earlier", name))
    return store


def pod_reading(secret: str, name: str, of: str = "g1") -> Document:
    spec = {"containers": [{"name": "gateway", "env": [{"name": "SECRET_NAME", "value": secret}]}]}
    return {**pod(name, of, OURS), "spec": spec}


def uids(store: Store, name: str) -> dict[str, str]:
    """Return the objects of that name by kind."""
    return {
        key.kind: document["metadata"]["uid"]
        for key, document in store.documents.items()
        if key.name == name and key.kind in KINDS
    }


def secrets_of_role(store: Store) -> list[str]:
    return list(store.documents[Key("Role", HOME, "g1")]["rules"][2]["resourceNames"])


@in_virtual_time
async def test_objects_of_a_user_that_are_called_like_the_gateway_block_nothing():
    issued = {**certificate("www.example.com"), "metadata": {"name": "g1-tls", "namespace": HOME}}
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "g1", "namespace": HOME}}
    theirs = [service(HOME, "g1"), issued, account]
    store = Store()
    store.put(*basics(), *theirs)
    before = {key_of(one): store.documents[key_of(one)] for one in theirs}
    listener = https() | {"tls": {"certificateRefs": [{"name": "g1-tls"}]}}
    store.put(gateway(HOME, "g1", OURS, listeners=[listener]))
    operator = SimulatedOperator(store)
    await rest(store, operator)
    assert store.documents[G1]["status"]["addresses"], "our own Service has one"
    assert names.TLS in store.documents[SECRET]["data"]
    (status,) = store.documents[G1]["status"]["listeners"]
    assert {one["type"]: one["status"] for one in status["conditions"]}["ResolvedRefs"] == "True"
    assert {key: document for key, document in store.documents.items() if key in before} == before
    await operator.stop()


@in_virtual_time
async def test_earlier_installation_keeps_its_address_and_its_pods():
    store = earlier_installation()
    before = uids(store, "g1")
    operator = SimulatedOperator(store)
    await rest(store, operator)
    assert uids(store, "g1") == before
    assert {*before} == {"ServiceAccount", "Role", "RoleBinding", "Service", "Deployment"}
    assert uids(store, "g1-vgw") == {}
    await operator.stop()


@in_virtual_time
async def test_former_secret_stays_until_no_pod_reads_it():
    store = earlier_installation()
    operator = SimulatedOperator(store)
    await rest(store, operator)
    template = store.documents[Key("Deployment", HOME, "g1")]["spec"]["template"]["spec"]
    assert {"name": "SECRET_NAME", "value": SECRET.name} in template["containers"][0]["env"]
    assert {FORMER_SECRET, SECRET} <= store.documents.keys()
    assert secrets_of_role(store) == [SECRET.name, FORMER_SECRET.name]
    store.put(pod_reading(SECRET.name, "g1-current"))
    await rest(store, operator)
    assert FORMER_SECRET in store.documents, "the earlier pod still serves"
    store.delete(Key("Pod", HOME, "g1-earlier"))
    await rest(store, operator)
    assert FORMER_SECRET not in store.documents
    assert secrets_of_role(store) == [SECRET.name]
    await assert_nothing_left_to_write(store, operator)


@in_virtual_time
async def test_certificate_that_our_former_secret_kept_out_is_served_after_the_migration():
    """Its issuer could never change the type of the Secret that an earlier version had created under its name."""
    listener = https() | {"tls": {"certificateRefs": [{"name": FORMER_SECRET.name}]}}
    store = earlier_installation(listeners=[listener])
    operator = SimulatedOperator(store)
    await rest(store, operator)
    store.delete(Key("Pod", HOME, "g1-earlier"))
    await rest(store, operator)
    assert FORMER_SECRET not in store.documents
    issued = {**certificate("www.example.com"), "metadata": {"name": FORMER_SECRET.name, "namespace": HOME}}
    store.put(issued)
    await rest(store, operator)
    assert names.TLS in store.documents[SECRET]["data"]
    await assert_nothing_left_to_write(store, operator)
    assert FORMER_SECRET in store.documents


@in_virtual_time
async def test_recreated_gateway_has_the_current_names():
    store = earlier_installation()
    store.delete(G1)
    store.put(gateway(HOME, "g1", OURS))
    operator = SimulatedOperator(store)
    await rest(store, operator)
    assert uids(store, "g1") == {}
    assert {"Service", "Deployment"} <= uids(store, "g1-vgw").keys()
    assert FORMER_SECRET not in store.documents
    await assert_nothing_left_to_write(store, operator)


@in_virtual_time
async def test_recreated_gateway_does_not_report_the_address_of_its_predecessors_service():
    store = earlier_installation()
    former, current = (Key("Service", HOME, name) for name in ("g1", "g1-vgw"))
    store.give_addresses()
    store.documents[former]["metadata"]["finalizers"] = ["example.com/load-balancer"]
    store.delete(G1)
    store.put(gateway(HOME, "g1", OURS))
    operator = SimulatedOperator(store)
    await rest(store, operator)
    assert "deletionTimestamp" in store.documents[former]["metadata"], "the load balancer holds it"
    own = store.documents[current]["spec"]["clusterIPs"][0]
    assert [one["value"] for one in store.documents[G1]["status"]["addresses"]] == [own]
    await operator.stop()
