"""Pure translation of Gateway API objects: one module per idea of the API."""

from varnish_gateway.translate.gateway.programmed import (
    with_parent_programmed,
    with_programmed,
    with_unserved,
    with_withheld,
)
from varnish_gateway.translate.translator import Translator

__all__ = ["Translator", "with_parent_programmed", "with_programmed", "with_unserved", "with_withheld"]
