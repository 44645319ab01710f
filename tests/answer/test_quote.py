from __future__ import annotations

from qianxun.answer.quote import quote, sentences
from qianxun.types import ArmScore, Attributes, Chunk, Found


def passage(text: str, score: float = 0.5, *, headings: tuple[str, ...] = (), page: int | None = None) -> Found:
    chunk = Chunk(1, "c_1_1_0", "1", "手册.md", 0, text, 0, len(text), "text", headings, page, 1, Attributes("1"))
    return Found(chunk, score, "keyword", {"keyword": ArmScore(1, score, score)})


HANDBOOK = "笔记本电脑须启用全盘加密。电脑遗失的，应在 2 小时内拨打值班电话 8023！其他事项照旧。"


def test_the_sentence_that_takes_up_most_of_the_question_is_quoted() -> None:
    said = quote([passage(HANDBOOK)], "电脑遗失了该打哪个电话")
    assert said is not None
    assert said.cited == "“电脑遗失的，应在 2 小时内拨打值班电话 8023！”[1]"


def test_a_quotation_stands_word_for_word_in_its_source() -> None:
    said = quote([passage(HANDBOOK), passage("遺失發票請登報。")], "發票遗失")
    assert said is not None
    assert said.sentence in said.source.chunk.text


def test_the_row_of_a_table_is_a_sentence() -> None:
    said = quote([passage("价目表\n| 编号 | 单价 |\n| QH-1001 | 22.5 |\n| QH-2087 | 2199 |")], "QH-2087 单价")
    assert said is not None
    assert said.sentence == "| QH-2087 | 2199 |"


def test_between_equal_sentences_the_better_passage_wins() -> None:
    better = passage("发票须在 30 日内提交。", 0.9)
    said = quote([better, passage("发票须在 30 日内提交。", 0.3)], "发票多少日内提交")
    assert said is not None
    assert said.source is better


def test_nothing_found_is_nothing_quoted() -> None:
    assert quote([], "发票") is None
    assert quote([passage("  \n ")], "发票") is None


def test_the_place_names_document_headings_and_page() -> None:
    said = quote([passage(HANDBOOK, headings=("手册", "第三章"), page=7)], "电脑")
    assert said is not None
    assert said.place == "手册.md › 第三章 › 第 7 页"


def test_sentences_lose_nothing_but_space() -> None:
    text = "第一句。第二句！“引文？”他说\n没有句号的一行"
    assert list(sentences(text)) == ["第一句。", "第二句！", "“引文？”", "他说", "没有句号的一行"]
