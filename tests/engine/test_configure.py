"""A base's configuration: checked before it is kept, in force as soon as it is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from qianxun.bases.base import OpenBase
from qianxun.core.errors import BadInput, BadQuery, IndexUnusable, ModelUnavailable, NotFound, QianxunError
from qianxun.core.layered_options import with_base_config
from qianxun.core.types import EVERYTHING, Terms
from qianxun.engine.configure import KINDS, changed, flat, read
from qianxun.engine.engine import Engine
from qianxun.engine.settings import TableEngine, TextEngine
from qianxun.testing.scripted import HashEmbedding, ScriptedChat, ScriptedReranker
from qianxun.text.chinese import Analyser
from tests.indexing.opened import doc, found, opened

STANDARD: dict[str, Any] = {"chunk_size": 500, "chunk_overlap": 50, "by_meaning": False}


LONGEST = ScriptedReranker(lambda _, passage: len(passage) / 100, name="长的在前", share=1.0)
REWRITER = ScriptedChat('["异地就医备案"]', name="改写")
BROUGHT: dict[str, Any] = {model.name: model for model in (HashEmbedding(), LONGEST, REWRITER)}
LIBRARY = [
    doc("长", "住院报销比例为百分之八十五，起付标准另行规定，详见附件。"),
    doc("短", "住院报销另定。"),
    doc("备案", "异地就医备案可以在网上办理。"),
]


def story_of(folder: Path, story: Callable[[Engine, int], Any]) -> None:
    async def told() -> None:
        async with Engine.open(folder, models=BROUGHT, background=False) as engine:
            kb = (await engine.create_knowledge_base("医保", model="fake-64")).id
            await engine.add_documents(kb, LIBRARY)
            await story(engine, kb)

    asyncio.run(told())


# ── values ───────────────────────────────────────────────────────────────────────────────────────


def test_changes_are_dotted_or_nested_and_none_takes_away() -> None:
    once = changed(STANDARD, {"search.fusion": "rrf", "search": {"weights": {"vector": 0.6, "keyword": 0.4}}})
    assert once == {**STANDARD, "search": {"fusion": "rrf", "weights": {"vector": 0.6, "keyword": 0.4}}}
    assert changed(once, {"search.weights": None}) == {**STANDARD, "search": {"fusion": "rrf"}}
    assert changed(once, {"search": None}) == STANDARD
    assert changed(once, {}) == once


def test_what_another_version_kept_can_be_taken_away() -> None:
    strange = {**STANDARD, "search": {"window": 3}}
    with pytest.raises(BadInput, match=r"search\.window"):
        changed(strange, {"search.top_k": 3})
    assert changed(strange, {"search.window": None, "search.top_k": 3}) == {**STANDARD, "search": {"top_k": 3}}


def test_one_weight_alone_does_not_silence_the_other_arm() -> None:
    assert changed(STANDARD, {"search.weights.vector": 0.7})["search"]["weights"] == {"vector": 0.7, "keyword": 0.3}
    with pytest.raises(BadInput):
        changed(STANDARD, {"search.weights.vector": 2.0})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("search.fusion", "sum"),
        ("search.top_k", 0),
        ("search.top_k", 101),
        ("search.top_k", True),
        ("search.top_k", 1.5),
        ("search.weights", {"vector": 0.0, "keyword": 0.0}),
        ("search.weights", {"vector": float("nan"), "keyword": 0.4}),
        ("search.weights", {"vector": -1.0, "keyword": 0.4}),
        ("search.weights.qa", 0.4),
        ("search.fuzzy", "yes"),
        ("search", "rrf"),
        ("text_engine.similarity_threshold", 1.1),
        ("text_engine.similarity_threshold", float("nan")),
        ("text_engine.search_k_multiplier", 0.5),
        ("text_engine.semantic_threshold", 0.5),
        ("text_engine", 0.5),
        ("table_engine.max_results", 0),
        ("table_engine.max_results", 7.5),
        ("table_engine.use_semantic_search", "yes"),
        ("search.threshold", 0.4),
        ("serach.fusion", "rrf"),
        ("chunk_size", 0),
        ("chunk_size", None),
        ("chunk_overlap", 500),
        ("by_meaning", 1),
        ("qa_model", ["qwen"]),
        ("qa_model", " "),
        ("rewrite_model", "a\nb"),
        ("dictionary", "起付标准"),
        ("dictionary", ["起付 标准"]),
        ("dictionary", ["起付标准", " "]),
        ("dictionary", ["起付标准", 7]),
        ("dictionary", ["长" * 201]),
        ("synonyms", "报销=报账"),
        ("synonyms", ["报销", "报账"]),
        ("synonyms", [["报销", 7]]),
        ("synonyms", [["报销", ""]]),
        ("synonyms", [[">报销"]]),
        ("synonyms", {"报销": ["报账"]}),
        ("", "x"),
        ("search.", None),
    ],
)
def test_what_cannot_work_is_refused(name: str, value: Any) -> None:
    with pytest.raises(BadInput) as refused:
        changed(STANDARD, {name: value})
    assert refused.value.hint


def test_a_prompt_that_is_too_long_is_refused_with_how_long_it_may_be() -> None:
    with pytest.raises(BadInput) as refused:
        changed(STANDARD, {"prompt": "长" * 4001})
    assert "至多 4000 字" in (refused.value.hint or "")


def test_text_is_read_as_the_key_wants_it() -> None:
    assert read("search.top_k", " 7 ") == 7
    assert read("search.weights.vector", ".7") == 0.7
    assert read("search.fuzzy", "Off") is False
    assert read("dictionary", "起付标准，个人账户、统筹,") == ["起付标准", "个人账户", "统筹"]
    assert read("synonyms", "报销=报账；手机>智能手机;心梗") == [["报销", "报账"], ["手机", ">智能手机"], ["心梗"]]
    assert read("search.rerank", "maxsim") == "maxsim"
    assert read("search.rerank", "") is None
    for name, wrong in (("search.top_k", "7.5"), ("search.weights.vector", "七"), ("search.fuzzy", "maybe")):
        with pytest.raises(BadInput, match="应为"):
            read(name, wrong)


def test_every_key_can_be_set_and_taken_back() -> None:
    values: dict[str, Any] = {"整数": 60, "数字": 0.5, "true 或 false": True, "模型名": "qwen"}
    values |= {
        KINDS["search.arms"]: ["exact_phrase", "-qa"],
        KINDS["dictionary"]: ["起付标准"],
        KINDS["synonyms"]: [["报销", "报账"]],
        KINDS["check"]: "flag",
    }
    for name, kind in KINDS.items():
        value = 2.0 if name == "text_engine.search_k_multiplier" else values.get(kind, "rrf")
        once = changed(STANDARD, {name: value})
        assert flat(once)[name] == value
        if name not in ("chunk_size", "chunk_overlap"):
            assert name not in flat(changed(once, {name.split(".weights")[0]: None}))


def test_a_base_has_its_own_way_with_the_layers() -> None:
    once = changed(STANDARD, {"table_engine.semantic_threshold": 1, "text_engine": {"use_keyword_search": False}})
    assert with_base_config(TableEngine(), once, "table_engine") == TableEngine(semantic_threshold=1.0)
    assert with_base_config(TextEngine(max_results=9), once, "text_engine") == TextEngine(
        max_results=9, use_keyword_search=False
    )
    assert with_base_config(TextEngine(), changed(once, {"text_engine": None}), "text_engine") == TextEngine()
    with pytest.raises(BadQuery, match="text_engine"):  # of another version
        with_base_config(TextEngine(), {"text_engine": {"window": 3}}, "text_engine")


# ── an open engine ───────────────────────────────────────────────────────────────────────────────


def test_a_change_holds_at_once_and_no_older_answer_is_served(tmp_path: Path) -> None:
    async def story(engine: Engine, kb: int) -> None:
        async def first() -> str:
            return (await engine.retrieve(kb, "住院报销比例")).found[0].chunk.doc_id

        assert await first() == "短"
        assert (await engine.retrieve(kb, "住院报销比例")).from_cache
        about = await engine.configure(kb, {"search.rerank": LONGEST.name})
        assert about.config["search"] == {"rerank": LONGEST.name}
        assert await first() == "长"
        await engine.configure(kb, {"search": None})
        assert await first() == "短"

        before = (await engine.retrieve(kb, "怎么办手续")).queries
        await engine.configure(kb, {"rewrite_model": REWRITER.name})
        after = await engine.retrieve(kb, "怎么办手续")
        assert (before, after.queries) == (("怎么办手续",), ("怎么办手续", "异地就医备案"))
        assert not after.from_cache

    story_of(tmp_path, story)


def test_a_change_outlives_the_engine(tmp_path: Path) -> None:
    async def story(engine: Engine, kb: int) -> None:
        await engine.configure(kb, {"search.top_k": 1, "dictionary": ["住院报销另定"]})

    story_of(tmp_path, story)

    async def later() -> None:
        async with opened(tmp_path) as (engine, kb):
            assert len((await engine.retrieve(kb, "住院报销")).found) == 1
            assert (await engine.base(kb)).analyser.has_word("住院报销另定")

    asyncio.run(later())


def test_a_dictionary_is_in_force_for_old_and_new_documents(tmp_path: Path) -> None:
    async def story(engine: Engine, kb: int) -> None:
        base = await engine.base(kb)
        before = base.index.stamp.analysis
        chunks: list[int] = []
        await engine.configure(kb, {"dictionary": ["住院报销另定"]}, watch=chunks.append)
        assert sum(chunks) == 3
        assert base.index.stamp.analysis == base.analyser.version != before
        await engine.add_documents(kb, [doc("新", "再说一次：住院报销另定。")])
        as_one_word = await base.index.match(Terms(("住院报销另定",)), 200, EVERYTHING)
        assert len(as_one_word) == 2
        assert {"短", "新"} <= set(await found(engine, kb, "住院报销另定"))
        assert (await engine.admin.verify(kb)).is_clean
        await engine.configure(kb, {"dictionary": None})
        assert base.index.stamp.analysis == before
        assert (await engine.admin.verify(kb)).is_clean

    story_of(tmp_path, story)


def test_a_rebuild_that_failed_is_made_up_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(engine: Engine, kb: int) -> None:
        async def full(*_: Any) -> Any:
            raise IndexUnusable("磁盘已满")

        with monkeypatch.context() as broken:
            broken.setattr(engine.backend, "build", full)
            with pytest.raises(IndexUnusable):
                await engine.configure(kb, {"dictionary": ["住院报销另定"]})
        assert (await engine.retrieve(kb, "住院报销")).found  # by the old index
        await engine.configure(kb, {})
        base = await engine.base(kb)
        assert len(await base.index.match(Terms(("住院报销另定",)), 200, EVERYTHING)) == 1

    story_of(tmp_path, story)


class _Changing:
    """An analyser that is replaced while it reads its first text, as by another thread."""

    def __init__(self, base: OpenBase, following: Analyser) -> None:
        self._base, self._own, self._following = base, base.analyser, following

    def index_terms(self, texts: Iterable[str]) -> object:
        self._base.analyser = self._following
        return self._own.index_terms(texts)

    def __getattr__(self, name: str) -> object:
        return getattr(self._own, name)


def test_what_is_analysed_while_a_dictionary_comes_is_analysed_again(tmp_path: Path) -> None:
    async def story(engine: Engine, kb: int) -> None:
        base = await engine.base(kb)
        base.analyser = _Changing(base, Analyser(["住院报销另定"]))  # type: ignore[assignment]
        await engine.add_documents(kb, [doc(f"批{at}", f"第{at}条：住院报销另定。") for at in range(5)])
        as_one_word = await base.index.match(Terms(("住院报销另定",)), 200, EVERYTHING)
        assert len(as_one_word) == 5

    story_of(tmp_path, story)


def test_what_was_analysed_before_a_dictionary_came_is_analysed_again(tmp_path: Path) -> None:
    """Documents that are on their way in while the dictionary changes."""

    async def story(engine: Engine, kb: int) -> None:
        many = [doc(f"批{at}", f"第{at}条：住院报销另定。") for at in range(60)]
        await asyncio.gather(
            engine.add_documents(kb, many),
            engine.configure(kb, {"dictionary": ["住院报销另定"]}),
            engine.configure(kb, {"search.top_k": 5}),
        )
        base = await engine.base(kb)
        as_one_word = await base.index.match(Terms(("住院报销另定",)), 200, EVERYTHING)
        assert len(as_one_word) == 61
        assert flat(base.about.config) == flat({**STANDARD, "dictionary": ["住院报销另定"], "search": {"top_k": 5}})
        assert (await engine.admin.verify(kb)).is_clean

    story_of(tmp_path, story)


def test_new_cutting_holds_for_new_and_for_changed_documents(tmp_path: Path) -> None:
    async def story(engine: Engine, kb: int) -> None:
        await engine.configure(kb, {"chunk_size": 20, "chunk_overlap": 0})
        assert [len(await engine.chunks(kb, "长")), (await engine.admin.verify(kb)).is_clean] == [1, True]
        (again,) = await engine.add_documents(kb, [LIBRARY[0]])
        assert again.outcome == "updated"
        assert len(await engine.chunks(kb, "长")) > 1

    story_of(tmp_path, story)


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"search.rerank": "没有这个"}, NotFound),
        ({"search": {"rerank": "没有这个"}}, NotFound),
        ({"qa_model": "没有这个"}, NotFound),
        ({"rewrite_model": "没有这个"}, NotFound),
        ({"search.fusion": "sum"}, BadInput),
        ({"search.top_k": 3, "dictionary": ["起付 标准"]}, BadInput),
    ],
)
def test_what_is_refused_leaves_everything_as_it_was(
    tmp_path: Path, changes: dict[str, Any], error: type[QianxunError]
) -> None:
    async def story(engine: Engine, kb: int) -> None:
        before = await engine.knowledge_base(kb)
        with pytest.raises(error):
            await engine.configure(kb, changes)
        assert await engine.knowledge_base(kb) == before == (await engine.base(kb)).about
        with pytest.raises(error):
            await engine.create_knowledge_base("新", model="fake-64", config=changes)
        assert [base.name for base in await engine.knowledge_bases()] == ["医保"]
        assert (await engine.retrieve(kb, "住院报销")).found

    story_of(tmp_path, story)


def test_maxsim_needs_a_model_to_read_with(tmp_path: Path) -> None:
    async def story(engine: Engine, kb: int) -> None:
        with pytest.raises(ModelUnavailable):
            await engine.create_knowledge_base("词语", model="none", config={"search.rerank": "maxsim"})

    story_of(tmp_path, story)


def test_a_rebuild_under_the_same_model_lets_no_older_answer_be_served(tmp_path: Path) -> None:
    async def story(engine: Engine, kb: int) -> None:
        await engine.retrieve(kb, "住院报销比例")
        assert (await engine.retrieve(kb, "住院报销比例")).from_cache
        await engine.admin.rebuild(kb)
        assert not (await engine.retrieve(kb, "住院报销比例")).from_cache

    story_of(tmp_path, story)
