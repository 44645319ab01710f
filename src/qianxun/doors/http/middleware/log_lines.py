"""The log of the service: one JSON object to a line, whoever writes it, exceptions included.

No line holds a key: what looks like one is covered, wherever it comes from.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Final, TextIO

from qianxun.doors.http.middleware.trace_ids import trace_id

OWN: Final = "qianxun"  # silenced by the command line, which tells people what they need in its own words
# They tell whole addresses, or what nobody asked; and of its requests the service tells itself.
QUIET: Final = ("httpx", "httpcore", "uvicorn.access", "alembic", "faiss.loader", "mcp")

_KEY: Final = re.compile(r"\b(qx_|sk-)[\w-]{8,}|(?<=[Bb]earer )[\w.~+/=-]{8,}", re.ASCII)
# Left as they are by JSON, but ends of lines to some readers, or orders to a terminal.
_CONTROL: Final = re.compile("[\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_encoded = json.JSONEncoder(ensure_ascii=False, check_circular=False, default=str).encode


class JsonLines(logging.Formatter):
    """``time``, ``level``, ``logger``, ``message``; ``trace_id`` within a request; ``exception`` where there is one.

    A record's ``about``, a mapping that holds nobody's text, stands beside them.
    """

    def format(self, record: logging.LogRecord) -> str:
        told: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": covered(_message(record)),
        }
        if trace := trace_id():
            told["trace_id"] = trace
        told.update(getattr(record, "about", ()))
        if record.exc_info:
            told["exception"] = covered(self.formatException(record.exc_info))
        if record.stack_info:
            told["stack"] = covered(record.stack_info)
        return _CONTROL.sub(_escaped, _encoded(told))


def covered(text: str) -> str:
    """The text without its keys."""
    return _KEY.sub(lambda found: f"{found[1] or ''}******", text)


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except (TypeError, ValueError, KeyError):  # the template and its arguments do not fit: somebody else's slip
        return f"{record.msg} {record.args}"


def _escaped(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"


@contextmanager
def logs_as_lines(stream: TextIO, level: int = logging.INFO) -> Iterator[None]:
    """Within the block all that this process logs goes to ``stream``, line by line, warnings too."""
    root = logging.getLogger()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines())
    levels = {"": level, OWN: level, **dict.fromkeys(QUIET, max(level, logging.WARNING))}
    before = root.handlers, {name: logging.getLogger(name).level for name in levels}
    root.handlers = [handler]
    _set(levels)
    logging.captureWarnings(True)
    try:
        yield
    finally:
        logging.captureWarnings(False)
        root.handlers = before[0]
        _set(before[1])


def _set(levels: Mapping[str, int]) -> None:
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)
