"""What a section or a paragraph is called answers as a whole; claims, and comparisons with somebody unknown."""

from __future__ import annotations

from dataclasses import replace

from qianxun.answer.extractive.passage_lines import lines
from qianxun.answer.generate import AnswerGenerator
from qianxun.core.answer_types import Answer, Passage, Section
from qianxun.question.evidence_query import named_documents
from qianxun.text.chinese import fold


def passage(text: str, name: str, number: int, heading: str = "", score: float = 0.9) -> Passage:
    headings = {"headings": [heading]} if heading else {}
    start = number * 1_000
    return Passage(number, name, name, f"c{number}", text, start, start + len(text), score, headings)


def answer(question: str, *passages: Passage) -> Answer:
    return AnswerGenerator().generate(question, passages)


RECORD = (
    passage("血压126/80mmHg。心肺未见异常。", "榆湾医院病历（乔某）.md", 1, "六、体格检查"),
    passage("血钾3.9mmol/L。胸片未见异常。腹部彩超见胆囊息肉。", "榆湾医院病历（乔某）.md", 2, "七、辅助检查"),
    passage("血钾4.4mmol/L。心电图正常。", "榆湾医院病历（岳某）.md", 3, "七、辅助检查"),
)


def test_a_summary_of_what_a_section_is_called_is_all_of_it_and_of_no_other() -> None:
    found = answer("总结乔某的辅助检查结果。", *RECORD).answer
    assert all(part in found for part in ("3.9mmol/L", "胸片", "胆囊息肉"))
    assert "126/80" not in found
    assert "4.4" not in found


def test_sentences_of_a_joined_section_are_under_its_heading() -> None:
    """What stands beside a passage is no part of its section: another section's sentences are not its answer."""
    text = "五、辩称\n教练正常流动。六、请求\n退还课程费13,440元。"
    start = text.index("六、请求")
    joined = replace(
        passage(text, "判决书.txt", 1, "六、请求"),
        sections=(Section(0, ("五、辩称",)), Section(start, ("六、请求",))),
    )
    assert [(line.heading, line.text, line.before) for line in lines([joined])] == [
        ("五、辩称", "教练正常流动。", ""),
        ("六、请求", "退还课程费13,440元。", ""),
    ]
    assert answer("请求是什么？", joined).answer == "退还课程费13,440元。[1]"


def test_all_sentences_of_a_paragraph_are_under_its_label() -> None:
    text = "既往史：高血压六年。否认糖尿病。\n【证据】监控录像。转账记录。\n另行通知。"
    assert [line.label for line in lines([passage(text, "记录.txt", 1)])] == ["既往史"] * 2 + ["证据"] * 2 + [""]


def test_a_document_is_named_without_the_town_that_its_name_begins_with() -> None:
    assert named_documents("柳湖区人民法院判了多久", ["沧源市柳湖区人民法院刑事判决书.txt"]) == ("柳湖区人民法院",)


def test_what_a_court_found_counts_though_the_line_reports_a_claim_as_well() -> None:
    found = answer(
        "法院认定的货款是多少？",
        passage("关于货款，丙公司主张九万元，没有证据，本院认定货款为62,000元。", "判决书.txt", 1, "本院认为"),
        passage("丙公司要求支付货款90,000元。", "判决书.txt", 2, "诉讼请求"),
    )
    assert "62,000元" in found.answer


def test_nobody_is_compared_with_one_whom_no_source_knows() -> None:
    stated = passage("乔某的住院天数为5天。", "病历（乔某）.md", 1)
    assert answer("比较乔某和冉某的住院天数，谁的更多？", stated).is_declined


def test_an_order_in_time_is_answered_by_the_times_of_all() -> None:
    found = answer(
        "乔某和岳某的入院时间先后顺序是怎样的？",
        passage("姓名：乔某。入院时间：2022年5月6日。", "病历（乔某）.md", 1),
        passage("姓名：岳某。入院时间：2021年8月9日。", "病历（岳某）.md", 2),
    )
    assert "2022年5月6日" in found.answer
    assert "2021年8月9日" in found.answer


LISTED = "申请人办理本项登记须同时符合下列条件：\n一、有身份证；\n二、有户口本。\n逾期不办。"


def test_lines_of_a_passage_that_was_cut_before_are_of_the_question_that_asks_now() -> None:
    first, second = passage(LISTED, "甲办法", 1, "总则"), passage(f"甲公司负责。\n{LISTED}", "乙办法", 2, "总则")
    alone, both = lines([second]), lines([first, second], {second.doc_id: ("某某",)})
    own = both[len(lines([first])) :]
    assert [line.at for line in both] == list(range(len(both)))
    shifted = len(both) - len(own)
    for line, other in zip(own, alone, strict=True):
        assert (line.text, line.before, line.start) == (other.text, other.before, other.start)
        assert line.opening == (other.opening + shifted if other.opening >= 0 else -1)
        assert line.list_at == (other.list_at + shifted if other.list_at >= 0 else -1)
        assert (line.passage, line.name) == (second, f"{other.name}\n某某")
    assert [line.opened for line in own if line.opening >= 0] == [fold("申请人办理本项登记须同时符合下列条件：")] * 2


def test_what_a_passage_stands_under_is_part_of_what_is_remembered_of_it() -> None:
    under = [lines([passage("逾期不办。", "甲办法", 1, heading)])[0].heading for heading in ("总则", "附则")]
    named = [lines([passage("总则\n逾期不办。", name, 1)])[0].name for name in ("甲办法", "乙办法")]
    joined = replace(passage("逾期不办。", "甲办法", 1, "总则"), sections=(Section(0, ("罚则",)),))
    assert (under, named, lines([joined])[0].heading) == (["总则", "附则"], ["甲办法", "乙办法"], "罚则")
