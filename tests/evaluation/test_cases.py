"""Labels find their passage however it is cut; sets go to a BEIR-style folder and come back."""

from __future__ import annotations

from pathlib import Path

import pytest

from qianxun.core.errors import BadInput
from qianxun.core.evaluation_types import Case, Relevant
from qianxun.core.types import Attributes, Chunk
from qianxun.evaluation.cases import Labels, first_relevant, is_still_there, ranked, read_cases, write_cases
from qianxun.evaluation.metrics import measured

TEXT = (
    "第十二条　职工住院发生的医疗费用，超过起付标准的部分由统筹基金按照百分之八十五的比例支付。"
    "第十三条　门诊慢性病的费用，每年在限额以内按照百分之六十的比例支付，超过限额的部分由个人负担。"
    "第十四条　异地就医须事先办理备案手续，未备案的支付比例降低二十个百分点。"
)


def chunk(text: str, at: int = 0, doc_id: str = "手册") -> Chunk:
    attributes = Attributes(doc_id=doc_id, kind="text")
    return Chunk(at, f"c_1001_{doc_id}_{at}", doc_id, doc_id, at, text, 0, len(text), "text", (), None, 1, attributes)


def cut(size: int, overlap: int = 0) -> list[Chunk]:
    starts = range(0, len(TEXT), size - overlap)
    return [chunk(TEXT[start : start + size], at) for at, start in enumerate(starts)]


@pytest.mark.parametrize(("size", "overlap"), [(20, 0), (30, 10), (45, 0), (60, 20), (200, 0)])
def test_a_passage_is_found_however_the_document_is_cut(size: int, overlap: int) -> None:
    passage = TEXT[: TEXT.index("第十三条")]
    labels = Labels.of_case(Case("住院付多少", (Relevant("手册", passage),)))
    relevant = [piece.text for piece in cut(size, overlap) if labels.fitting(piece)]
    assert relevant
    assert relevant[0].startswith("第十二条")
    assert all("异地就医" not in text or len(text) > 100 for text in relevant)


def test_the_same_words_in_another_document_are_not_the_passage() -> None:
    labels = Labels.of_case(Case("问", (Relevant("手册", TEXT[:40]),)))
    assert labels.fitting(chunk(TEXT[:40], doc_id="别处")) == []


def test_blanks_and_marks_do_not_matter_and_a_short_passage_counts() -> None:
    labels = Labels.of_case(Case("问", (Relevant("手册", "85%"), Relevant("手册", "| 比例 | 报销上限 |"))))
    assert labels.fitting(chunk("住院为 85 %")) == []
    assert labels.fitting(chunk("比例\t报销上限")) == ["label:1"]
    assert labels.fitting(chunk("８５")) == []
    assert Labels.of_case(Case("问", (Relevant("手册", "85%"),))).fitting(chunk("85")) == ["label:0"]


def test_whole_documents_rank_where_their_best_chunk_does() -> None:
    labels = Labels.of_case(Case("问", (Relevant("甲"), Relevant("乙", grade=2))))
    found = [
        chunk("一", 0, "丙"),
        chunk("二", 1, "丙"),
        chunk("三", 0, "甲"),
        chunk("四", 1, "甲"),
        chunk("五", 0, "乙"),
    ]
    assert ranked(labels, found) == ["document:丙", "label:0", "label:1"]
    assert first_relevant(labels, found) == 3
    assert measured(labels.grades, ranked(labels, found))["mrr@10"] == 1 / 2


def test_a_wrong_chunk_of_the_right_document_takes_a_place() -> None:
    labels = Labels.of_case(Case("问", (Relevant("手册", TEXT[:44]),)))
    pieces = cut(44)
    assert ranked(labels, [pieces[1], pieces[2], pieces[0]]) == [
        "chunk:c_1001_手册_1",
        "chunk:c_1001_手册_2",
        "label:0",
    ]
    assert first_relevant(labels, [pieces[1]]) is None


def test_a_passage_that_is_gone_is_known_to_be() -> None:
    assert is_still_there(Relevant("手册", TEXT[:44]), cut(30))
    assert is_still_there(Relevant("手册"), cut(30))
    assert not is_still_there(Relevant("手册", "本办法自二〇二六年起废止，由新的办法代替。"), cut(30))
    assert not is_still_there(Relevant("手册"), [])


def test_a_set_comes_back_from_a_folder_as_it_went(tmp_path: Path) -> None:
    cases = [
        Case("住院付多少", (Relevant("手册", TEXT[:44], 2), Relevant("制度")), "85%", "feedback", id=1),
        Case("门诊\n付多少", (Relevant("手册"),), "", "imported", id=2),
    ]
    write_cases(tmp_path / "集", cases)
    read, notes = read_cases(tmp_path / "集")
    assert notes == ()
    assert [
        Case(one.question, one.relevant, one.expected, one.origin, id=at) for at, one in enumerate(read, 1)
    ] == cases


def test_a_folder_without_our_metadata_labels_whole_documents(tmp_path: Path) -> None:
    (tmp_path / "queries.jsonl").write_text('{"_id": "q", "text": "住院", "metadata": {"passages": 3}}\n', "utf-8")
    (tmp_path / "qrels.tsv").write_text("q\td1\t1\nq\td2\t0\n", "utf-8")
    ((case,), _) = read_cases(tmp_path)
    assert case.relevant == (Relevant("d1"), Relevant("d2", grade=0))
    assert case.origin == "imported"


def test_a_folder_without_queries_says_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"queries.jsonl、qrels.tsv"):
        read_cases(tmp_path)


def test_an_id_that_no_table_of_judgements_can_have_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="制表符"):
        write_cases(tmp_path, [Case("问", (Relevant("a\tb"),), id=1)])
