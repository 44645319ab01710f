"""The trace of a request: the caller's (W3C ``traceparent``), or a new one.

It is in ``X-Trace-Id`` of the response, in the log of searches and in every line logged meanwhile, also from worker
threads, which run in a copy of the request's context.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final

# https://www.w3.org/TR/trace-context-1/#traceparent-header: versions after 00 may append fields.
_TRACEPARENT: Final = re.compile(rb"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.DOTALL)
_trace_id: ContextVar[str] = ContextVar("trace_id", default="")


def trace_id() -> str:
    """The trace of the current request, 32 hexadecimal digits; "" outside of any."""
    return _trace_id.get()


@contextmanager
def within_trace(trace: str) -> Iterator[None]:
    """The block, and threads and tasks that it starts, belong to this trace."""
    token = _trace_id.set(trace)
    try:
        yield
    finally:
        _trace_id.reset(token)


@dataclass(frozen=True, slots=True)
class Parent:
    """The caller's span, which a request is a part of."""

    trace_id: str
    span_id: str
    flags: int
    state: str = ""  # of other tracing systems, passed on unchanged


def parent_of(headers: Sequence[tuple[bytes, bytes]]) -> Parent | None:
    """What ``traceparent`` names; None if there is none, more than one, or a malformed one."""
    given = [value for name, value in headers if name == b"traceparent"]
    if len(given) != 1 or (read := _TRACEPARENT.fullmatch(given[0].strip(b" \t"))) is None:
        return None
    version, trace, span, flags, more = read.groups()
    if version == b"ff" or (version == b"00" and more is not None) or not (trace.strip(b"0") and span.strip(b"0")):
        return None
    state = b",".join(value for name, value in headers if name == b"tracestate")
    return Parent(trace.decode(), span.decode(), int(flags, 16), state.decode("latin-1"))
