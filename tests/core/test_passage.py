"""A passage for a reader outside: no heading is missing, none stands there twice."""

from __future__ import annotations

from typing import Literal

import pytest

from qianxun.core.codec.passage import chunk_place, chunk_title, passage_text
from qianxun.core.types import Attributes, Chunk

TABLE = "| 职级 | 一线城市 |\n| 总监 | 600 |"


def chunk(
    text: str,
    headings: tuple[str, ...] = (),
    *,
    kind: Literal["text", "table"] = "text",
    name: str = "差旅.md",
    path: str | None = None,
) -> Chunk:
    about = Attributes(doc_id="d", metadata={} if path is None else {"path": path})
    return Chunk(0, "c_1_d_0", "d", name, 0, text, 0, len(text), kind, headings, None, 1, about)


@pytest.mark.parametrize(
    ("text", "headings", "shown"),
    [
        (TABLE, ("员工手册", "差旅标准"), f"员工手册 › 差旅标准\n\n{TABLE}"),
        (f"员工手册\n\n差旅标准\n\n差旅标准\n{TABLE}", ("员工手册", "差旅标准"), f"员工手册 › 差旅标准\n\n{TABLE}"),
        (f"价目表\n\n价目表\n\n价目表\n{TABLE}", ("价目表", "价目表"), f"价目表\n\n{TABLE}"),
        (TABLE, (), f"差旅\n\n{TABLE}"),
        (f"各级标准\n{TABLE}", (), f"各级标准\n{TABLE}"),
        ("第三条 起付线为三百元。", ("第三条",), "第三条\n\n第三条 起付线为三百元。"),
        ("员工手册\n\n差旅", ("员工手册", "差旅"), "员工手册 › 差旅"),
        ("", ("员工手册",), "员工手册"),
    ],
)
def test_every_heading_stands_above_the_text_once(text: str, headings: tuple[str, ...], shown: str) -> None:
    assert passage_text(chunk(text, headings, kind="table")) == shown


def test_prose_without_headings_stays_as_it_is() -> None:
    assert passage_text(chunk("| 是一条竖线。")) == "| 是一条竖线。"


def test_files_of_one_name_are_told_apart_by_their_path() -> None:
    placed = chunk("x", ("差旅", "住宿"), path="制度/差旅.md")
    assert (chunk_title(placed), chunk_place(placed)) == ("制度/差旅.md", "制度/差旅.md › 住宿")
    assert chunk_title(chunk("x", path="别的东西")) == "差旅.md"  # metadata that people called so
    assert chunk_title(chunk("x", name="", path="制度/")) == "d"
