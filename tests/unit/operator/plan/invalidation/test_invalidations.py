"""All invalidations of a cluster: whose turn it is, what wakes them, what a restart leaves."""

from types import SimpleNamespace

import msgspec

from varnish_gateway import api
from varnish_gateway.api import Key
from varnish_gateway.api.gateway_networking import GatewaySpec
from varnish_gateway.api.meta import Metadata
from varnish_gateway.operator.observe.inputs import ObservedInput
from varnish_gateway.operator.observe.pods import GatewayPod
from varnish_gateway.operator.observe.state import ObservedState
from varnish_gateway.operator.plan.invalidation.invalidations import AT_ONCE, Invalidations
from varnish_gateway.operator.plan.invalidation.progress import END_SECONDS, RoundReport
from varnish_gateway.operator.plan.jobs import Job, Jobs
from varnish_gateway.operator.status.answers import InvalidationAnswer

GATEWAY = Key("Gateway", "infra", "gw")
DONE = InvalidationAnswer((1,))
SILENT = InvalidationAnswer(None, "no answer in time")


class StubStatuses(dict):
    """The statuses to write, by object."""

    def update(self, key, status):
        self[key] = status

    def forget(self, key):
        self.pop(key, None)


class Cluster:
    """One Gateway with one pod, and invalidations of it."""

    def __init__(self, class_name: str = "varnish") -> None:
        self.observed = ObservedState("varnish")
        gateway = api.Gateway(
            metadata=msgspec.convert({"name": "gw", "namespace": "infra"}, Metadata),
            spec=msgspec.convert({"gatewayClassName": class_name, "listeners": []}, GatewaySpec),
        )
        self.observed.inputs[GATEWAY] = ObservedInput(gateway, "1", b"null", False)
        pod = GatewayPod("pod", GATEWAY, "192.0.2.1", is_ready=True)
        self.observed.put_pod(Key("Pod", "infra", "pod"), pod)
        desired = SimpleNamespace(gateway=gateway, state=SimpleNamespace(routes={}), token="t")
        self.gateways = {GATEWAY: desired} if class_name == "varnish" else {}
        self.statuses = StubStatuses()
        self.invalidations = Invalidations(self.observed, self.gateways, self.statuses)

    def put(self, name: str, namespace: str = "infra", generation: int = 1, uid: str = "u") -> Jobs:
        document = {
            "metadata": {"name": name, "namespace": namespace, "generation": generation, "uid": uid},
            "spec": {"gatewayRef": {"name": "gw", "namespace": "infra"}, "everything": True},
        }
        jobs = Jobs()
        obj = msgspec.convert(document, api.VarnishCacheInvalidation)
        self.invalidations.update(jobs, key(name, namespace), obj)
        return jobs

    def run(self, name: str, answer: InvalidationAnswer = DONE, at: float = 1.0) -> Jobs | None:
        """Carry out a round; None where it is not the turn of this one."""
        sent = self.invalidations.round(key(name))
        if sent is None:
            return None
        jobs = Jobs()
        report = RoundReport(sent, {one.name: answer for one in sent.pods}, at)
        self.invalidations.on_report(jobs, key(name), report)
        return jobs


def key(name: str, namespace: str = "infra") -> Key:
    return Key("VarnishCacheInvalidation", namespace, name)


def job(name: str) -> Job:
    return Job("invalidate", key(name))


def test_new_invalidation_is_pending_at_once_and_then_complete():
    cluster = Cluster()
    assert cluster.put("one") == {Job("status", key("one")): 0.0, job("one"): 0.0}
    assert cluster.statuses[key("one")].phase == "Pending"
    assert cluster.run("one") == {Job("status", key("one")): 0.0, job("one"): 3600.0}
    assert cluster.statuses[key("one")].phase == "Complete"
    assert cluster.invalidations.unfinished == 0


def test_few_of_a_namespace_are_under_way_and_the_next_follows_one_that_ends():
    cluster = Cluster()
    names = [f"i{number}" for number in range(AT_ONCE + 2)]
    for name in names:
        cluster.put(name)
    assert cluster.run(names[AT_ONCE]) is None
    assert cluster.run("i0", SILENT) is not None
    assert cluster.run(names[AT_ONCE]) is None, "one that waits for a pod is under way"
    freed = cluster.run("i1")
    assert job(names[AT_ONCE]) in freed
    assert cluster.run(names[AT_ONCE]) is not None
    assert cluster.run(names[AT_ONCE + 1]) is not None


def test_many_of_one_namespace_do_not_delay_those_of_another():
    cluster = Cluster()
    for number in range(AT_ONCE):
        cluster.put(f"i{number}")
        cluster.run(f"i{number}", SILENT)
    cluster.put("other", "tea")
    assert cluster.invalidations.round(key("other", "tea")) is not None


def test_deleted_invalidation_frees_its_place_and_its_status():
    cluster = Cluster()
    for number in range(AT_ONCE + 1):
        cluster.put(f"i{number}")
    jobs = Jobs()
    cluster.invalidations.update(jobs, key("i0"), None)
    assert job(f"i{AT_ONCE}") in jobs
    assert cluster.statuses[key("i0")] is None
    assert cluster.run("i0") is None


