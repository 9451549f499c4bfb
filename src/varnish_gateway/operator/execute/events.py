"""Publish Kubernetes Events about objects of users.

In:   an object, a reason and a message.
Out:  an Event of type Warning; each is meant for a person who can do something about it.
"""

from varnish_gateway.api import Key
from varnish_gateway.kube.events import Recorder, Reference
from varnish_gateway.kube.resources import RESOURCES
from varnish_gateway.operator.observe.state import ObservedState


class Warnings:
    def __init__(self, recorder: Recorder, observed: ObservedState) -> None:
        self._recorder = recorder
        self._observed = observed

    def publish(self, key: Key, reason: str, message: str) -> None:
        observed = self._observed.inputs.get(key)
        uid = observed.obj.metadata.uid if observed is not None else ""
        reference = Reference(RESOURCES[key.kind].api_version, key.kind, key.namespace, key.name, uid)
        self._recorder.record(reference, "Warning", reason, message)
