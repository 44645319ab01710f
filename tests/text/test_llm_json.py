"""The one reader of a language model's JSON."""

from __future__ import annotations

from typing import Any

import pytest

from qianxun.text.llm_json import Malformed, read_json


@pytest.mark.parametrize(
    ("reply", "kind", "expected"),
    [
        ('{"a": 1}', None, {"a": 1}),
        ('好的：\n```json\n["甲"]\n```\n如需补充请告诉我。', None, ["甲"]),
        ('[注意] {"a": [1]}', None, {"a": [1]}),
        ('["甲"] {"a": 1}', dict, {"a": 1}),
        ('{"a": ["甲"]}', list, ["甲"]),
        ('<think>{"a": 0}</think>{"a": 1}', dict, {"a": 1}),
        ('先想：{"a": 还不知道}\n</think>\n\n{"a": 1}', dict, {"a": 1}),
    ],
)
def test_json_is_found_wherever_a_model_puts_it(reply: str, kind: type | None, expected: Any) -> None:
    assert read_json(reply, kind) == expected


@pytest.mark.parametrize("reply", ["", "不知道", None, b"{}", '{"a": ', '[{"a": 1}, {"b"', "[" * 100_000])
def test_what_was_cut_off_is_refused(reply: object) -> None:
    with pytest.raises(Malformed):
        read_json(reply)


def test_length_and_what_follows_can_be_bounded() -> None:
    assert read_json("[] 完毕", list) == []
    with pytest.raises(Malformed, match="JSON"):
        read_json("[] 完毕", list, is_last=True)
    with pytest.raises(Malformed, match="过长"):
        read_json("[]" + " " * 10, limit=10)
