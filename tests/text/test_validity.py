"""What a text says of when it is in force, and what people state instead."""

from __future__ import annotations

import pytest

from qianxun.core.errors import BadInput, BadQuery
from qianxun.core.governance.validity import Validity, checked_as_of, iso_day
from qianxun.core.types import Document
from qianxun.text.validity import read_validity, validity_of


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("第九条 本办法自2024年1月1日起施行。", Validity("2024-01-01")),
        ("本规定自 2023 年 7 月 1 日起执行，有效期五年。", Validity("2023-07-01", "2028-06-30")),
        ("本细则自２０２４年２月２９日起实施，有效期1年。", Validity("2024-02-29", "2025-02-28")),
        ("本通知执行至2025年12月31日。", Validity("", "2025-12-31")),
        (
            "本办法自2024年1月1日起施行。《差旅费管理办法》（财行〔2019〕5号）同时废止。",
            Validity("2024-01-01", "", ("差旅费管理办法",)),
        ),
        ("原《出差规定》停止执行。", Validity("", "", ("出差规定",))),
        ("《甲办法》和《乙办法》同时废止。", Validity("", "", ("甲办法", "乙办法"))),
        ("经研究决定，同时废止《住宿标准》。", Validity("", "", ("住宿标准",))),
        ("施行日期：2021年5月1日", Validity("2021-05-01")),
    ],
)
def test_a_text_says_when_it_is_in_force(text: str, expected: Validity) -> None:
    assert read_validity(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "《租赁合同》自2020年1月1日起生效，有效期三年。",  # a ledger speaks of other documents
        "证书有效期至2025年12月31日。",
        "该产品自2024年1月1日起停止销售。",
        "本办法自发布之日起施行。",
        "本办法自2024年13月1日起施行。",
        "依照《劳动法》执行。",
    ],
)
def test_what_is_about_something_else_is_not_read(text: str) -> None:
    assert not read_validity(text)


def test_of_a_long_text_both_ends_are_read() -> None:
    middle = "第二条 略。" * 2000
    text = f"《旧办法》同时废止。\n{middle}\n第九条 本办法自2024年1月1日起施行。"
    assert read_validity(text) == Validity("2024-01-01", "", ("旧办法",))
    assert not read_validity(f"{middle}本办法自2024年1月1日起施行。{middle}")


def test_what_people_state_counts_and_the_rest_is_read() -> None:
    text = "本办法自2024年1月1日起施行。《旧办法》同时废止。"
    stated = Document("a", text, metadata={"valid_from": "2024/3/1"})
    assert validity_of(stated) == Validity("2024-03-01", "", ("旧办法",), read=("supersedes",))
    none = Document("a", text, metadata={"valid_from": "", "supersedes": ""})
    assert not validity_of(none)


@pytest.mark.parametrize(
    "metadata",
    [
        {"valid_from": "明年"},
        {"valid_until": 2024},
        {"valid_from": "2024-02-30"},
        {"valid_from": "2024-02-01", "valid_until": "2024-01-01"},
        {"supersedes": (1, 2)},
    ],
)
def test_what_is_no_day_is_refused(metadata: dict[str, object]) -> None:
    with pytest.raises(BadInput, match=r"metadata\.(valid_|supersedes)"):
        validity_of(Document("a", "", metadata=metadata))  # type: ignore[arg-type]


def test_days_are_written_in_many_ways() -> None:
    written = ("2024-01-05", "2024/1/5", "2024.1.5", "2024年1月5日", " 2024 年 1 月 5 日 ", "2024-01-05T08:00:00+08:00")
    assert {iso_day(one) for one in written} == {"2024-01-05"}
    assert [iso_day(one) for one in ("2024", "24-1-5", "2024-1-32", "昨天")] == [None] * 4
    assert (checked_as_of(""), checked_as_of("any"), checked_as_of("2024年1月5日")) == ("", "any", "2024-01-05")
    with pytest.raises(BadQuery, match="as_of"):
        checked_as_of("昨天")
