"""The structured log.

Text for people: time, level, Gateway, message. JSON for machines: one object per line with time,
level, logger, message and fields. Fields are a record's ``extra`` and the Gateway that it concerns.
"""

import json
import logging
import sys
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, Literal

from varnish_gateway.runtime.terminal import Paint

GATEWAY: ContextVar[str] = ContextVar("gateway")
"""The Gateway that the current task works for; ``vgw run`` serves several in one process."""

LogFormat = Literal["text", "json"]
_COLOURS = {"DEBUG": "dim", "INFO": "green", "WARNING": "yellow", "ERROR": "red", "CRITICAL": "red"}
_OWN_ATTRIBUTES = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}


def set_up(*, log_format: LogFormat = "text", level: str = "info") -> None:
    """Send the log of this process to stderr."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if log_format == "json" else TextLines(Paint(sys.stderr)))
    logging.basicConfig(handlers=[handler], level=level.upper(), force=True)


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    fields = {name: value for name, value in vars(record).items() if name not in _OWN_ATTRIBUTES}
    return {"gateway": GATEWAY.get(), **fields} if GATEWAY.get("") else fields


class TextLines(logging.Formatter):
    """A line for people."""

    def __init__(self, paint: Paint) -> None:
        super().__init__()
        self._paint = paint

    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created, UTC).astimezone().strftime("%H:%M:%S.%f")[:-3]
        level = self._paint(_COLOURS.get(record.levelname, "bold"), f"{record.levelname.lower():7}")
        gateway = self._paint("cyan", f"{GATEWAY.get()}: ") if GATEWAY.get("") else ""
        line = f"{self._paint('dim', time)} {level} {gateway}{record.getMessage()}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class JsonLines(logging.Formatter):
    """One JSON object per line, for machines."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if fields := _fields(record):
            line["fields"] = fields
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str, ensure_ascii=False)
