"""Searching the library, on SQLite and on PostgreSQL: the same examples with the same similarities."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import delete, text, update

from qianxun.core.errors import BadQuery, BadSettings, ModelUnavailable, NotFound, RetrieverUnavailable
from qianxun.core.types import Vector
from qianxun.examples.insert import reembed
from qianxun.examples.library import RETRIEVAL_CONFIG, ExampleLibrary, SearchSettings
from qianxun.examples.results import ExampleFilter
from qianxun.examples.schema import DEFAULT_TABLE_NAMES
from qianxun.examples.store import ExampleStore
from qianxun.testing.scripted import HashEmbedding, ScriptedEmbedding
from tests.examples.libraries import (
    EXAMPLES,
    FIRST_AXIS,
    MODEL,
    Said,
    clustered,
    fill,
    insert_rows,
    library_url,
    lying_at,
    opened,
)
from tests.hypothesis_settings import examples

BOTH = pytest.mark.parametrize("library", ["sqlite", "postgres"], indirect=True)


@pytest.fixture
def library(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ExampleLibrary]:
    """An empty one."""
    with opened(library_url(request.param, tmp_path, request)) as library:
        library.store.prepare()
        yield library


@pytest.fixture
def two(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[ExampleLibrary, ExampleLibrary]]:
    with (
        opened(library_url("sqlite", tmp_path, request)) as here,
        opened(library_url("postgres", tmp_path, request)) as there,
    ):
        yield here, there


def at(cosines: dict[str, list[float]]) -> list[tuple[Said, Vector]]:
    """Examples at these cosines from the first axis."""
    return [
        (Said(f"{source}{number}", "答", source), lying_at(cosine))
        for source, listed in cosines.items()
        for number, cosine in enumerate(listed)
    ]


# ── one table ────────────────────────────────────────────────────────────────────────────────────


@BOTH
def test_the_nearest_of_a_table_come_with_their_similarity_and_what_is_known_of_them(library: ExampleLibrary) -> None:
    fill(library.store)
    question = MODEL.embed_query("高血压能喝酒吗 最好不喝，酒会影响降压药。")
    first, *others = library.search_in_table("qa_examples", question, 3, 0.0)
    assert first["similarity"] == pytest.approx(1.0, abs=1e-5)
    assert (first["user_input"], first["source"], first["quality_grade"]) == ("高血压能喝酒吗", "qa_examples", "良好")
    assert first["tags"] == first["metadata"]["tags"] == ["饮食", "高血压"]
    assert first["metadata"]["id"] == first["id"]
    assert first["metadata"]["created_at"].endswith("+00:00")
    assert len(others) == 2
    assert others[0]["similarity"] >= others[1]["similarity"]


@BOTH
def test_the_threshold_is_held_against_the_nearest_and_top_k_bounds_them(library: ExampleLibrary) -> None:
    insert_rows(library.store, at({"qa_examples": [0.95, 0.85, 0.75, 0.65, -0.5]}))

    def found(top_k: int, threshold: float) -> list[float]:
        return [
            round(row["similarity"], 4) for row in library.search_in_table("qa_examples", FIRST_AXIS, top_k, threshold)
        ]

    assert found(10, 0.7) == [0.95, 0.85, 0.75]
    assert found(2, 0.7) == [0.95, 0.85]
    assert found(10, 0.95 - 1e-4) == [0.95]
    assert found(10, 0.99) == []
    assert found(10, -1.0) == [0.95, 0.85, 0.75, 0.65, 0.0]  # a similarity is in [0, 1]
    assert library.search_in_table("greeting_examples", FIRST_AXIS, 5, 0.0) == []


@BOTH
def test_a_vector_of_any_length_that_points_the_same_way_finds_the_same(library: ExampleLibrary) -> None:
    fill(library.store)
    question = MODEL.embed_query("血压")
    expected = library.search_in_table("qa_examples", question, 4, 0.0)
    assert library.search_in_table("qa_examples", (question * 7).tolist(), 4, 0.0) == expected


@BOTH
def test_tables_go_by_their_category_or_by_their_full_name_and_by_no_other(library: ExampleLibrary) -> None:
    fill(library.store)
    by_category = library.search_in_table("qa_examples", FIRST_AXIS, 3, -1.0)
    assert library.search_in_table("gd2502_qa_examples", FIRST_AXIS, 3, -1.0) == by_category
    for name in ("users", "qa_examples; DROP TABLE gd2502_qa_examples", "", "QA_EXAMPLES", "pg_catalog.pg_class"):
        with pytest.raises(NotFound, match="qa_examples"):
            library.search_in_table(name, FIRST_AXIS, 3, 0.0)
        with pytest.raises(NotFound):
            library.vector_db_search("血压", table_names=["qa_examples", name])
    with pytest.raises(BadQuery, match="列表"):
        library.multi_table_search(FIRST_AXIS, "qa_examples")


@BOTH
def test_what_is_no_vector_of_the_library_or_no_number_of_results_is_refused(library: ExampleLibrary) -> None:
    for vector in ([1.0] * 63, [[1.0] * 64], [0.0] * 64, [float("nan")] * 64, [float("inf")] * 64, [], "一", None):
        with pytest.raises(BadQuery, match="查询向量"):
            library.search_in_table("qa_examples", vector, 3, 0.0)
    for top_k in (0, -1, 1001):
        with pytest.raises(BadQuery, match="1000"):
            library.search_in_table("qa_examples", FIRST_AXIS, top_k, 0.0)
        with pytest.raises(BadQuery, match="1000"):
            library.vector_db_search("血压", top_k=top_k)


@BOTH
def test_filters_let_pass_those_with_all_of_the_tags_and_one_of_the_grades(library: ExampleLibrary) -> None:
    fill(library.store)

    def found(where: ExampleFilter) -> set[str]:
        return {row["user_input"] for row in library.search_in_table("qa_examples", FIRST_AXIS, 9, -1.0, where=where)}

    assert found(ExampleFilter(tags=("饮食",))) == {"高血压能吃咸菜吗", "高血压能喝酒吗", "糖尿病能吃西瓜吗"}
    assert found(ExampleFilter(tags=("饮食", "糖尿病"))) == {"糖尿病能吃西瓜吗"}
    assert found(ExampleFilter(grades=("优秀", "一般"))) == {"高血压能吃咸菜吗", "糖尿病能吃西瓜吗"}
    assert found(ExampleFilter(tags=("高血压",), grades=("良好",))) == {"高血压能喝酒吗"}
    for hostile in ("%", "饮食' OR 1=1 --", "{饮食}", '"', "\\"):
        assert found(ExampleFilter(tags=(hostile,))) == set()


# ── several tables ───────────────────────────────────────────────────────────────────────────────


@BOTH
def test_tables_are_merged_five_of_each_and_fifteen_of_all(library: ExampleLibrary) -> None:
    step = {source: 0.001 * number for number, source in enumerate(DEFAULT_TABLE_NAMES)}
    cosines = {source: [0.95 - 0.01 * n - step[source] for n in range(8)] for source in DEFAULT_TABLE_NAMES}
    insert_rows(library.store, at(cosines))
    found = library.multi_table_search(FIRST_AXIS, list(DEFAULT_TABLE_NAMES))
    everything = sorted((cosine for listed in cosines.values() for cosine in listed[:5]), reverse=True)
    assert [row["similarity"] for row in found] == pytest.approx(everything[:15], abs=1e-5)
    only = library.multi_table_search(FIRST_AXIS, ["query_examples", "query_examples"], 2)
    assert [row["source"] for row in only] == ["query_examples"] * 2
    assert library.multi_table_search(FIRST_AXIS, []) == []


@BOTH
def test_grades_are_looked_at_before_the_cut(library: ExampleLibrary) -> None:
    """Twenty found, of which the five best are 一般: cut first, and the filter would never see more than fifteen."""
    rows = [
        (replace(said, grade="一般" if said.source == "qa_examples" else "优秀"), vector)
        for said, vector in at({source: [0.9 - 0.01 * n for n in range(5)] for source in DEFAULT_TABLE_NAMES})
    ]
    insert_rows(library.store, rows)
    found = library.multi_table_search(FIRST_AXIS, list(DEFAULT_TABLE_NAMES))
    assert len(found) == 15
    assert {row["quality_grade"] for row in found} == {"优秀"}
    assert {row["quality_grade"] for row in library.multi_table_search(FIRST_AXIS, DEFAULT_TABLE_NAMES[:3])} == {
        "一般",
        "优秀",
    }


@BOTH
def test_who_asks_for_more_than_fifteen_gets_ordinary_ones_too(library: ExampleLibrary) -> None:
    rows = at({source: [0.9 - 0.01 * n for n in range(6)] for source in DEFAULT_TABLE_NAMES})
    graded = [
        (replace(said, grade="一般" if said.source == "qa_examples" else "优秀"), vector) for said, vector in rows
    ]
    insert_rows(library.store, graded)
    everything = library.vector_db_search("问", top_k=40, similarity_threshold=-1.0)
    assert len(everything) == 24
    assert len(library.vector_db_search("问", top_k=20, similarity_threshold=-1.0)) == 20


@BOTH
@pytest.mark.parametrize(
    ("cosines", "expected"),
    [
        ([0.9, 0.85, 0.8, 0.75, 0.72, 0.65], 5),  # five at .7: the sixth is not wanted
        ([0.9, 0.85, 0.8, 0.75, 0.65, 0.55], 5),  # four at .7, five at .6
        ([0.9, 0.65, 0.55, 0.54, 0.53, 0.52], 6),  # six at .5
        ([0.9, 0.65, 0.55, 0.45, 0.44, 0.43], 3),  # too few even there: what there is
        ([0.45], 0),  # the floor
    ],
)
def test_thresholds_fall_until_enough_are_found(library: ExampleLibrary, cosines: list[float], expected: int) -> None:
    insert_rows(library.store, at({"qa_examples": cosines[::2], "query_examples": cosines[1::2]}))
    found = library.search_with_fallback(FIRST_AXIS, list(DEFAULT_TABLE_NAMES))
    assert [row["similarity"] for row in found] == pytest.approx(cosines[:expected], abs=1e-5)


@BOTH
def test_fewer_results_may_be_enough(library: ExampleLibrary) -> None:
    insert_rows(library.store, at({"qa_examples": [0.8, 0.65, 0.55]}))
    assert [len(library.search_with_fallback(FIRST_AXIS, None, least)) for least in (0, 1, 2, 3, 9)] == [1, 1, 2, 3, 3]


# ── from words ───────────────────────────────────────────────────────────────────────────────────


@BOTH
def test_a_question_finds_dialogues_with_where_they_are_from(library: ExampleLibrary) -> None:
    fill(library.store)
    found = library.vector_db_search("高血压能喝酒吗 最好不喝", similarity_threshold=0.1)
    assert found[0]["content"] == "用户：高血压能喝酒吗\n助手：最好不喝，酒会影响降压药。"
    assert set(found[0]) == {"content", "similarity", "source", "metadata"}
    assert [each["similarity"] for each in found] == sorted((each["similarity"] for each in found), reverse=True)
    assert all(0.0 <= each["similarity"] <= 1.0 for each in found)
    (one,) = library.vector_db_search("你好", top_k=1, similarity_threshold=0.0, table_names=["greeting_examples"])
    assert one["source"] == "greeting_examples"


@BOTH
def test_keywords_stand_behind_the_question(library: ExampleLibrary) -> None:
    fill(library.store)
    merged = library.vector_db_search("高血压 饮食 喝酒", similarity_threshold=0.0)
    assert library.vector_db_search("高血压", ["饮食", "喝酒"], similarity_threshold=0.0) == merged
    assert library.vector_db_search("高血压", "饮食 喝酒", similarity_threshold=0.0) == merged
    assert library.vector_db_search("", ["高血压"], similarity_threshold=0.0)
    for query_text, keywords in (("", None), ("", []), (" \n", [""])):
        with pytest.raises(BadQuery, match="没有可检索的文字"):
            library.vector_db_search(query_text, keywords)
    with pytest.raises(BadQuery, match="太长"):
        library.vector_db_search("高" * 20_001)


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_the_usual_threshold_falls_and_one_of_ones_own_does_not(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    with opened(
        library_url(kind, tmp_path, request), ScriptedEmbedding(change=lambda _: FIRST_AXIS, on="queries")
    ) as library:
        insert_rows(library.store, at({"qa_examples": [0.9, 0.8, 0.65, 0.55, 0.45]}))

        def found(**asked: float) -> int:
            return len(library.vector_db_search("问", **asked))  # type: ignore[arg-type]

        assert found() == 4
        assert found(similarity_threshold=0.75) == 2
        assert found(similarity_threshold=0.85) == 1
        assert found(similarity_threshold=0.85, min_results=3) == 3
        assert found(min_results=0) == 2
        assert found(top_k=2) == 2
        assert found(similarity_threshold=0.4) == 5
        assert len(library.retrieve("问")) == 4


@BOTH
def test_one_table_alone_is_asked_for_all_that_is_wanted(library: ExampleLibrary) -> None:
    insert_rows(library.store, at({"qa_examples": [0.9 - n / 100 for n in range(20)]}))
    assert len(library.multi_table_search(FIRST_AXIS, ["qa_examples"])) == 5
    named = library.vector_db_search("问", top_k=15, similarity_threshold=-1.0, table_names=["qa_examples"])
    assert len(named) == 15


def test_the_numbers_of_the_seed_are_in_force() -> None:
    assert dict(RETRIEVAL_CONFIG) == {"top_k_per_table": 5, "global_top_k": 15, "similarity_threshold": 0.7}
    assert DEFAULT_TABLE_NAMES == ("qa_examples", "record_examples", "query_examples", "greeting_examples")


# ── changes, models, prefixes ────────────────────────────────────────────────────────────────────


@BOTH
def test_what_is_added_changed_or_removed_counts_at_once(library: ExampleLibrary) -> None:
    def found() -> list[str]:
        return [row["user_input"] for row in library.search_in_table("qa_examples", FIRST_AXIS, 9, 0.5)]

    store, table = library.store, library.store.tables["qa_examples"]
    assert found() == []
    insert_rows(store, [(Said("甲", "答"), lying_at(0.9)), (Said("乙", "答"), lying_at(0.8))])
    assert found() == ["甲", "乙"]
    for cosine, expected in ((0.7, ["乙", "甲"]), (0.85, ["甲", "乙"]), (0.6, ["乙", "甲"])):  # within one second
        with store.writing() as connection:
            connection.execute(update(table).where(table.c.user_input == "甲").values(embedding=lying_at(cosine)))
        assert found() == expected
    with store.writing() as connection:
        connection.execute(delete(table).where(table.c.user_input == "甲"))
    assert found() == ["乙"]


def test_a_change_by_another_process_counts_at_once(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Another engine has connections of its own: to SQLite that is another process."""
    url = library_url("sqlite", tmp_path, request)
    with opened(url) as library, opened(url) as other:
        insert_rows(other.store, [(Said("甲", "答"), lying_at(0.9))])
        assert len(library.search_in_table("qa_examples", FIRST_AXIS)) == 1
        insert_rows(other.store, [(Said("乙", "答"), lying_at(0.8))])
        assert len(library.search_in_table("qa_examples", FIRST_AXIS)) == 2


