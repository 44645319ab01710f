"""The log of the service: one JSON object per line, of whichever logger, exceptions included. API keys are masked."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Final, TextIO

from qianxun.doors.http.middleware.trace_ids import trace_id

OWN: Final = "qianxun"  # silenced by the command line, which prints messages of its own
# They log whole addresses, or too much; requests are logged by the service itself.
QUIET: Final = ("httpx", "httpcore", "uvicorn.access", "alembic", "faiss.loader", "mcp")

_KEY: Final = re.compile(r"\b(qx_|sk-)[\w-]{8,}|(?<=[Bb]earer )[\w.~+/=-]{8,}", re.ASCII)
# JSON leaves them as they are, but some readers take them for line ends, and terminals for commands.
_CONTROL: Final = re.compile("[\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_encode = json.JSONEncoder(ensure_ascii=False, check_circular=False, default=str).encode


class JsonLines(logging.Formatter):
    """``time``, ``level``, ``logger``, ``message``; ``trace_id`` within a request; ``exception`` if there is one.

    A record's ``about``, a mapping without texts of users, is merged into them.
    """

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": mask_keys(_message(record)),
        }
        if trace := trace_id():
            line["trace_id"] = trace
        line.update(getattr(record, "about", ()))
        if record.exc_info:
            line["exception"] = mask_keys(self.formatException(record.exc_info))
        if record.stack_info:
            line["stack"] = mask_keys(record.stack_info)
        return _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", _encode(line))


def mask_keys(text: str) -> str:
    return _KEY.sub(lambda found: f"{found[1] or ''}******", text)


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except (TypeError, ValueError, KeyError):  # the arguments do not fit the template: a bug of the caller
        return f"{record.msg} {record.args}"


@contextmanager
def logs_as_lines(stream: TextIO, level: int = logging.INFO) -> Iterator[None]:
    """Within the block everything that this process logs, warnings too, is written to ``stream``."""
    root = logging.getLogger()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines())
    levels = {"": level, OWN: level, **dict.fromkeys(QUIET, max(level, logging.WARNING))}
    handlers_before, levels_before = root.handlers, {name: logging.getLogger(name).level for name in levels}
    root.handlers = [handler]
    _set_levels(levels)
    logging.captureWarnings(True)
    try:
        yield
    finally:
        logging.captureWarnings(False)
        root.handlers = handlers_before
        _set_levels(levels_before)


def _set_levels(levels: Mapping[str, int]) -> None:
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)
