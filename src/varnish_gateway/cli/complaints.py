"""What is wrong with files, on stderr."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from varnish_gateway.runtime.terminal import Paint

if TYPE_CHECKING:
    from varnish_gateway.standalone.translation import Translation


def print_complaints(translation: Translation) -> int:
    """Print what is wrong to stderr; return 1 if there is anything."""
    from varnish_gateway.standalone.verdicts import faults

    paint = Paint(sys.stderr)
    for ignored in translation.changes.ignored:
        print(f"{paint('yellow', 'warning:')} {ignored}", file=sys.stderr)
    wrong = [str(complaint) for complaint in translation.changes.complaints]
    for key, status in sorted(translation.statuses.items()):
        wrong += [f"{key}: {fault}" for fault in faults(status)]
    for line in wrong:
        print(f"{paint('red', 'error:')} {line}", file=sys.stderr)
    return 1 if wrong else 0
