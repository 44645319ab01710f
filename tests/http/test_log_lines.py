"""Whoever logs, and whatever: one JSON object to a line, and no key in it."""

from __future__ import annotations

import io
import json
import logging
import sys
import warnings
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qianxun.doors.http.middleware.log_lines import OWN, QUIET, JsonLines, logs_as_lines, mask_keys
from tests.http.watched import logged

KEY = "qx_" + "Ab3-_" * 8 + "xyz"


def _record(message: str, *arguments: Any, **more: Any) -> logging.LogRecord:
    record = logging.LogRecord("any", logging.WARNING, "here.py", 1, message, arguments, more.get("exc_info"))
    return record


@given(st.text(), st.text())
def test_any_text_stays_within_its_line_and_comes_back(message: str, logger: str) -> None:
    record = _record("%s", message)
    record.name = logger
    line = JsonLines().format(record)
    assert line.splitlines() == [line]
    line.encode("utf-8")
    read = json.loads(line)
    assert read["logger"] == logger
    assert read["message"] == mask_keys(message)


@pytest.mark.parametrize("text", ["a\nb", "a\x85b", "a\u2028b", "\x1b[2J", "\x9b2J", "半\ud83d"])
def test_ends_of_lines_and_orders_to_a_terminal_are_written_out(text: str) -> None:
    line = JsonLines().format(_record(text))
    assert not any(each in line for each in text if not each.isascii() and each != "半")
    assert "\x1b" not in line
    assert json.loads(line)["message"] == text


def test_an_exception_is_a_part_of_its_line() -> None:
    with logged() as lines:
        try:
            raise ValueError(f"第一行\n第二行 {KEY}")
        except ValueError:
            logging.getLogger("library").exception("it broke")
    (line,) = lines()
    assert (line["level"], line["logger"], line["message"]) == ("ERROR", "library", "it broke")
    assert line["exception"].startswith("Traceback (most recent call last):\n")
    assert line["exception"].endswith("ValueError: 第一行\n第二行 qx_******")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"key {KEY}!", "key qx_******!"),
        (f"Authorization: Bearer {KEY}", "Authorization: Bearer qx_******"),
        ("{'authorization': 'bearer abc.def-0123'}", "{'authorization': 'bearer ******'}"),
        ("Incorrect API key: sk-proj-0123456789abcdef", "Incorrect API key: sk-******"),
        (
            "the bearer of a key; qx_ and sk- alone; task-123456789",
            "the bearer of a key; qx_ and sk- alone; task-123456789",
        ),
    ],
)
def test_keys_are_covered(text: str, expected: str) -> None:
    assert mask_keys(text) == expected


def test_a_template_that_does_not_fit_its_arguments_is_still_logged() -> None:
    assert json.loads(JsonLines().format(_record("%d of %d", "one")))["message"] == "%d of %d ('one',)"


def test_warnings_and_libraries_are_in_the_same_form_and_the_talkative_are_quiet() -> None:
    with logged() as lines, warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn("old", UserWarning, stacklevel=1)
        logging.getLogger("httpx").info("HTTP Request: POST https://host/v1?api_key=1")
        logging.getLogger("uvicorn.access").info("127.0.0.1 - GET /v1?query=1")
        logging.getLogger("uvicorn.error").info("started")
        logging.getLogger("any").debug("not so much")
    assert [(line["logger"], line["level"]) for line in lines()] == [
        ("py.warnings", "WARNING"),
        ("uvicorn.error", "INFO"),
    ]


def _state() -> tuple[object, ...]:
    levels = [logging.getLogger(name).level for name in ("", OWN, *QUIET)]
    return list(logging.getLogger().handlers), levels, warnings.showwarning


def test_afterwards_all_is_as_it_was() -> None:
    before = _state()
    with pytest.raises(ZeroDivisionError), logs_as_lines(sys.stderr):
        raise ZeroDivisionError
    assert _state() == before


def test_the_service_speaks_where_the_command_line_is_silent() -> None:
    own = logging.getLogger(OWN)
    before = own.level
    own.setLevel(logging.CRITICAL)
    try:
        with logged() as lines:
            logging.getLogger("qianxun.engine.engine").info("said")
        assert [line["message"] for line in lines()] == ["said"]
        assert own.level == logging.CRITICAL
    finally:
        own.setLevel(before)


def test_without_it_nothing_is_set_up() -> None:
    stream = io.StringIO()
    assert not any(isinstance(each.formatter, JsonLines) for each in logging.getLogger().handlers)
    with logs_as_lines(stream):
        assert any(isinstance(each.formatter, JsonLines) for each in logging.getLogger().handlers)