@BOTH
def test_a_vector_of_zeros_is_like_nothing(library: ExampleLibrary) -> None:
    rows = [(Said("零", "答"), np.zeros(64, dtype=np.float32)), (Said("甲", "答"), lying_at(0.9))]
    insert_rows(library.store, rows)
    assert [row["user_input"] for row in library.multi_table_search(FIRST_AXIS, None, 5, -1.0)] == ["甲"]
    assert [each["content"] for each in library.vector_db_search("问", similarity_threshold=-1.0)] == [
        "用户：甲\n助手：答"
    ]


@BOTH
def test_a_library_of_another_model_is_not_searched(library: ExampleLibrary) -> None:
    fill(library.store)
    other = ExampleLibrary(ExampleStore(library.store.engine, model=HashEmbedding(64, "other")))
    with pytest.raises(BadSettings, match="fake-64"):
        other.vector_db_search("血压")
    other.close()
    without = ExampleLibrary(ExampleStore(library.store.engine))
    with pytest.raises(ModelUnavailable):
        without.vector_db_search("血压")
    assert len(without.multi_table_search(MODEL.embed_query("血压"), None, 5, -1.0)) == len(EXAMPLES)
    without.close()


@BOTH
@pytest.mark.parametrize("dimension", [64, 32])
def test_a_library_that_changes_over_to_another_model_is_searched_no_more(
    library: ExampleLibrary, dimension: int
) -> None:
    """Not even where its vectors are as long as they were: they would be compared with those of another model."""
    fill(library.store)
    assert library.vector_db_search(EXAMPLES[0].text)
    reembed(ExampleStore(library.store.engine, model=HashEmbedding(dimension, "other")))
    for _ in range(2):
        with pytest.raises((BadSettings, RetrieverUnavailable), match="other" if dimension == 64 else "32"):
            library.vector_db_search(EXAMPLES[0].text)


