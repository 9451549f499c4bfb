"""What can go wrong with a cluster."""


class ClusterError(Exception):
    """The cluster can't do what was asked; the message says why and what to do."""


class Refused(Exception):
    """The API server answered with an error."""

    def __init__(self, request: str, status: int, answer: str) -> None:
        super().__init__(f"{request}: {status} {answer}")
        self.status = status
