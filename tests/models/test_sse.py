from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qianxun.core.codec.sse import Event, Events, EventTooLarge
from tests.linear import is_linear


def read(*pieces: bytes, largest: int = 1 << 20) -> list[Event]:
    events = Events(largest)
    return [event for piece in pieces for event in events.feed(piece)]


def test_an_event_is_its_data_up_to_an_empty_line() -> None:
    assert read(b"data: a\n\ndata:b\n\n") == [Event("a"), Event("b")]
    assert read("event: token\ndata: 阿司\ndata: 匹林\n\n".encode()) == [Event("阿司\n匹林", "token")]
    assert read(b"data: a\n\ndata: never ended\n") == [Event("a")]


def test_comments_ids_and_events_without_data_are_passed_over() -> None:
    assert read(b": keep-alive\n\nid: 7\nretry: 10\nevent: x\n\ndata: a\n\n") == [Event("a")]
    assert read(b"data\n\n") == [Event("")]
    assert read(b"data:  two spaces\n\n") == [Event(" two spaces")]


def test_every_kind_of_line_end_is_one() -> None:
    assert read(b"data: a\r\n\r\ndata: b\r\rdata: c\n\n") == [Event("a"), Event("b"), Event("c")]
    assert read(b"\xef\xbb\xbfdata: a\r", b"\n\r", b"\ndata: b\r\n\r\n") == [Event("a"), Event("b")]


STREAM = (
    "\ufeffevent: sources\r\ndata: 《药典》\r\n\r\n: 保持连接\n\ndata: 一\ndata: 二\n\n\n"
    "event:x\rdata:𠮷\r\rdata: 末\n\n"
)


@given(st.lists(st.integers(0, len(STREAM.encode())), max_size=12))
def test_it_does_not_matter_where_the_bytes_are_cut(cuts: list[int]) -> None:
    raw = STREAM.encode()
    places = [0, *sorted(cuts), len(raw)]
    pieces = [raw[a:b] for a, b in pairwise(places)]
    assert read(*pieces) == read(raw) == [Event("《药典》", "sources"), Event("一\n二"), Event("𠮷", "x"), Event("末")]


@pytest.mark.parametrize("piece", [b"data: " + b"x" * 90, b"data: xxxxxxxx\n", b": " + b"x" * 90 + b"\n"])
def test_an_event_without_end_is_not_kept_for_ever(piece: bytes) -> None:
    with pytest.raises(EventTooLarge):
        read(*[piece] * 20, largest=80)
    assert len(read(*[b"data: " + b"x" * 60 + b"\n\n"] * 20, largest=80)) == 20


def test_a_long_line_in_small_pieces_is_read_once() -> None:
    def work(size: int) -> Callable[[], object]:
        line = b"data: " + b"x" * size + b"\n\n"
        pieces = [line[at : at + 1] for at in range(len(line))]
        return lambda: read(*pieces)

    assert is_linear(work, 50_000)