@BOTH
def test_libraries_with_other_prefixes_know_nothing_of_each_other(library: ExampleLibrary) -> None:
    fill(library.store)
    other = ExampleLibrary(ExampleStore(library.store.engine, "clinic_", MODEL))
    assert other.vector_db_search("高血压", similarity_threshold=0.0) == []
    fill(other.store, [Said("高血压怎么办", "看医生。")])
    assert len(other.vector_db_search("高血压", similarity_threshold=0.0)) == 1
    assert other.sources(["clinic_qa_examples"]) == ("qa_examples",)
    with pytest.raises(NotFound):
        other.sources(["gd2502_qa_examples"])
    other.close()


# ── both databases ───────────────────────────────────────────────────────────────────────────────


def test_both_databases_give_the_same_examples_with_the_same_similarity(
    two: tuple[ExampleLibrary, ExampleLibrary],
) -> None:
    vectors = clustered(400, 64, 12, seed=5)
    grades = ("优秀", "良好", "一般", None)
    rows = [
        (Said(f"问{n}", "答", DEFAULT_TABLE_NAMES[n % 4], (f"标签{n % 7}",), grades[n % 3]), vector)
        for n, vector in enumerate(vectors)
    ]
    for library in two:
        insert_rows(library.store, rows)
    for number, vector in enumerate(clustered(40, 64, 12, seed=5)):
        where = ExampleFilter(tags=(f"标签{number % 7}",)) if number % 2 else ExampleFilter()
        here, there = (library.multi_table_search(vector, None, 5, 0.2, where=where) for library in two)
        assert [(row["source"], row["id"]) for row in here] == [(row["source"], row["id"]) for row in there]
        assert [row["similarity"] for row in here] == pytest.approx([row["similarity"] for row in there], abs=1e-5)
        assert here
    texts = [each.text for each in EXAMPLES]
    for library in two:
        fill(library.store)
    for question in texts:
        here_found, there_found = (library.vector_db_search(question) for library in two)
        assert [each["content"] for each in here_found] == [each["content"] for each in there_found]


