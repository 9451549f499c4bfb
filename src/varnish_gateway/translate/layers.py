"""A layer of translation: one computed value per object, and what the value contributes.

A layer is registered by adding it to ``LAYERS`` in translator.py; nothing else has to know it.
``Translator.update`` runs the layers in that order, each only for the objects whose dependencies
changed. So a layer can look up the values of those before it: ``view.get(TABLE, key)``.

CONTRIBUTING.md has a recipe for a policy kind; policy/cache_policy.py is the model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from collections.abc import Set as AbstractSet

    from varnish_gateway import ir
    from varnish_gateway.api import Key
    from varnish_gateway.translate.incremental.claims import Claim
    from varnish_gateway.translate.incremental.dependency import Derived, Table
    from varnish_gateway.translate.incremental.quotas import Charge
    from varnish_gateway.translate.incremental.tallies import Counted
    from varnish_gateway.translate.incremental.view import View
    from varnish_gateway.translate.options import Options

T = TypeVar("T")


class Layer(Struct, Generic[T], frozen=True, kw_only=True):
    """``compute`` is pure over its view and returns None for an object that is not ours.

    ``table`` is the name under which other layers look its values up. The rest is optional:
    ``status`` returns the status to write, ``claims`` the places that the object competes for,
    ``counted`` the labels of other objects that it counts for, ``charges`` what it takes from pools that
    it shares with others, and ``publish`` adds the difference of two values to the delta.
    """

    table: Table[T]
    kinds: tuple[str, ...]
    compute: Callable[[Key, Options, View], T | None]
    status: Callable[[T], ir.Status | None] | None = None
    claims: Callable[[Key, T], Mapping[Derived, Claim]] | None = None
    counted: Callable[[T], AbstractSet[Counted]] | None = None
    charges: Callable[[Key, T], Mapping[Key, Charge]] | None = None
    publish: Callable[[ir.Delta, Key, T | None, T | None], None] | None = None