def test_changed_pods_wake_what_they_have_not_confirmed():
    cluster = Cluster()
    for name in ("silent", "done"):
        cluster.put(name)
    cluster.run("silent", SILENT)
    cluster.run("silent", SILENT, at=END_SECONDS + 1)
    cluster.run("done")
    jobs = Jobs()
    cluster.invalidations.wake(jobs, {GATEWAY, Key("Gateway", "infra", "another")})
    assert jobs == {job("silent"): 0.0}


def test_pod_that_is_reported_after_the_end_wakes_what_it_missed():
    cluster = Cluster()
    cluster.put("done")
    cluster.run("done", at=100.0)
    late = GatewayPod("late", GATEWAY, "192.0.2.2", is_ready=True, started=90.0)
    cluster.observed.put_pod(Key("Pod", "infra", "late"), late)
    jobs = Jobs()
    cluster.invalidations.wake(jobs, {GATEWAY})
    assert jobs == {job("done"): 0.0}
    assert cluster.invalidations.round(key("done")).pods == (late,)


def test_invalidation_of_another_operators_gateway_is_left_alone():
    cluster = Cluster(class_name="theirs")
    cluster.put("one")
    assert cluster.run("one") is None
    assert key("one") not in cluster.statuses
    assert cluster.invalidations.expiry(key("one")) is None


def test_result_of_another_operator_stays_when_its_gateway_is_deleted():
    ours = Cluster()
    ours.put("one")
    ours.run("one", at=100.0)
    theirs = Cluster(class_name="theirs")
    theirs.put("one")
    obj = ours.invalidations.round(key("one")).obj
    theirs.observed.inputs[key("one")] = ObservedInput(obj, "2", msgspec.json.encode(ours.statuses[key("one")]), False)
    del theirs.observed.inputs[GATEWAY]
    jobs = Jobs()
    theirs.invalidations.wake(jobs, {GATEWAY})
    assert key("one") not in theirs.statuses
    assert theirs.run("one") is None


def test_standby_that_takes_over_repeats_nothing_that_is_done():
    leader, standby = Cluster(), Cluster()
    for cluster in (leader, standby):
        cluster.put("done")
        cluster.put("open")
    leader.run("done", at=100.0)
    leader.run("open", SILENT, at=100.0)
    for name in ("done", "open"):
        obj, stored = standby.invalidations.round(key(name)).obj, msgspec.json.encode(leader.statuses[key(name)])
        standby.observed.inputs[key(name)] = ObservedInput(obj, "2", stored, False)
    jobs = Jobs()
    standby.invalidations.resync(jobs)
    assert {job("done"), job("open")} <= jobs.keys()
    assert standby.invalidations.round(key("done")).pods == ()
    assert len(standby.invalidations.round(key("open")).pods) == 1
    assert standby.statuses == leader.statuses
    assert standby.invalidations.unfinished == 1


def test_gateway_that_changes_its_class_takes_its_results_to_the_other_operator():
    ours, theirs = Cluster(), Cluster(class_name="theirs")
    for cluster in (ours, theirs):
        cluster.put("one")
    ours.run("one", at=100.0)
    obj, done = ours.invalidations.round(key("one")).obj, ours.statuses[key("one")]
    theirs.observed.inputs[key("one")] = ObservedInput(obj, "2", msgspec.json.encode(done), False)

    before, after = ours.observed.inputs[GATEWAY], theirs.observed.inputs[GATEWAY]
    ours.observed.inputs[GATEWAY], theirs.observed.inputs[GATEWAY] = after, before
    theirs.gateways.update(ours.gateways)
    ours.invalidations.wake(Jobs(), {GATEWAY})
    assert key("one") not in ours.statuses
    theirs.invalidations.wake(Jobs(), {GATEWAY})
    assert theirs.invalidations.unfinished == 0
    assert theirs.run("one", at=200.0) == {Job("status", key("one")): 0.0, job("one"): 3500.0}
    assert theirs.statuses[key("one")] == done


def test_missing_gateway_is_reported_by_the_operators_of_all_classes_in_the_same_words():
    statuses = []
    for at in (1.0, 7.0):
        cluster = Cluster(class_name="theirs")
        del cluster.observed.inputs[GATEWAY]
        cluster.put("one")
        cluster.run("one", at=at)
        cluster.run("one", at=at + END_SECONDS)
        statuses.append(cluster.statuses[key("one")])
    assert statuses[0] == statuses[1]
    assert statuses[0].conditions[0].reason == "GatewayNotFound"


def test_answer_to_an_earlier_version_does_not_count_for_the_next_one():
    cluster = Cluster()
    cluster.put("one")
    sent = cluster.invalidations.round(key("one"))
    cluster.put("one", generation=2)
    jobs = Jobs()
    cluster.invalidations.on_report(jobs, key("one"), RoundReport(sent, {"pod": DONE}, 1.0))
    assert (jobs, cluster.statuses[key("one")].phase) == ({}, "Pending")


def test_stored_result_counts_after_a_restart():
    before = Cluster()
    before.put("one")
    before.run("one", at=100.0)
    after = Cluster()
    stored = msgspec.json.encode(before.statuses[key("one")])
    obj = before.invalidations.round(key("one")).obj
    after.observed.inputs[key("one")] = ObservedInput(obj, "2", stored, False)
    after.put("one")
    assert after.statuses[key("one")] == before.statuses[key("one")]
    assert after.run("one", at=101.0) == {job("one"): 3599.0}
    assert after.invalidations.expiry(key("one")) == 3700.0