def test_any_words_may_be_asked(tmp_path: Path) -> None:
    with opened(f"sqlite:///{tmp_path / 'any.db'}", settings=SearchSettings(hybrid=True, by_intent=True)) as library:
        fill(library.store)

        @examples(60)
        @given(st.text(max_size=40), st.lists(st.text(max_size=8), max_size=3))
        def ask(query_text: str, keywords: list[str]) -> None:
            if f"{query_text} {' '.join(keywords)}".strip():
                for each in library.vector_db_search(query_text, keywords, similarity_threshold=0.0):
                    assert 0.0 <= each["similarity"] <= 1.0
            else:
                with pytest.raises(BadQuery):
                    library.vector_db_search(query_text, keywords)

        ask()


# ── options ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_by_intent_only_the_tables_that_are_meant_are_searched(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    with opened(library_url(kind, tmp_path, request), settings=SearchSettings(by_intent=True)) as library:
        fill(library.store)
        found = library.vector_db_search("查一下上周的血压情况", similarity_threshold=-1.0)
        assert {each["source"] for each in found} == {"query_examples"}
        named = library.vector_db_search("查一下上周的血压情况", None, 15, -1.0, ["qa_examples"])
        assert {each["source"] for each in named} == {"qa_examples"}
        everywhere = library.vector_db_search("氨氯地平", similarity_threshold=-1.0)
        assert {each["source"] for each in everywhere} == set(DEFAULT_TABLE_NAMES)


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_words_lift_what_vectors_miss_and_lower_nothing(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    with opened(
        library_url(kind, tmp_path, request), ScriptedEmbedding(change=lambda _: FIRST_AXIS, on="queries")
    ) as plain:
        rows = at({"qa_examples": [0.9, 0.8, 0.75, 0.7, 0.6]})
        worded = Said("氨氯地平和葡萄柚能一起吃吗", "不要一起吃。")
        insert_rows(plain.store, [*rows, (worded, lying_at(0.5))])
        hybrid = ExampleLibrary(plain.store, SearchSettings(hybrid=True))
        asked = {"similarity_threshold": 0.45, "top_k": 5, "table_names": ["qa_examples"]}
        before = plain.vector_db_search("氨氯地平 葡萄柚", **asked)  # type: ignore[arg-type]
        after = hybrid.vector_db_search("氨氯地平 葡萄柚", **asked)  # type: ignore[arg-type]
        assert all("氨氯地平" not in each["content"] for each in before)
        lifted = next(each for each in after if "氨氯地平" in each["content"])
        assert lifted["metadata"]["cosine"] == pytest.approx(0.5, abs=1e-5)
        assert lifted["similarity"] > 0.6
        assert 0.0 < lifted["metadata"]["keyword_score"] <= 1.0
        assert [each["similarity"] for each in after] == sorted((each["similarity"] for each in after), reverse=True)
        still = {each["content"]: each["similarity"] for each in after}
        assert all(still[each["content"]] >= each["similarity"] for each in before if each["content"] in still)
        where = ExampleFilter(grades=("优秀",))
        assert hybrid.vector_db_search("氨氯地平 葡萄柚", similarity_threshold=0.0, where=where) == []
        fill(plain.store, [Said("葡萄柚汁和氨氯地平", "隔开吃。")])  # new words are known at once
        assert "葡萄柚汁" in str(hybrid.vector_db_search("葡萄柚汁 氨氯地平", similarity_threshold=0.0))
        hybrid.close()


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_an_answer_is_kept_until_the_library_changes(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("qianxun.examples.revision.SETTLED_SECONDS", -1.0)  # the clock is not what is tried here
    model = ScriptedEmbedding()
    with opened(library_url(kind, tmp_path, request), model, SearchSettings(cache_seconds=60.0)) as library:
        fill(library.store)
        first = library.vector_db_search("高血压", ["饮食"], similarity_threshold=0.0)
        first[0]["metadata"] = {}
        again = library.vector_db_search("高血压", ["饮食"], similarity_threshold=0.0)
        assert len(model.queries) == 1
        assert again[0]["metadata"]["id"]
        library.vector_db_search("高血压 饮食", similarity_threshold=0.0)
        library.vector_db_search("高血压", ["饮食"], 3, similarity_threshold=0.0)
        assert len(model.queries) == 3
        fill(library.store, [Said("高血压能吃火腿吗", "少吃，火腿很咸。")])
        assert "火腿" in str(library.vector_db_search("高血压", ["饮食"], similarity_threshold=0.0))
        assert len(model.queries) == 4


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_change_by_hand_is_seen_though_no_time_tells_of_it(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("qianxun.examples.revision.SETTLED_SECONDS", -1.0)
    url = library_url(kind, tmp_path, request)
    with opened(url, settings=SearchSettings(cache_seconds=60.0)) as library:
        fill(library.store)
        for change, seen in (
            ("quality_grade = '良好'", "'良好'"),
            ("agent_response = agent_response || '改'", "改"),
            ("user_input = '高血压能吃腌萝卜吗'", "腌萝卜"),
        ):
            with library.store.writing() as connection:
                connection.execute(text(f"UPDATE gd2502_qa_examples SET {change} WHERE id = 1"))
            found = library.vector_db_search(EXAMPLES[0].text, top_k=1, similarity_threshold=0.0)
            assert seen in str(found)


# ── at once ──────────────────────────────────────────────────────────────────────────────────────


@BOTH
def test_sixteen_threads_get_what_one_would(library: ExampleLibrary) -> None:
    fill(library.store)
    questions = [each.text for each in EXAMPLES]
    expected = {text: library.vector_db_search(text) for text in questions}
    starting = threading.Barrier(16)

    def ask(number: int) -> bool:
        starting.wait(30)
        asked = [questions[(number + n) % len(questions)] for n in range(10)]
        return all(library.vector_db_search(text) == expected[text] for text in asked)

    with ThreadPoolExecutor(16) as threads:
        assert all(threads.map(ask, range(16)))


@BOTH
def test_sixteen_threads_may_be_the_first_to_search(library: ExampleLibrary) -> None:
    fill(library.store)
    fresh = ExampleLibrary(ExampleStore(library.store.engine, model=MODEL))
    with ThreadPoolExecutor(16) as threads:
        found = list(threads.map(lambda _: fresh.vector_db_search(EXAMPLES[0].text), range(16)))
    assert all(each == found[0] for each in found)
    assert found[0]
    fresh.close()
