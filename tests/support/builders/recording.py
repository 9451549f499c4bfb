"""Layers that record which objects they compute."""

from collections.abc import Sequence
from typing import Any

from msgspec import structs

from varnish_gateway.api import Key
from varnish_gateway.translate.layers import Layer
from varnish_gateway.translate.translator import LAYERS


def recording(layer: Layer[Any]) -> tuple[Sequence[Layer[Any]], list[Key]]:
    """Return all layers, and the objects that this one has computed."""
    computed: list[Key] = []

    def compute(key: Key, *args: Any) -> Any:
        computed.append(key)
        return layer.compute(key, *args)

    return [structs.replace(each, compute=compute) if each is layer else each for each in LAYERS], computed
