"""Regular expressions that take as long to compile as a test wants."""

import threading

PREFIX = "/held"
MOST_SECONDS = 5.0


class HeldRegexes:
    """Stands for ghost's compiler. Patterns that begin with /held are compiled only when ``released`` is set."""

    def __init__(self) -> None:
        self.began, self.released = threading.Event(), threading.Event()

    def compile_regex(self, pattern: str) -> tuple[int, None]:
        """Return a charge, and no error."""
        if pattern.startswith(PREFIX):
            self.began.set()
            self.released.wait(MOST_SECONDS)
        return 1, None
