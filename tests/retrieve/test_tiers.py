"""How sure each result is, which documents a query names, and what is let in where only sure results are wanted."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from qianxun.core.errors import BadQuery
from qianxun.core.options import Mode, SearchOptions
from qianxun.core.types import Document, Eq, Recall
from qianxun.engine.settings import Search
from qianxun.rank.calibrate import Curves
from qianxun.retrieve.run import brief_recall, recall
from tests.answer.asked import Opened

LIBRARY = [
    Document("a1", "参保职工住院的报销比例为百分之八十五。", name="医保手册.md", user_id="张三"),
    Document("a2", "门诊慢性病的报销比例为百分之七十。", name="门诊 细则 2024.pdf", user_id="张三"),
    Document("a3", "生育津贴按照上年度职工月平均工资计发。", name="RAG系统设计.pdf", user_id="李四"),
    Document("a4", "发票应当妥善保管，作为报销凭证。", name="發票說明.txt", user_id="李四"),
    Document("a5", "异地就医需要先备案。", name="abc.md", user_id="李四"),
    Document("a6", "异地转诊也要备案。", name="abcdef.md", user_id="李四"),
    *(Document(f"z{number}", f"城市第{number}号公园的花卉养护记录。", name=f"公园{number}") for number in range(30)),
]


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opened]:
    with Opened(tmp_path_factory.mktemp("tiers"), LIBRARY, search=Search(cache_entries=0)) as held:
        # A curve by which the hashed texts' cosines mean something: .7 at .467.
        held.run(held.engine.base(held.kb)).curves = Curves((0.4, 12.6), (0.3, 9.0), (0.6, 10.0))
        yield held


def tiers(recall: Recall) -> dict[str, str]:
    return {each.chunk.doc_id: each.tier for each in recall.found}


# ── strict and fuzzy ─────────────────────────────────────────────────────────────────────────────


def test_a_sure_result_is_strict_and_a_distant_one_fuzzy(shelf: Opened) -> None:
    recall = shelf.ask("参保职工住院的报销比例", top_k=100)
    found = tiers(recall)
    assert found["a1"] == "strict"
    assert found["a4"] == "fuzzy"
    assert recall.tier == "fuzzy"
    best = recall.found[0]
    assert best.coverage > 0.5
    assert best.arms["vector"].score > 0.7
    assert set(best.matched) >= {"参保", "职工", "住院", "报销", "比例"}


def test_the_nearest_come_though_they_share_no_character_and_nothing_farther_does(shelf: Opened) -> None:
    """HashEmbedding knows no meaning: ranks by it are as good as random, and that is all this needs."""
    recall = shelf.ask("qwxyz", mode="vector", top_k=100)
    assert [each.arms["vector"].rank for each in recall.found] == [1, 2, 3]
    assert {each.tier for each in recall.found} == {"fuzzy"}
    assert shelf.ask("qwxyz", mode="vector", top_k=100, fuzzy=False).found == ()


@pytest.mark.parametrize("mode", ["vector", "fulltext", "hybrid"])
@pytest.mark.parametrize("query", ["qwxyz", "参保职工住院的报销比例", "花卉", "医保手册.md 备案", "凭证 abc"])
def test_a_search_for_many_results_admits_what_one_for_few_does(shelf: Opened, query: str, mode: Mode) -> None:
    base, options = shelf.run(shelf.engine.base(shelf.kb)), SearchOptions(mode=mode, top_k=100, threshold=0.0)
    brief, complete = shelf.run(brief_recall(base, query, options))
    assert tuple(map(complete, brief.results)) == shelf.run(recall(base, query, options)).results


def test_where_fuzzy_results_are_not_allowed_only_sure_ones_come(shelf: Opened) -> None:
    loose = shelf.ask("参保职工住院的报销比例", top_k=100)
    sure = shelf.ask("参保职工住院的报销比例", top_k=100, fuzzy=False)
    assert set(tiers(sure).values()) == {"strict"}
    assert sure.tier == "strict"
    kept = [(each.chunk.key, each.score) for each in loose.found if each.tier == "strict"]
    assert [(each.chunk.key, each.score) for each in sure.found] == kept
    assert shelf.ask("量子计算机的价格", fuzzy=False).found == ()
    assert shelf.ask("量子计算机的价格", fuzzy=False).tier is None


@pytest.mark.parametrize("mode", ["hybrid", "vector"])
def test_half_of_the_words_is_not_enough_however_alike(shelf: Opened, mode: Mode) -> None:
    """公园 and 养护 are in every other document, 地铁 and 票价 in none: what is rare counts for more."""
    recall = shelf.ask("公园养护地铁票价", mode=mode, top_k=100)
    assert recall.found
    assert all(each.coverage <= 0.5 and each.tier == "fuzzy" for each in recall.found)


def test_without_vectors_words_alone_decide(shelf: Opened) -> None:
    found = tiers(shelf.ask("住院报销比例", mode="fulltext"))
    assert found["a1"] == "strict"
    assert found["a4"] == "fuzzy"


def test_a_word_mistyped_by_its_sound_finds_what_was_meant_only_where_guesses_are_allowed(shelf: Opened) -> None:
    recall = shelf.ask("生育金贴怎么计发", mode="fulltext")
    assert recall.queries == ("生育金贴怎么计发", "生育津贴怎么计发")
    assert recall.found[0].chunk.doc_id == "a3"
    assert shelf.ask("生育金贴怎么计发", mode="fulltext", fuzzy=False).queries == ("生育金贴怎么计发",)


def test_a_guess_makes_nothing_strict(shelf: Opened) -> None:
    """Judged by what was written, not by what it may have meant."""
    recall = shelf.ask("金贴", mode="fulltext")
    assert recall.queries[1:] == ("津贴",)
    assert tiers(recall)["a3"] == "fuzzy"


# ── documents that are named ─────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("query", "doc_id", "rest"),
    [
        ("@医保手册 报销备案津贴", "a1", "报销备案津贴"),
        ("@医保手册.md 报销备案津贴", "a1", "报销备案津贴"),
        ("＠医保手册 报销备案津贴", "a1", "报销备案津贴"),
        ("@a1 报销备案津贴", "a1", "报销备案津贴"),
        ("报销备案津贴 @医保手册", "a1", "报销备案津贴"),
        ("报销备案津贴@医保手册", "a1", "报销备案津贴"),
        ("请在@医保手册里查报销备案津贴", "a1", "请在 里查报销备案津贴"),
        ("@医保手册，报销备案津贴多少", "a1", "，报销备案津贴多少"),
        ("@医保手册报销备案津贴多少", "a1", "报销备案津贴多少"),
        ("@《医保手册》报销备案津贴", "a1", "报销备案津贴"),
        ("@《门诊 细则 2024》 报销备案津贴", "a2", "报销备案津贴"),
        ('@"门诊 细则 2024.pdf"报销备案津贴', "a2", "报销备案津贴"),
        ("@“门诊 细则 2024”报销备案津贴", "a2", "报销备案津贴"),
        ("@「门诊 细则 2024」报销备案津贴", "a2", "报销备案津贴"),
        ("@rag系统设计 报销备案津贴", "a3", "报销备案津贴"),
        ("@ＲＡＧ系統設計 报销备案津贴", "a3", "报销备案津贴"),
        ("@發票說明 报销备案津贴", "a4", "报销备案津贴"),
        ("@abc 报销备案津贴", "a5", "报销备案津贴"),
        ("@abcdef 报销备案津贴", "a6", "报销备案津贴"),
    ],
)
@pytest.mark.parametrize("mode", ["hybrid", "fulltext"])
def test_a_document_can_be_named_in_the_query(shelf: Opened, query: str, doc_id: str, rest: str, mode: Mode) -> None:
    recall = shelf.ask(query, mode=mode)
    assert recall.degraded == ()
    assert recall.queries[0] == rest
    assert {each.chunk.doc_id for each in recall.found} == {doc_id}


def test_thresholds_do_not_hold_for_a_named_document(shelf: Opened) -> None:
    for options in ({"query": "@医保手册 职工工资"}, {"query": "职工工资", "doc_ids": ("a1",)}):
        recall = shelf.ask(**options, threshold=1.0, fuzzy=False)  # type: ignore[arg-type]
        assert tiers(recall) == {"a1": "document"}
        assert recall.tier == "document"
    assert shelf.ask("职工工资", threshold=1.0).found == ()


def test_a_sure_result_of_a_named_document_is_strict(shelf: Opened) -> None:
    assert tiers(shelf.ask("@医保手册 参保职工住院的报销比例")) == {"a1": "strict"}


def test_several_documents_can_be_named(shelf: Opened) -> None:
    assert set(tiers(shelf.ask("@医保手册 @a2 报销比例"))) == {"a1", "a2"}
    assert shelf.ask("@医保手册@a2 报销比例").queries == ("报销比例",)


@pytest.mark.parametrize(
    "query", ["写信给zhang.san@example.com问报销比例", "张三@example.com 报销比例", "a@医保手册 报销比例", "报销比例 @"]
)
def test_an_address_names_no_document(shelf: Opened, query: str) -> None:
    recall = shelf.ask(query, mode="fulltext")
    assert recall.degraded == ()
    assert recall.queries[0] == query
    assert {"a1", "a2"} <= set(tiers(recall))


@pytest.mark.parametrize(
    ("query", "name"),
    [("@没有的手册 报销比例", "没有的手册"), ("@《没有 的》报销比例", "没有 的"), ("@ab 报销比例", "ab")],
)
def test_a_name_that_no_document_has_is_said_and_searched_for_as_text(shelf: Opened, query: str, name: str) -> None:
    recall = shelf.ask(query, mode="fulltext")
    assert [each.part for each in recall.degraded] == ["document"]
    assert f"“{name}”" in recall.degraded[0].reason
    assert {"a1", "a2"} <= set(tiers(recall))


def test_a_name_alone_is_no_question(shelf: Opened) -> None:
    with pytest.raises(BadQuery, match="只写了文档名"):
        shelf.ask("@医保手册")


def test_a_request_for_some_documents_is_not_widened_by_its_text(shelf: Opened) -> None:
    recall = shelf.ask("@医保手册 报销比例", doc_ids=("a2", "a4"))
    assert set(tiers(recall)) <= {"a2", "a4"}
    assert "不在所选的文档之内" in recall.degraded[0].reason
    assert set(tiers(shelf.ask("@医保手册 报销比例", doc_ids=("a1", "a2")))) == {"a1"}


def test_a_name_does_not_tell_of_documents_that_the_request_may_not_see(shelf: Opened) -> None:
    theirs = shelf.ask("@医保手册 报销凭证", where=Eq("user_id", "李四"))
    missing = shelf.ask("@从没有过 报销凭证", where=Eq("user_id", "李四"))
    assert set(tiers(theirs)) >= {"a4"}
    assert "a1" not in tiers(theirs)
    assert theirs.degraded[0].reason.replace("医保手册", "") == missing.degraded[0].reason.replace("从没有过", "")
    assert tiers(shelf.ask("@医保手册 报销凭证", where=Eq("user_id", "张三"))).keys() == {"a1"}


def test_a_deleted_document_is_named_no_more(shelf: Opened) -> None:
    shelf.run(shelf.engine.add_documents(shelf.kb, [Document("tmp", "临时的报销比例。", name="临时.md")]))
    assert tiers(shelf.ask("@临时 报销比例")).keys() == {"tmp"}
    shelf.run(shelf.engine.delete_document(shelf.kb, "tmp"))
    assert shelf.ask("@临时 报销比例").degraded[0].part == "document"


def test_a_hundred_mentions_are_not_looked_up(shelf: Opened) -> None:
    assert shelf.ask("@没有 " * 100 + "报销比例").found
