"""What a pod answers to an invalidation; data only."""

from collections.abc import Mapping

from msgspec import Struct


class InvalidationAnswer(Struct, frozen=True):
    """``objects`` are the counts by target; None where the pod did not confirm, and ``message`` says why.

    ``is_rejection``: no pod will ever carry it out, so it is not sent again.
    """

    objects: tuple[int, ...] | None
    message: str = ""
    is_rejection: bool = False


Answers = Mapping[str, InvalidationAnswer]
"""By the name of the pod."""
