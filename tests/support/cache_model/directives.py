"""Cache directives (RFC 9111, section 5.2; RFC 9213).

In:   a message.
Out:  its directives in their order. ``speaking`` chooses the field that speaks to a shared cache
      in front of an origin: CDN-Cache-Control if it is valid, else Cache-Control.
"""

import re
from dataclasses import dataclass

from support.cache_model.messages import Message
from support.cache_model.spans import Span
from support.cache_model.syntax import delta_seconds, is_token, members, unquoted

_SECOND = 1000
_INTEGER = r"-?[0-9]{1,15}"
# Dictionaries of structured fields, as far as directives need them (RFC 9651, section 3.2).
_ITEM = rf'(?:{_INTEGER}(?:\.[0-9]{{1,3}})?|"(?:[ !#-\[\]-~]|\\["\\])*"|[A-Za-z*][!#-+\-.:/^_`|~0-9A-Za-z]*|\?[01])'
_PAIR = re.compile(rf"(?P<key>[a-z*][a-z0-9_\-.*]*)(?:=(?P<value>{_ITEM}))?(?:; *[a-z*][a-z0-9_\-.*]*(?:={_ITEM})?)*")


@dataclass(frozen=True)
class Directives:
    """Names in lower case, each with its argument; ``targeted`` if they replace Expires too."""

    pairs: tuple[tuple[str, str | None], ...]
    targeted: bool = False

    def has(self, name: str) -> bool:
        return any(found == name for found, _ in self.pairs)

    def has_plain(self, name: str) -> bool:
        """Tell whether no-cache or private restricts the whole message."""
        return any(found == name and not _field_names(argument) for found, argument in self.pairs)

    def field_names(self, name: str) -> set[str]:
        return {field for found, argument in self.pairs if found == name for field in _field_names(argument)}

    def span(self, name: str) -> Span | None:
        """Return the time of a directive; None if it is absent.

        One that can't be read counts as zero. Of several the first counts, or none of them
        (RFC 9111, section 4.2.1).
        """
        arguments = [argument for found, argument in self.pairs if found == name]
        if not arguments:
            return None
        first = (delta_seconds(arguments[0] or "") or 0) * _SECOND
        return Span(first if len(arguments) == 1 else 0, first)


def speaking(response: Message) -> Directives:
    """Return the directives that this cache obeys (RFC 9213, section 2.2)."""
    return _targeted(response) or of(response)


def of(message: Message) -> Directives:
    listed = members(message.combined("cache-control") or "")
    return Directives(tuple(_directive(member) for member in listed))


def _directive(member: str) -> tuple[str, str | None]:
    name, equals, argument = member.partition("=")
    return name.lower(), unquoted(argument) if equals else None


def _field_names(argument: str | None) -> list[str]:
    """Return the names in an argument; none if it isn't a list of names."""
    names = members(argument or "")
    return [name.lower() for name in names] if all(map(is_token, names)) else []


def _targeted(response: Message) -> Directives | None:
    """Return None if CDN-Cache-Control is absent, empty or malformed: then it is ignored."""
    listed = members(response.combined("cdn-cache-control") or "")
    found = [_PAIR.fullmatch(member) for member in listed]
    if not found or not all(found):
        return None
    last = {match["key"]: match["value"] for match in found if match}
    pairs = [(key, value and unquoted(value)) for key, value in last.items() if value != "?0"]
    return Directives(tuple((key, None if value == "?1" else value) for key, value in pairs), targeted=True)
