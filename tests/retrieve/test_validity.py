"""As of when a search looks: what is in force on that day, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import delete

from qianxun.bases.in_force import InForce, Period
from qianxun.core.errors import BadInput, BadQuery
from qianxun.core.governance.validity import AsOf, Validity
from qianxun.core.types import Document, Recall
from qianxun.engine.engine import Engine
from qianxun.records import bases
from qianxun.records.schema import ValidityRow
from qianxun.retrieve.as_of import named_day, without_day
from tests.hypothesis_settings import SLOW_OR_SHARED, examples
from tests.indexing.opened import OpenedLibrary, opened

T = TypeVar("T")
OLD = "差旅费管理办法\n\n第三条 一线城市住宿费标准为每人每天 500 元。\n\n第九条 本办法自2019年3月1日起施行。"
NEW = (
    "差旅费管理办法\n\n第三条 一线城市住宿费标准为每人每天 650 元。\n\n"
    "第九条 本办法自2024年1月1日起施行。《差旅费管理办法》（2019年3月1日）同时废止。"
)
LIBRARY = [
    Document("old", OLD, name="差旅费管理办法（2019）.docx"),
    Document("new", NEW, name="差旅费管理办法（2024）.docx"),
    Document("other", "住宿费发票应当注明入住日期。", name="发票.txt"),
]
QUERY = "一线城市住宿费标准"


class Shelf(OpenedLibrary):
    """Regulations and their amendments."""

    def found(self, query: str = QUERY, **choices: Any) -> Recall:
        return self.run(self.engine.retrieve(self.kb, query, **choices))

    def ids(self, query: str = QUERY, **choices: Any) -> list[str]:
        return [one.chunk.doc_id for one in self.found(query, **choices).results]


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shelf]:
    made = Shelf(tmp_path_factory.mktemp("validity"), LIBRARY)
    yield made
    made.close()


def test_what_is_superseded_is_not_found(shelf: Shelf) -> None:
    answer = shelf.found()
    assert [one.chunk.doc_id for one in answer.results] == ["new", "other"]
    assert answer.as_of == AsOf(date.today().isoformat(), "today")
    for mode in ("vector", "fulltext"):
        assert "old" not in shelf.ids(mode=mode)
    assert "old" not in [one.doc_id for one in shelf.run(shelf.engine.search_texts(shelf.kb, QUERY)).results]


def test_as_of_a_day_finds_what_was_in_force_then(shelf: Shelf) -> None:
    answer = shelf.found(as_of="2023年12月31日")
    assert answer.as_of == AsOf("2023-12-31", "request")
    assert "new" not in [one.chunk.doc_id for one in answer.results]
    assert answer.results[0].chunk.doc_id == "old"
    assert answer.results[0].outdated == "2024-01-01 起由《差旅费管理办法（2024）》取代"
    assert set(shelf.ids(as_of="2024-01-01")) == {"new", "other"}
    assert shelf.ids(as_of="2018-01-01") == ["other"]


def test_a_question_may_choose_its_year_and_says_so(shelf: Shelf) -> None:
    answer = shelf.found("2022年一线城市住宿费标准")
    assert answer.as_of == AsOf("2022-12-31", "question")
    assert answer.results[0].chunk.doc_id == "old"
    assert shelf.found("2025年一线城市住宿费标准").as_of == AsOf(date.today().isoformat(), "today")  # nothing differs


def test_history_is_searched_on_request_and_never_before_what_replaced_it(shelf: Shelf) -> None:
    answer = shelf.found(as_of="any")
    by_id = {one.chunk.doc_id: one for one in answer.results}
    assert answer.as_of is None
    assert [one.chunk.doc_id for one in answer.results][:2] == ["new", "old"]
    assert by_id["new"].score > by_id["old"].score
    assert shelf.ids(as_of="any", top_k=1) == ["new"]
    scores = [one.score for one in answer.results]
    assert scores == sorted(scores, reverse=True)


def test_the_first_search_of_all_knows_what_was_replaced(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path) as (engine, kb):
            await engine.add_documents(kb, LIBRARY)
            found = (await engine.retrieve(kb, QUERY, as_of="any")).results
            assert [one.chunk.doc_id for one in found][:2] == ["new", "old"]
            assert [bool(one.outdated) for one in found][:2] == [False, True]

    asyncio.run(story())


def test_a_document_that_is_named_is_searched_at_any_time(shelf: Shelf) -> None:
    answer = shelf.found(doc_ids=["old"])
    assert [one.chunk.doc_id for one in answer.results] == ["old"]
    assert answer.results[0].outdated


def test_explain_says_that_it_is_outdated_and_on_which_day_it_is_not(shelf: Shelf) -> None:
    why = shelf.run(shelf.engine.explain(shelf.kb, QUERY, f"c_{shelf.kb}_old_0")).chunk
    assert why is not None
    assert (why.step, dict(why.changes)) == ("validity", {"as_of": "2023-12-31"})
    assert "2024-01-01" in why.reason


def test_an_answer_from_an_outdated_source_says_so(shelf: Shelf) -> None:
    now = shelf.run(shelf.engine.ask(shelf.kb, "一线城市住宿费标准是多少"))
    assert "650" in now.answer
    assert now.notes == ()
    then = shelf.run(shelf.engine.ask(shelf.kb, "2022年一线城市住宿费标准是多少"))
    assert "500" in then.answer
    assert then.as_of == AsOf("2022-12-31", "question")
    assert then.notes == (
        "按 2022-12-31 有效的资料回答",
        "《差旅费管理办法（2019）》2024-01-01 起由《差旅费管理办法（2024）》取代",
    )
    assert then.with_notes.startswith(then.answer)


def test_a_document_shows_what_was_read_of_it(shelf: Shelf) -> None:
    state = shelf.run(shelf.engine.document(shelf.kb, "new"))
    assert state.validity == Validity("2024-01-01", "", ("差旅费管理办法",), read=("valid_from", "supersedes"))
    assert not shelf.run(shelf.engine.document(shelf.kb, "other")).validity


def test_what_is_no_day_is_refused(shelf: Shelf) -> None:
    with pytest.raises(BadQuery, match="as_of"):
        shelf.found(as_of="去年")
    with pytest.raises(BadInput, match="valid_from"):
        shelf.run(shelf.engine.add_documents(shelf.kb, [Document("x", "略", metadata={"valid_from": "去年"})]))


def test_when_the_successor_goes_what_it_replaced_is_in_force_again(tmp_path: Path) -> None:
    async def work() -> None:
        async with opened(tmp_path) as (engine, kb):
            await engine.add_documents(kb, LIBRARY)
            assert "old" not in await _ids(engine, kb)
            await engine.delete_document(kb, "new")
            assert (await _ids(engine, kb))[0] == "old"
            await engine.add_documents(kb, [LIBRARY[1]])
            assert "old" not in await _ids(engine, kb)
            # Of documents that were accepted before anything was read of them, a rebuild reads it.
            with engine.records.writing() as tx:
                tx.execute(delete(ValidityRow))
                bases.revise(tx, kb)
            assert "old" in await _ids(engine, kb)
            await engine.admin.rebuild(kb)
            assert "old" not in await _ids(engine, kb)
            assert (await engine.document(kb, "new")).validity.read
            # People know better than the text: the new one begins later than it says.
            later = (date.today() + timedelta(days=400)).isoformat()
            await engine.add_documents(kb, [Document("new", NEW, name="新.docx", metadata={"valid_from": later})])
            assert (await _ids(engine, kb))[0] == "old"
            assert "new" not in await _ids(engine, kb)

    asyncio.run(work())


async def _ids(engine: Engine, kb: int) -> list[str]:
    return [one.chunk.doc_id for one in (await engine.retrieve(kb, QUERY)).results]


@pytest.mark.parametrize(
    ("old", "target"),
    [
        ("差旅费管理办法2019.md", "差旅费管理办法（2019）"),
        ("差旅费管理办法-2019版.docx", "差旅费管理办法"),
        ("差旅费管理办法_2019.pdf", "差旅费管理办法（2019年修订）"),
        ("差旅费·管理办法 (2019).txt", "差旅费管理办法（2019）"),
    ],
)
def test_what_is_replaced_is_known_however_its_file_writes_the_edition(tmp_path: Path, old: str, target: str) -> None:
    async def ids() -> list[str]:
        async with opened(tmp_path) as (engine, kb):
            new = f"第三条 一线城市住宿费标准为每天 650 元。\n\n本规定自2024年1月1日起施行，《{target}》同时废止。"
            await engine.add_documents(kb, [Document("old", OLD, name=old), Document("new", new, name="差旅规定.md")])
            return [one.chunk.doc_id for one in (await engine.retrieve(kb, QUERY)).results]

    assert set(asyncio.run(ids())) == {"new"}


@pytest.mark.parametrize(
    "name", ["差旅费管理办法解读2019.md", "差旅费管理办法2025.md", "差旅费管理办法（2025年修订）.md"]
)
def test_another_name_or_edition_is_not_replaced(tmp_path: Path, name: str) -> None:
    async def ids() -> list[str]:
        async with opened(tmp_path) as (engine, kb):
            new = (
                "一线城市住宿费标准为每天 650 元。\n\n本规定自2024年1月1日起施行，《差旅费管理办法（2019）》同时废止。"
            )
            other = Document("other", "一线城市住宿费标准见附件。", name=name)
            await engine.add_documents(kb, [other, Document("new", new, name="差旅规定.md")])
            return [one.chunk.doc_id for one in (await engine.retrieve(kb, QUERY)).results]

    assert set(asyncio.run(ids())) == {"new", "other"}


def test_one_that_will_begin_is_hidden_only_where_it_takes_anothers_place(tmp_path: Path) -> None:
    later = date.today() + timedelta(days=400)
    says = f"一线城市住宿费标准为 900 元。本办法自{later.year}年{later.month}月{later.day}日起施行。"

    async def work() -> None:
        async with opened(tmp_path) as (engine, kb):
            await engine.add_documents(kb, [Document("alone", says, name="通知.txt")])
            assert await _ids(engine, kb) == ["alone"]
            await engine.add_documents(kb, [Document("stated", says, metadata={"valid_from": later.isoformat()})])
            assert await _ids(engine, kb) == ["alone"]
            await engine.add_documents(kb, [LIBRARY[0]])
            replacing = f"{says}《差旅费管理办法（2019）》同时废止。"
            await engine.add_documents(kb, [Document("alone", replacing, name="通知.txt")])
            assert await _ids(engine, kb) == ["old"]

    asyncio.run(work())


@pytest.mark.parametrize(
    ("question", "day", "rest"),
    [
        ("2023年的报销比例", "2023-12-31", "报销比例"),
        ("二〇二三年报销比例是多少", "2023-12-31", "报销比例是多少"),
        ("2023 年 2 月住宿标准", "2023-02-28", "住宿标准"),
        ("2020年以来的变化", "", "2020年以来的变化"),
        ("2020年和2021年的差别", "", "和差别"),
        ("报销比例", "", "报销比例"),
    ],
)
def test_the_day_that_a_question_names(question: str, day: str, rest: str) -> None:
    assert named_day(question) == day
    assert without_day(question) == rest


DAYS = st.dates(date(2015, 1, 1), date(2030, 1, 1)).map(date.isoformat) | st.just("")


@examples(60, suppress_health_check=SLOW_OR_SHARED)
@given(st.lists(st.tuples(DAYS, DAYS), min_size=1, max_size=6), st.dates(date(2014, 1, 1), date(2031, 1, 1)))
def test_exactly_what_is_in_force_passes(stated: list[tuple[str, str]], day: date) -> None:
    """Each document supersedes the one before it, by an oracle that goes by the words of the promise."""
    periods = {
        str(at): Period(
            str(at),
            f"第{at}版",
            Validity(begins, ends),
            ((stated[at + 1][0], str(at + 1), f"第{at + 1}版"),) if at + 1 < len(stated) else (),
        )
        for at, (begins, ends) in enumerate(stated)
    }
    on = day.isoformat()
    in_force = {
        str(at)
        for at, (begins, ends) in enumerate(stated)
        if begins <= on and not (ends and ends < on) and not (at + 1 < len(stated) and stated[at + 1][0] <= on)
    }
    outdated = InForce(periods).outdated(AsOf(on, "request"))
    assert set(periods) - set(outdated) == in_force
