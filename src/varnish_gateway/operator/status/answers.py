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

    @property
    def outcome(self) -> str:
        """The word that counts it in metrics."""
        if self.objects is not None:
            return "confirmed"
        return "rejected" if self.is_rejection else "unanswered"


Answers = Mapping[str, InvalidationAnswer]
"""By the name of the pod."""
