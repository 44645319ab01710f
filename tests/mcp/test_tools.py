"""The tools over a real engine: what they find, what they read, and what does not exist for whoever asks."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from qianxun.core.errors import BadFilter, BadInput, BadQuery, NotFound
from qianxun.core.types import Document, KnowledgeBase
from qianxun.doors.mcp import tools
from qianxun.doors.mcp.collection import Collection
from qianxun.engine.engine import Engine
from qianxun.engine.settings import load

TRAVEL = "# 差旅\n\n## 住宿\n\n出差住宿每晚不超过 380 元，凭發票报销。\n\n## 交通\n\n高铁可乘二等座。\n"
LEAVE = "# 假期\n\n## 年假\n\n年休假为 7 天，满五年的为 10 天。\n"


def run(folder: Path, story: Callable[[Engine], Awaitable[None]], **told: Any) -> None:
    async def opened() -> None:
        arguments = {"data": str(folder), "vectorization.model": "none", **told}
        async with Engine.open(settings=load(environment={}, arguments=arguments, folder=folder)) as engine:
            await story(engine)

    asyncio.run(opened())


async def base(engine: Engine, name: str, *documents: Document) -> KnowledgeBase:
    made = await engine.create_knowledge_base(name)
    await engine.add_documents(made.id, documents)
    return made


def markdown(id: str, content: str, **more: Any) -> Document:
    return Document(id=id, name=more.pop("name", id), content=content, format="markdown", **more)


def ids(told: dict[str, Any]) -> list[str]:
    return [each["id"] for each in told["results"]]


# ── search ───────────────────────────────────────────────────────────────────────────────────────


def test_a_search_names_each_document_once_of_all_bases_best_first(tmp_path: Path) -> None:
    async def story(engine: Engine) -> None:
        one = await base(engine, "制度", markdown("制度/差旅.md", TRAVEL), markdown("假期.md", LEAVE))
        two = await base(engine, "旧制度", markdown("差旅.md", "出差住宿可报销。\n\n住宿须凭发票。"))
        told = await tools.search(Collection(engine), "出差住宿每晚多少元")
        assert ids(told)[:2] == [f"{one.id}/制度/差旅.md", f"{two.id}/差旅.md"]
        assert len(set(ids(told))) == len(ids(told))
        scores = [each["score"] for each in told["results"]]
        assert scores == sorted(scores, reverse=True)
        first = told["results"][0]
        assert first["title"] == "制度/差旅.md › 住宿"
        assert first["url"] == f"qianxun://{one.id}/%E5%88%B6%E5%BA%A6%2F%E5%B7%AE%E6%97%85.md"
        assert "380 元，凭發票报销" in first["text"]
        assert json.loads(json.dumps(told, ensure_ascii=False)) == told

    run(tmp_path, story)


def test_a_document_that_says_where_it_is_from_is_found_there(tmp_path: Path) -> None:
    async def story(engine: Engine) -> None:
        web = {"source_url": "https://example.com/差旅"}
        await base(
            engine, "制度", markdown("a", TRAVEL, metadata=web), markdown("b", TRAVEL, metadata={"url": "ftp://x"})
        )
        told = await tools.search(Collection(engine, lambda kb, doc: f"at:{kb}/{doc}"), "出差住宿")
        assert {each["url"] for each in told["results"]} == {"https://example.com/差旅", "at:1001/b"}

    run(tmp_path, story)


def test_a_search_in_some_bases_knows_of_no_other(tmp_path: Path) -> None:
    async def story(engine: Engine) -> None:
        one = await base(engine, "制度", markdown("差旅.md", TRAVEL))
        two = await base(engine, "机密", markdown("差旅.md", TRAVEL))
        held = Collection(engine, only=frozenset({one.id}))
        assert ids(await tools.search(held, "出差住宿")) == [f"{one.id}/差旅.md"]
        assert [each["name"] for each in (await tools.list_knowledge_bases(held))["knowledge_bases"]] == ["制度"]
        for named in ("机密", two.id, str(two.id)):
            with pytest.raises(NotFound, match="没有名为或编号为") as told:
                await tools.retrieve(held, "出差", knowledge_base=named)
            assert told.value.hint == "已有：制度"
        for id in (f"{two.id}/差旅.md", f"c_{two.id}_差旅.md_0"):
            with pytest.raises(NotFound, match=f"没有编号为 {two.id} 的知识库"):
                await tools.fetch(held, id)

    run(tmp_path, story)


def test_a_question_that_names_a_document_is_answered_from_that_document_alone(tmp_path: Path) -> None:
    async def story(engine: Engine) -> None:
        one = await base(engine, "制度", markdown("差旅.md", TRAVEL))
        two = await base(engine, "旧制度", markdown("旧差旅.md", TRAVEL))
        three = await base(engine, "别的", markdown("x.md", TRAVEL))
        mine, old, other = f"{one.id}/差旅.md", f"{two.id}/旧差旅.md", f"{three.id}/x.md"
        everywhere = ["制度", "旧制度", "别的"]
        cases: list[tuple[str, set[str], list[str]]] = [  # what is found, and which bases say that a name is none
            ("@差旅 住宿", {mine}, []),
            ("@差旅 与 ＠旧差旅 住宿", {mine, old}, []),
            ("@差旅 与 @没有的 住宿", {mine}, everywhere),
            ("@没有的 住宿", {mine, old, other}, everywhere),
            ("住宿 zhang@example.com", {mine, old, other}, []),
        ]
        for question, found, unknown in cases:
            told = await tools.search(Collection(engine), question)
            assert set(ids(told)) == found, question
            names = [each["knowledge_base"] for each in told["degraded"] if each["part"] == "document"]
            assert names == unknown, question

    run(tmp_path, story)


def test_what_cannot_be_asked_is_said_once_and_not_by_every_base(tmp_path: Path) -> None:
    async def story(engine: Engine) -> None:
        held = Collection(engine)
        empty = await tools.search(held, "出差")
        assert empty["results"] == []
        assert "还没有知识库" in empty["degraded"][0]["reason"]
        for name in ("一", "二"):
            await base(engine, name)
        with pytest.raises(BadQuery):
            await tools.search(held, " ")
        with pytest.raises(BadFilter, match=r"filters\.作者"):
            await tools.retrieve(held, "出差", filters={"作者": "鲁迅"})
        assert (await tools.search(held, "出差"))["results"] == []

    run(tmp_path, story)


class Stale:
    """An engine whose list of bases was made a moment ago."""

    def __init__(self, engine: Engine, listed: tuple[KnowledgeBase, ...]) -> None:
        self._engine, self._listed = engine, listed

    async def knowledge_bases(self) -> tuple[KnowledgeBase, ...]:
        return self._listed

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)


def test_a_base_that_cannot_answer_is_told_and_the_others_answer(tmp_path: Path) -> None:
    async def story(engine: Engine) -> None:
        one = await base(engine, "制度", markdown("差旅.md", TRAVEL))
        gone = await base(engine, "将删", markdown("差旅.md", TRAVEL))
        held = Collection(Stale(engine, await engine.knowledge_bases()))
        await engine.delete_knowledge_base(gone.id)
        told = await tools.search(held, "出差住宿")
        assert ids(told) == [f"{one.id}/差旅.md"]
        assert ("将删", "knowledge_base") in [(each["knowledge_base"], each["part"]) for each in told["degraded"]]
        assert [each["id"] for each in (await tools.list_knowledge_bases(held))["knowledge_bases"]] == [one.id]
        await engine.delete_knowledge_base(one.id)
        with pytest.raises(NotFound):
            await tools.search(held, "出差住宿")

    run(tmp_path, story)


# ── retrieve ─────────────────────────────────────────────────────────────────────────────────────


def test_passages_come_whole_with_all_that_is_known_of_them(tmp_path: Path) -> None:
    async def story(engine: Engine) -> None:
        about = {"年份": 2024, "作者": ("甲", "乙")}
        made = await base(engine, "制度", markdown("差旅.md", TRAVEL, metadata=about), markdown("假期.md", LEAVE))
        (passage, *_) = (await tools.retrieve(Collection(engine), "住宿每晚多少元", top_k=3))["passages"]
        assert passage["document"] == {
            "id": f"{made.id}/差旅.md",
            "title": "差旅.md",
            "url": f"qianxun://{made.id}/%E5%B7%AE%E6%97%85.md",
            "metadata": {"年份": 2024, "作者": ["甲", "乙"]},
        }
        assert passage["knowledge_base"] == {"id": made.id, "name": "制度"}
        assert (passage["headings"], passage["page"], passage["source"]) == (["差旅", "住宿"], None, "keyword")
        assert passage["tier"] in ("strict", "fuzzy")
        assert "380 元，凭發票报销" in passage["text"]

    run(tmp_path, story)


def test_a_retrieval_is_narrowed_as_it_says(tmp_path: Path) -> None:
    async def story(engine: Engine) -> None:
        await base(engine, "新", markdown("新.md", TRAVEL, metadata={"年份": 2024}))
        old = await base(engine, "旧", markdown("旧.md", TRAVEL, metadata={"年份": 2019}))
        held = Collection(engine)

        async def documents(**more: Any) -> set[str]:
            told = await tools.retrieve(held, "出差住宿", **more)
            return {each["document"]["title"] for each in told["passages"]}

        assert await documents() == {"新.md", "旧.md"}
        assert await documents(knowledge_base="旧") == await documents(knowledge_base=str(old.id)) == {"旧.md"}
        assert await documents(knowledge_base="") == {"新.md", "旧.md"}
        assert await documents(filters={"metadata.年份": {"ge": 2020}}) == {"新.md"}
        assert await documents(score_threshold=1.0) == set()
        assert len((await tools.retrieve(held, "出差住宿", top_k=1))["passages"]) == 1

    run(tmp_path, story)


def test_a_number_is_found_before_a_name(tmp_path: Path) -> None:
    async def story(engine: Engine) -> None:
        first = await base(engine, "制度", markdown("a", TRAVEL))
        await base(engine, str(first.id), markdown("b", TRAVEL))
        told = await tools.retrieve(Collection(engine), "出差住宿", knowledge_base=first.id)
        assert {each["document"]["title"] for each in told["passages"]} == {"a"}

    run(tmp_path, story)


# ── fetch ────────────────────────────────────────────────────────────────────────────────────────


def test_a_document_is_read_whole(tmp_path: Path) -> None:
    async def story(engine: Engine) -> None:
        made = await base(
            engine, "制度", markdown("制度/差旅.md", TRAVEL, tags=("财务",), metadata={"url": "http://a/b"})
        )
        told = await tools.fetch(Collection(engine), f"{made.id}/制度/差旅.md")
        assert told["text"] == "差旅\n\n住宿\n\n出差住宿每晚不超过 380 元，凭發票报销。\n\n交通\n\n高铁可乘二等座。"
        assert (told["id"], told["title"], told["url"]) == (f"{made.id}/制度/差旅.md", "制度/差旅.md", "http://a/b")
        about = told["metadata"]
        assert (about["knowledge_base"], about["doc_id"], about["tags"]) == ("制度", "制度/差旅.md", ["财务"])
        assert (about["truncated"], about["total_chars"]) == (False, len(told["text"]))
        assert "next_start" not in about

    run(tmp_path, story)


def test_a_long_document_is_read_piece_by_piece_and_nothing_is_lost(tmp_path: Path) -> None:
    text = "\n\n".join(f"第{number}条：住宿费用每晚不超过 {number} 元，凭发票报销。" for number in range(1000))

    async def story(engine: Engine) -> None:
        made = await base(engine, "制度", Document(id="长", name="长", content=text))
        held, read, start = Collection(engine), "", 0
        while start is not None:
            told = await tools.fetch(held, f"{made.id}/长", start)
            assert len(told["text"]) <= tools.READ
            about = told["metadata"]
            assert about["truncated"] == ("next_start" in about) == ("how_to_continue" in about)
            read, start = read + told["text"], about.get("next_start")
        assert read == text
        with pytest.raises(BadInput, match=f"全文只有 {len(text)} 个字符"):
            await tools.fetch(held, f"{made.id}/长", len(text))

    run(tmp_path, story, **{"chunking.chunk_overlap": 40})


def test_a_passage_is_read_among_its_neighbours(tmp_path: Path) -> None:
    async def story(engine: Engine) -> None:
        made = await base(engine, "制度", markdown("制度/差旅.md", TRAVEL))
        held = Collection(engine)
        (passage, *_) = (await tools.retrieve(held, "住宿每晚多少元"))["passages"]
        told = await tools.fetch(held, passage["id"])
        assert told["metadata"]["passage"] == passage["text"]
        assert passage["text"].partition("\n\n")[2] in told["text"]  # below its headings
        assert "高铁可乘二等座" in told["text"]
        assert told["metadata"]["document_id"] == f"{made.id}/制度/差旅.md"
        following = await tools.fetch(held, told["metadata"]["next_id"])
        assert following["metadata"]["previous_id"] == passage["id"]

    run(tmp_path, story)


def test_a_question_is_answered_with_its_sources_or_not_at_all(tmp_path: Path) -> None:
    async def story(engine: Engine) -> None:
        made = await base(engine, "制度", markdown("制度/差旅.md", TRAVEL))
        held = Collection(engine)
        told = await tools.ask(held, "出差住宿每晚不超过多少元")
        assert "380" in told["answer"]
        assert told["is_answered"] is True
        (source,) = told["sources"]
        assert (source["number"], source["headings"][-1]) == (1, "住宿")
        assert source["document"]["id"] == f"{made.id}/制度/差旅.md"
        assert "380" in (await tools.fetch(held, source["id"]))["text"]
        unknown = await tools.ask(held, "量子纠缠是谁发现的", "制度")
        assert (unknown["is_answered"], unknown["form"]) == (False, "declined")
        assert [source["number"] for source in unknown["sources"]] == [1]  # what comes nearest
        await base(engine, "另一个", markdown("a.md", "别的事。"))
        with pytest.raises(BadInput, match="另一个"):
            await tools.ask(held, "出差住宿每晚不超过多少元")

    run(tmp_path, story)


def test_tables_are_found_with_what_their_cells_answer(tmp_path: Path) -> None:
    prices = "# 价目\n\n| 品名 | 单价 |\n| --- | --- |\n| 书桌 | 2199 |\n| 复印纸 | 22.5 |\n"

    async def story(engine: Engine) -> None:
        made = await base(engine, "价目", markdown("价目.md", prices))
        await base(engine, "制度", markdown("差旅.md", TRAVEL))
        told = await tools.tables(Collection(engine), "书桌的单价是多少")
        assert [answer["knowledge_base"] for answer in told["answers"]] == ["价目"]
        assert "2199" in told["answers"][0]["answer"]
        (table, *_) = told["tables"]
        assert "2199" in table["text"]
        assert (table["document"]["id"], table["knowledge_base"]["id"]) == (f"{made.id}/价目.md", made.id)

    run(tmp_path, story)


def test_what_was_in_force_on_a_day_is_found_and_said_to_be_outdated(tmp_path: Path) -> None:
    prices = "# 价目\n\n| 品名 | 单价 |\n| --- | --- |\n| 书桌 | {} |\n"
    old = markdown("旧价", prices.format(1999), metadata={"valid_from": "2022-01-01"})
    new = markdown("新价", prices.format(2199), metadata={"valid_from": "2024-01-01", "supersedes": ("旧价",)})

    async def story(engine: Engine) -> None:
        await base(engine, "价目", old, new)
        asked = Collection(engine)
        for day, figure in (("", "2199"), ("2023-01-01", "1999")):
            found = await tools.tables(asked, "书桌的单价是多少", as_of=day)
            assert figure in found["answers"][0]["answer"]
            answer = await tools.ask(asked, "书桌的单价是多少", as_of=day)
            assert figure in answer["answer"]
            assert any("取代" in note for note in answer.get("notes", ())) is bool(day)
            (passage,) = (await tools.retrieve(asked, "书桌的单价", as_of=day))["passages"]
            assert ("outdated" in passage) is bool(day)

    run(tmp_path, story)


def test_an_edited_passage_is_given_with_its_original(tmp_path: Path) -> None:
    async def story(engine: Engine) -> None:
        made = await base(engine, "制度", Document("考勤", "上午九点上班。"))
        edited = "上午九点半上班。"
        await engine.governance.corrections.add(made.id, "edit", chunk_id=f"c_{made.id}_考勤_0", text=edited)
        (passage,) = (await tools.retrieve(Collection(engine), "几点上班"))["passages"]
        assert (passage["text"], passage["original"]) == (edited, "上午九点上班。")
        (source,) = (await tools.ask(Collection(engine), "几点上班"))["sources"]
        assert source["original"] == "上午九点上班。"

    run(tmp_path, story)


def test_what_is_deleted_cannot_be_read_and_what_changed_is_read_as_it_is_now(tmp_path: Path) -> None:
    async def story(engine: Engine) -> None:
        made = await base(engine, "制度", markdown("差旅.md", TRAVEL))
        held = Collection(engine)
        last = (await engine.chunks(made.id, "差旅.md"))[-1]
        await engine.add_documents(made.id, [markdown("差旅.md", "住宿每晚 500 元。")])
        assert (await tools.fetch(held, f"{made.id}/差旅.md"))["text"] == "住宿每晚 500 元。"
        with pytest.raises(NotFound, match=f"没有第 {last.index} 块"):
            await tools.fetch(held, last.chunk_id)
        await engine.delete_document(made.id, "差旅.md")
        for id in (f"{made.id}/差旅.md", f"c_{made.id}_差旅.md_0"):
            with pytest.raises(NotFound, match="没有文档"):
                await tools.fetch(held, id)
        assert f"{made.id}/差旅.md" not in ids(await tools.search(held, "住宿每晚"))

    run(tmp_path, story)


def test_a_document_without_text_is_said_to_have_none(tmp_path: Path) -> None:
    async def story(engine: Engine) -> None:
        made = await base(engine, "制度", Document(id="空", name="空.txt", content=""))
        with pytest.raises(NotFound, match=r"空\.txt"):
            await tools.fetch(Collection(engine), f"{made.id}/空")

    run(tmp_path, story)


# ── tenants ──────────────────────────────────────────────────────────────────────────────────────


def test_what_is_anothers_is_as_what_never_was(tmp_path: Path) -> None:
    async def story(engine: Engine) -> None:
        theirs = await base(engine.of("yi"), "乙的制度", markdown("差旅.md", TRAVEL))
        await base(engine.of("jia"), "甲的制度", markdown("假期.md", LEAVE))
        held = Collection(engine.of("jia"))

        async def refused(number: int, shape: str) -> str:
            with pytest.raises(NotFound) as told:
                await tools.fetch(held, shape.format(number))
            return str(told.value).replace(str(number), "N")

        for shape in ("{}/差旅.md", "c_{}_差旅.md_0"):
            assert await refused(theirs.id, shape) == await refused(9999, shape)
        for named in ("乙的制度", theirs.id):
            with pytest.raises(NotFound) as told:
                await tools.retrieve(held, "出差", knowledge_base=named)
            assert told.value.hint == "已有：甲的制度"
        assert not any("差旅" in each["title"] for each in (await tools.search(held, "出差住宿"))["results"])
        told = await tools.list_knowledge_bases(held)
        assert [(each["name"], each["documents"]) for each in told["knowledge_bases"]] == [("甲的制度", 1)]

    run(tmp_path, story)
