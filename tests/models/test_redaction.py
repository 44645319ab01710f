"""A key is covered however a service repeats it, and nothing else is."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from urllib.parse import quote

import pytest

from qianxun.core.errors import ModelUnavailable
from qianxun.models.remote.redaction import reply_without_key, without_key

KEY = "sk-a/B+c=9'\"\\0123456789abcdef"


@pytest.mark.parametrize(
    "said",
    [
        KEY,
        quote(KEY, safe=""),
        KEY.encode().hex(),
        KEY[:-6],
        KEY[4:-4],
        json.dumps({"authorization": f"Bearer {KEY}"}),
        json.dumps(json.dumps(KEY)).replace("/", "\\/"),
        *(base64.b64encode(b"Bearer "[:at] + KEY.encode()).decode() for at in range(8)),
        *(base64.urlsafe_b64encode(b"Bearer "[:at] + KEY.encode() + b"tail").decode() for at in range(3)),
    ],
)
def test_whatever_form_it_takes(said: str) -> None:
    told = without_key(f"密钥不对：{said}。", KEY)
    assert told.startswith("密钥不对：")
    assert told.endswith("。")
    assert "***" in told
    for form in (KEY, quote(KEY, safe=""), base64.b64encode(KEY.encode()).decode(), said):
        assert not any(form[at : at + 8] in told for at in range(0, len(form) - 8) if form[at : at + 8] in _hidden())


def _hidden() -> str:
    """All that must not be seen eight characters of."""
    raw = KEY.encode()
    encoded = " ".join(base64.b64encode(b"\0" * at + raw).decode()[2:-4] for at in range(3))
    return f"{KEY} {quote(KEY, safe='')} {encoded} {encoded.replace('+', '-').replace('/', '_')} {raw.hex()}"


@pytest.mark.parametrize("text", ["", "HTTP 500", "没有这个模型", "sk-a", "0123456", "abcdefgh"])
def test_what_is_no_part_of_it_stays(text: str) -> None:
    assert without_key(text, KEY) == text


def test_a_stretch_is_covered_once_and_its_surroundings_stay() -> None:
    assert without_key(f"a{KEY}b{KEY}{KEY}c", KEY) == "a***b***c"
    assert without_key(KEY, KEY) == "***"


def test_a_short_key_is_covered_whole_and_no_key_covers_nothing() -> None:
    assert without_key("key ab12 or ab1", "ab12") == "key *** or ab1"
    assert without_key("key", "") == "key"


@pytest.mark.parametrize("said", [KEY, f"Bearer {KEY}", KEY.encode().hex(), quote(KEY, safe=""), f"{KEY}{KEY}"])
@pytest.mark.parametrize("size", [1, 2, 5, 11, 1000])
def test_a_reply_has_no_part_of_it_wherever_it_is_cut(said: str, size: int) -> None:
    reply = f"住院报销 85%[1]。{said}。门诊 0123 元，sk-a 不是。"
    pieces = [reply[at : at + size] for at in range(0, len(reply), size)]
    told = "".join(reply_without_key(iter(pieces), KEY))
    assert told.replace("******", "***") == without_key(reply, KEY, 12)
    assert "***。门诊 0123 元，sk-a 不是。" in told
    assert not any(KEY[at : at + 12] in told for at in range(len(KEY) - 11))


def test_words_that_are_none_are_not_held_back_and_those_that_may_be_come_before_a_failure() -> None:
    def pieces() -> Iterator[str]:
        yield "住院"
        yield "sk-a"
        raise ModelUnavailable("断了")

    told = reply_without_key(pieces(), KEY)
    assert next(told) == "住院"
    assert next(told) == "sk-a"
    with pytest.raises(ModelUnavailable):
        next(told)


def test_a_key_that_is_a_word_stays_a_word_in_replies() -> None:
    assert "".join(reply_without_key(iter(["用 ollama 启动"]), "ollama")) == "用 ollama 启动"
