"""What every index backend must do, as a test class to inherit.

    class TestMyIndex(IndexConformance):
        def backend(self, folder: Path) -> IndexBackend:
            return create(folder)

Each test gets a folder (or the name of one: a schema, a prefix) that no other test uses; giving the same folder twice
means opening the same data again.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from qianxun.core.errors import BadFilter, BadModelReply, IndexUnusable, RetrieverUnavailable
from qianxun.core.ports import Index, IndexBackend
from qianxun.core.types import (
    Attributes,
    Bm25,
    Eq,
    Filter,
    In,
    IndexBatch,
    IndexEntry,
    IndexStamp,
    Not,
    Or,
    Population,
    Range,
    Ranking,
    Terms,
    Vector,
    matches,
)
from qianxun.testing.index_material import DIMENSION, HOSTILE, STAMP, WORDLESS, entry, filters, keys_of, library, unit

T = TypeVar("T")


class Opened:
    """A backend and an index of it, driven from plain test functions on one event loop."""

    def __init__(self, runner: asyncio.Runner, backend: IndexBackend, index: Index) -> None:
        self._runner = runner
        self.backend = backend
        self.index = index

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(work)

    def apply(self, sequence: int, entries: Sequence[IndexEntry] = (), removed: Sequence[int] = ()) -> None:
        self.run(self.index.apply(IndexBatch(sequence, tuple(removed), tuple(entries))))

    def nearest(self, vector: Vector, limit: int = 10, **options: Any) -> Ranking:
        return self.run(self.index.nearest(vector, limit, **options))

    def match(self, *words: str, limit: int = 10, grams: Sequence[str] = (), **options: Any) -> Ranking:
        return self.run(self.index.match(Terms(words, tuple(grams)), limit, **options))

    def contents(self) -> tuple[list[int], list[int], list[int]]:
        """The keys in the keyword index, and in both vector fields."""
        found = self.run(self.index.inventory())
        return found.keywords.tolist(), found.vectors["content"].tolist(), found.vectors["question"].tolist()


class IndexConformance:
    """Inherit, and say how a backend is made."""

    def backend(self, folder: Path) -> IndexBackend:
        raise NotImplementedError

    @contextmanager
    def built(self, folder: Path, stamp: IndexStamp = STAMP) -> Iterator[Opened]:
        """A new index that is already the current one."""
        with asyncio.Runner() as runner:
            backend = self.backend(folder)
            index = runner.run(backend.build(1, stamp))
            runner.run(backend.switch(1, index))
            yield Opened(runner, backend, index)
            runner.run(index.close())

    @contextmanager
    def reopened(self, folder: Path, stamp: IndexStamp = STAMP) -> Iterator[Opened]:
        with asyncio.Runner() as runner:
            backend = self.backend(folder)
            index = runner.run(backend.open(1, stamp))
            yield Opened(runner, backend, index)
            runner.run(index.close())

    # ── what goes in and out ─────────────────────────────────────────────────────────────────────

    def test_a_new_index_is_empty_and_answers(self, tmp_path: Path) -> None:
        with self.built(tmp_path) as opened:
            assert opened.contents() == ([], [], [])
            assert opened.run(opened.index.watermark()) == 0
            assert opened.nearest(unit(1)).hits == ()
            found = opened.match("医保", grams=("医",), where=Not(Eq("user_id", "张三")))
            assert found.hits == ()
            assert found.ceiling is not None

    def test_what_is_applied_is_found(self, tmp_path: Path) -> None:
        with self.built(tmp_path) as opened:
            opened.apply(3, [entry(1, 10, "住院 报销 比例"), entry(2, 10, "发票 抬头")])
            assert keys_of(opened.match("发票")) == [2]
            best = opened.nearest(unit(1)).hits[0]
            assert best.key == 1
            assert best.score == pytest.approx(1.0, abs=1e-3)
            assert opened.contents() == ([1, 2], [1, 2], [])
            assert opened.run(opened.index.watermark()) == 3

    def test_scores_are_cosines(self, tmp_path: Path) -> None:
        with self.built(tmp_path) as opened:
            opened.apply(1, [entry(key, key) for key in range(1, 30)])
            query = unit(99)
            for hit in opened.nearest(query, 29).hits:
                assert hit.score == pytest.approx(float(query @ unit(hit.key)), abs=1e-4)

    def test_the_same_key_replaces_what_it_was(self, tmp_path: Path) -> None:
        with self.built(tmp_path) as opened:
            opened.apply(1, [entry(1, 10, "旧的"), entry(2, 10, "旁边")])
            opened.apply(2, [entry(1, 10, "新的", vector=unit(77))])
            assert keys_of(opened.match("旧的")) == []
            assert keys_of(opened.match("新的")) == [1]
            assert opened.nearest(unit(77)).hits[0].key == 1
            assert opened.contents() == ([1, 2], [1, 2], [])

    def test_within_a_batch_the_last_of_a_key_counts(self, tmp_path: Path) -> None:
        with self.built(tmp_path) as opened:
            opened.apply(1, [entry(1, 10, "先来"), entry(1, 10, "后到", vector=unit(5))])
            assert (keys_of(opened.match("先来")), keys_of(opened.match("后到"))) == ([], [1])
            assert opened.contents() == ([1], [1], [])

    def test_removal_is_by_document_and_comes_before_adding(self, tmp_path: Path) -> None:
        with self.built(tmp_path) as opened:
            opened.apply(1, [entry(1, 10), entry(2, 10), entry(3, 11), entry(4, 10, field="question")])
            opened.apply(2, [entry(5, 10)], removed=[10])
            assert opened.contents() == ([3, 5], [3, 5], [])
            assert sorted(keys_of(opened.match("医保"))) == [3, 5]
            assert sorted(keys_of(opened.nearest(unit(1)))) == [3, 5]

    def test_removing_what_is_not_there_changes_nothing(self, tmp_path: Path) -> None:
        with self.built(tmp_path) as opened:
            opened.apply(1, [entry(1, 10)])
            opened.apply(2, removed=[99, 5])
            assert opened.contents() == ([1], [1], [])
            assert opened.run(opened.index.watermark()) == 2

    def test_applying_twice_changes_nothing(self, tmp_path: Path) -> None:
        with self.built(tmp_path) as opened:
            opened.apply(1, [entry(1, 10, "医保"), entry(2, 11, "社保")])
            for _ in range(2):
                opened.apply(2, [entry(3, 10, "医保 卡"), entry(4, 10, "问", field="question")], removed=[10])
                assert opened.contents() == ([2, 3], [2, 3], [4])
                assert keys_of(opened.match("医保")) == [3]
                assert keys_of(opened.nearest(unit(3), 1)) == [3]

    def test_questions_are_a_space_of_their_own(self, tmp_path: Path) -> None:
        with self.built(tmp_path) as opened:
            opened.apply(1, [entry(1, 10, "正文"), entry(1, 10, "提问", field="question", vector=unit(50))])
            assert opened.match("提问").hits == ()
            assert opened.nearest(unit(50), field="question").hits[0].score == pytest.approx(1, abs=1e-3)
            assert opened.nearest(unit(1), field="content").hits[0].score == pytest.approx(1, abs=1e-3)
            assert opened.contents() == ([1], [1], [1])

    def test_an_entry_without_a_vector_is_found_by_its_words(self, tmp_path: Path) -> None:
        bare = IndexEntry(1, 10, "只有 词", "", None, Attributes(doc_id="a"))
        with self.built(tmp_path) as opened:
            opened.apply(1, [bare, entry(2, 10)])
            assert keys_of(opened.match("只有")) == [1]
            assert keys_of(opened.nearest(unit(1))) == [2]
            assert opened.contents() == ([1, 2], [2], [])

    def test_a_limit_beyond_the_base_returns_all(self, tmp_path: Path) -> None:
        with self.built(tmp_path) as opened:
            opened.apply(1, [entry(key, key) for key in range(1, 6)])
            assert len(opened.nearest(unit(1), 1000).hits) == 5
            assert len(opened.match("医保", limit=1000).hits) == 5
            assert opened.nearest(unit(1), 0).hits == ()
            assert opened.match("医保", limit=0).hits == ()

    # ── bad input ────────────────────────────────────────────────────────────────────────────────

    @pytest.mark.parametrize("bad", [unit(1, DIMENSION + 1), np.full(DIMENSION, np.nan, np.float32)])
    def test_a_bad_vector_is_refused_before_anything_changes(self, tmp_path: Path, bad: Vector) -> None:
        with self.built(tmp_path) as opened:
            opened.apply(1, [entry(1, 10)])
            with pytest.raises(BadModelReply):
                opened.apply(2, [entry(2, 11), entry(3, 11, vector=bad)], removed=[10])
            with pytest.raises(BadModelReply):
                opened.nearest(bad)
            assert opened.contents() == ([1], [1], [])
            assert opened.run(opened.index.watermark()) == 1

    def test_an_unknown_field_is_a_bad_filter(self, tmp_path: Path) -> None:
        with self.built(tmp_path) as opened:
            for base in ((), [entry(1, 10)]):
                opened.apply(1, base)
                for where in (
                    Eq("owner", "x"),
                    Not(Or((Range("key", ge=1), Eq("user_id", "")))),
                    In("metadata", ("x",)),
                ):
                    with pytest.raises(BadFilter):
                        opened.nearest(unit(1), where=where)
                    with pytest.raises(BadFilter):
                        opened.match("医保", where=where)

    def test_another_stamp_is_another_index(self, tmp_path: Path) -> None:
        with self.built(tmp_path) as opened:
            opened.apply(1, [entry(1, 10)])
        others = (("另一个", 16, "1"), ("测试模型", 32, "1"), ("测试模型", 16, "2"))
        for model, dimension, analysis in others:
            with pytest.raises(IndexUnusable), self.reopened(tmp_path, IndexStamp(model, dimension, analysis)):
                pass
        with self.reopened(tmp_path) as opened:
            assert opened.contents() == ([1], [1], [])
            assert opened.index.stamp == STAMP

    def test_what_was_never_built_is_unusable(self, tmp_path: Path) -> None:
        with pytest.raises(IndexUnusable), self.reopened(tmp_path):
            pass

    def test_without_a_model_there_are_keywords_only(self, tmp_path: Path) -> None:
        with self.built(tmp_path, WORDLESS) as opened:
            opened.apply(1, [IndexEntry(1, 10, "医保", "医 保", None, Attributes(doc_id="a"))])
            assert keys_of(opened.match("医保")) == [1]
            with pytest.raises(RetrieverUnavailable):
                opened.nearest(unit(1))
            with pytest.raises(BadModelReply):
                opened.apply(2, [entry(2, 11)])
            assert opened.contents() == ([1], [], [])

    # ── filters ──────────────────────────────────────────────────────────────────────────────────

    def test_filters_let_through_exactly_what_they_mean(self, tmp_path: Path) -> None:
        entries = library()
        examples = settings().max_examples * 3 // 2  # a hundred, unless the suite says otherwise
        with self.built(tmp_path) as opened:
            opened.apply(1, list(entries.values()))

            @settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck))
            @given(filters())
            def holds(where: Filter) -> None:
                expected = sorted(key for key, entry in entries.items() if matches(where, entry.attributes))
                assert sorted(keys_of(opened.match("共", limit=1000, where=where))) == expected
                assert sorted(keys_of(opened.nearest(unit(3), 1000, where=where))) == expected

            holds()

    def test_hostile_values_are_values(self, tmp_path: Path) -> None:
        base = [
            entry(key, key, attributes=Attributes(doc_id=text, user_id=text, metadata={"值": text, text or "空": 1}))
            for key, text in enumerate(HOSTILE, 1)
        ]
        with self.built(tmp_path) as opened:
            opened.apply(1, base)
            for key, text in enumerate(HOSTILE, 1):
                for where in (Eq("user_id", text), In("doc_id", (text,)), Eq("metadata.值", text)):
                    assert keys_of(opened.nearest(unit(1), 100, where=where)) == [key]
                    assert keys_of(opened.match("医保", limit=100, where=where)) == [key]
                assert key in keys_of(opened.nearest(unit(1), 100, where=Eq(f"metadata.{text or '空'}", 1)))

    def test_a_filter_finds_the_few_it_lets_through(self, tmp_path: Path) -> None:
        rare = Attributes(doc_id="少", user_id="少数")
        base = [entry(key, key, "医保", vector=unit(1)) for key in range(1, 1500)]
        few = [entry(key, key, "医保 " + "别的 " * 30, vector=-unit(1), attributes=rare) for key in range(2000, 2005)]
        with self.built(tmp_path) as opened:
            opened.apply(1, [*base[:700], *few, *base[700:]])
            where = Eq("user_id", "少数")
            assert keys_of(opened.nearest(unit(1), 5, where=where)) == [2000, 2001, 2002, 2003, 2004]
            assert keys_of(opened.match("医保", limit=5, where=where)) == [2000, 2001, 2002, 2003, 2004]
            assert keys_of(opened.match("医保", limit=2, where=Not(where))) == [1, 2]

    def test_attributes_follow_the_entry(self, tmp_path: Path) -> None:
        with self.built(tmp_path) as opened:
            opened.apply(1, [entry(1, 10, attributes=Attributes(doc_id="a", user_id="张三", tags=("旧",)))])
            opened.apply(2, [entry(2, 10, attributes=Attributes(doc_id="a", user_id="李四"))], removed=[10])
            assert opened.match("医保", where=Eq("user_id", "张三")).hits == ()
            assert opened.match("医保", where=Eq("tags", "旧")).hits == ()
            assert keys_of(opened.match("医保", where=Eq("user_id", "李四"))) == [2]

    # ── keywords ─────────────────────────────────────────────────────────────────────────────────

    def test_require_all_is_about_words(self, tmp_path: Path) -> None:
        with self.built(tmp_path) as opened:
            opened.apply(
                1, [entry(1, 1, "医保 报销", grams="医 保"), entry(2, 2, "医保"), entry(3, 3, "别的", grams="医 保")]
            )
            assert keys_of(opened.match("医保", "报销", require="all", grams=("医", "没"))) == [1]
            assert sorted(keys_of(opened.match("医保", "报销", require="any"))) == [1, 2]
            assert sorted(keys_of(opened.match("医保", "报销", require="any", grams=("保",)))) == [1, 2, 3]
            assert opened.match("医保", "没有的词", require="all").hits == ()

    def test_cosines_of_chosen_chunks_are_those_of_nearest(self, tmp_path: Path) -> None:
        with self.built(tmp_path) as opened:
            opened.apply(1, list(library().values()))
            wordy = replace(entry(1007, 1007), vector=None)
            opened.apply(2, [wordy, entry(1008, 1008, vector=unit(3), field="question")])
            nearest = opened.nearest(unit(500), 40)
            chosen = np.array([*nearest.keys[::-3], 1007, 1008, 10**9], dtype=np.int64)
            scores = opened.run(opened.index.cosines(unit(500), chosen))
            assert scores[:-3].tolist() == nearest.scores[::-3].tolist()
            assert np.isnan(scores[-3:]).all()

    def test_likeness_is_higher_in_a_base_of_one_topic(self, tmp_path: Path) -> None:
        with self.built(tmp_path) as opened:
            usual = opened.run(opened.index.likeness())
            opened.apply(1, [entry(key, key, vector=unit(1)) for key in range(1, 301)])
            same = opened.run(opened.index.likeness())
            opened.apply(2, [entry(key, key) for key in range(1, 301)])
            mixed = opened.run(opened.index.likeness())
            assert mixed < usual < same <= 1.0
            opened.apply(3, [entry(key, key, vector=unit(1), field="question") for key in range(1001, 1301)])
            assert opened.run(opened.index.likeness()) == mixed

    def test_within_a_population_it_is_as_if_there_were_nothing_else(self, tmp_path: Path) -> None:
        """Rankings, ceilings, counts and the likeness are those of an index that never held the other documents; which
        are many, long, and use the same words otherwise."""
        words = ("医保", "报销", "住院", "门诊", "比例", "发票", "抬头", "差旅", "标准", "限额")
        chance = random.Random(21)

        def text(few: int, many: int) -> str:
            return " ".join(chance.choices(words, weights=range(1, 11), k=chance.randint(few, many)))

        hidden = chance.sample(range(1, 61), 40)
        whole = []
        for document in range(1, 61):
            lengths = (40, 90) if document in hidden else (3, 25)
            for key in (2 * document, 2 * document + 1):
                own = text(*lengths)
                grams = " ".join([*own.replace(" ", ""), *own.split()])
                vector = unit(1 + key % 3) if document in hidden else None
                whole.append(entry(key, document, own, grams=grams, vector=vector))
            if document % 4 == 0:
                whole.append(entry(1000 + document, document, "提问", field="question"))
        shown = [one for one in whole if one.document not in hidden]
        within = Population(np.array(sorted({one.document for one in shown}), dtype=np.int64), "shown")
        where = Not(In("doc_id", tuple(f"文档{number}" for number in within.documents[:5])))
        with self.built(tmp_path / "whole") as all_of_it:
            if not getattr(all_of_it.index, "counts_within", False):
                pytest.skip("counts over all that it holds")
            all_of_it.apply(1, whole[:70])
            early = self._all_answers(all_of_it, within, where)
            all_of_it.apply(2, [*whole[70:], entry(999, 99, "医保 " * 300)])
            all_of_it.apply(3, [], [99])
            seen = self._all_answers(all_of_it, within, where)
            leaking = self._all_answers(all_of_it, None, where)
        with self.built(tmp_path / "shown") as alone:
            alone.apply(1, shown)
            assert seen == self._all_answers(alone, within, where)
        assert leaking != seen != early  # so that this can fail

    @staticmethod
    def _all_answers(opened: Opened, within: Population | None, where: Filter) -> list[Any]:
        found: list[Any] = [opened.run(opened.index.likeness(within=within))]
        terms = Terms(("医保", "限额", "没有"), ("医保", "医", "没"))
        found.append(opened.run(opened.index.count(terms, within=within)))
        for narrowed in ({}, {"where": where}):
            options: dict[str, Any] = {"within": within, **narrowed}
            rankings = [
                opened.match("医保", "限额", "没有", grams=("医保", "医", "没"), **options),
                opened.match("报销", "比例", require="all", limit=4, **options),
                opened.match("报销", "没有", require="all", **options),
                opened.match("没有", grams=("没", "医", "限"), **options),
                opened.match("住院", bm25=Bm25(0.6, 0.3), **options),
                opened.nearest(unit(5), 12, **options),
                opened.nearest(unit(2), 12, field="question", **options),
            ]
            found += [(ranking.hits, ranking.ceiling) for ranking in rankings]
        return found

    def test_terms_are_counted_by_the_entries_that_hold_them(self, tmp_path: Path) -> None:
        with self.built(tmp_path) as opened:
            opened.apply(
                1,
                [
                    entry(1, 1, "医保 报销 医保", grams="医 保"),
                    entry(2, 2, "医保", grams="医"),
                    entry(9, 1, "医保 提问", vector=unit(9), field="question"),
                ],
            )
            counts = opened.run(opened.index.count(Terms(("医保", "报销", "没有"), ("医", "保", "没"))))
            assert counts.entries == 2
            assert counts.words == {"医保": 2, "报销": 1, "没有": 0}
            assert counts.grams == {"医": 2, "保": 1, "没": 0}

    def test_terms_are_never_parsed(self, tmp_path: Path) -> None:
        with self.built(tmp_path) as opened:
            opened.apply(1, [entry(1, 1, "医保"), entry(2, 2, "社保 user_id:x")])
            for hostile in (*HOSTILE, "*", "医保 OR 社保", "words:医保", "医保*", "(医保", '"医保"', "医保~2"):
                if hostile:
                    assert opened.match(hostile).hits == ()
            assert keys_of(opened.match("user_id:x")) == [2]

    def test_no_score_exceeds_the_ceiling(self, tmp_path: Path) -> None:
        chance = random.Random(3)
        with self.built(tmp_path) as opened:
            for sequence in range(1, 6):
                opened.apply(sequence, [self._random_words(chance, sequence * 40 + at) for at in range(40)])
            for _ in range(40):
                words, grams = chance.sample("一二三四五六七八九十", 3), chance.sample("一二三四五", 2)
                found = opened.match(*words, "罕见", limit=300, grams=grams)
                assert found.ceiling is not None
                assert math.isfinite(found.ceiling)
                assert all(0 < hit.score <= found.ceiling for hit in found.hits)

    @staticmethod
    def _random_words(chance: random.Random, key: int) -> IndexEntry:
        length = chance.randrange(1, 60)
        words = " ".join(chance.choices("一二三四五六七八九十", k=length))
        return entry(key, key, words, grams=" ".join(chance.choices("一二三四五", k=length)))

    def test_a_word_repeated_for_ever_nearly_reaches_the_ceiling(self, tmp_path: Path) -> None:
        with self.built(tmp_path) as opened:
            opened.apply(1, [entry(1, 1, "医保 " * 500), entry(2, 2, "社保 " * 500), entry(3, 3, "医保 社保")])
            found = opened.match("医保")
            assert found.ceiling is not None
            assert 0.9 < found.hits[0].score / found.ceiling <= 1

    def test_scores_are_bm25_with_the_constants_that_are_given(self, tmp_path: Path) -> None:
        texts = {1: "医保 卡", 2: "医保 医保 医保 卡 办 理", 3: "社保 卡 " * 6}
        average = sum(len(text.split()) for text in texts.values()) / len(texts)
        with self.built(tmp_path) as opened:
            opened.apply(1, [entry(key, key, text) for key, text in texts.items()])
            for bm25 in (Bm25(), Bm25(1.5, 0.75), Bm25(0.4, 0.0), Bm25(3.0, 1.0)):
                found = {hit.key: hit.score for hit in opened.match("医保", "卡", bm25=bm25).hits}
                assert found == pytest.approx(
                    {key: _bm25(text.split(), list(texts.values()), average, bm25) for key, text in texts.items()},
                    abs=2e-4,
                )
                ceiling = opened.match("医保", "卡", bm25=bm25).ceiling
                assert ceiling is not None
                assert max(found.values()) <= ceiling

    # ── order ────────────────────────────────────────────────────────────────────────────────────

    def test_ties_are_broken_by_key_also_at_the_cut(self, tmp_path: Path) -> None:
        keys = list(range(1, 151))
        shuffled = random.Random(5).sample(keys, len(keys))
        with self.built(tmp_path) as opened:
            for sequence, start in enumerate(range(0, 150, 50), 1):
                opened.apply(sequence, [entry(key, key, vector=unit(1)) for key in shuffled[start : start + 50]])
            for limit in (1, 7, 100, 150):
                assert keys_of(opened.nearest(unit(1), limit)) == keys[:limit]
                assert keys_of(opened.match("医保", limit=limit)) == keys[:limit]

    def test_a_longer_list_starts_with_the_shorter_one(self, tmp_path: Path) -> None:
        with self.built(tmp_path) as opened:
            opened.apply(1, list(library().values()))
            long, words = opened.nearest(unit(500), 60), opened.match("共", "词3", limit=60)
            for limit in (1, 3, 10, 30):
                assert opened.nearest(unit(500), limit).hits == long.hits[:limit]
                assert opened.match("共", "词3", limit=limit).hits == words.hits[:limit]
            for ranking in (long, words):
                assert list(ranking.hits) == sorted(ranking.hits, key=lambda hit: (-hit.score, hit.key))

    def test_the_same_state_gives_the_same_bytes_also_after_opening_again(self, tmp_path: Path) -> None:
        with self.built(tmp_path) as opened:
            opened.apply(1, list(library().values()))
            opened.apply(2, removed=[1005, 1006])
            opened.apply(3, [entry(200, 200, "共 词1", grams="共")])
            first = self._answers(opened)
            assert self._answers(opened) == first
        with self.reopened(tmp_path) as opened:
            assert self._answers(opened) == first
            assert opened.run(opened.index.watermark()) == 3

    @staticmethod
    def _answers(opened: Opened) -> list[object]:
        where = Not(Range("metadata.年份", lt=2022))
        return [
            opened.nearest(unit(500), 30),
            opened.nearest(unit(501), 30, where=where),
            opened.match("共", "词1", grams=("共",), limit=30),
            opened.match("共", limit=30, where=where),
            opened.contents(),
        ]

    # ── builds ───────────────────────────────────────────────────────────────────────────────────

    def test_a_new_build_is_invisible_until_it_is_switched_to(self, tmp_path: Path) -> None:
        with self.built(tmp_path) as opened:
            opened.apply(5, [entry(1, 10, "旧")])
            built = opened.run(opened.backend.build(1, STAMP))
            opened.run(built.apply(IndexBatch(7, (), (entry(2, 10, "新"),))))
            assert keys_of(opened.match("旧")) == [1]
            assert keys_of(opened.nearest(unit(2))) == [1]
            opened.run(opened.backend.switch(1, built))
            opened.run(built.close())
        with self.reopened(tmp_path) as opened:
            assert (keys_of(opened.match("旧")), keys_of(opened.match("新"))) == ([], [2])
            assert opened.run(opened.index.watermark()) == 7

    def test_an_abandoned_build_leaves_the_current_index_alone(self, tmp_path: Path) -> None:
        with self.built(tmp_path) as opened:
            opened.apply(5, [entry(1, 10, "旧")])
            opened.run(opened.run(opened.backend.build(1, STAMP)).close())
        with self.reopened(tmp_path) as opened:
            assert opened.contents() == ([1], [1], [])

    def test_knowledge_bases_are_separate(self, tmp_path: Path) -> None:
        with self.built(tmp_path) as opened:
            opened.apply(1, [entry(1, 10)])
            other = opened.run(opened.backend.build(2, STAMP))
            opened.run(opened.backend.switch(2, other))
            assert opened.run(other.nearest(unit(1), 5)).hits == ()
            opened.run(other.close())
            opened.run(opened.backend.drop(2))
            with pytest.raises(IndexUnusable):
                opened.run(opened.backend.open(2, STAMP))
            assert keys_of(opened.nearest(unit(1))) == [1]

    def test_readers_see_whole_batches_while_a_writer_applies(self, tmp_path: Path) -> None:
        with self.built(tmp_path) as opened:
            opened.run(self._read_while_writing(opened.index))

    async def _read_while_writing(self, index: Index) -> None:
        """Each batch replaces a document by four new chunks: a reader must never count another number."""
        await index.apply(IndexBatch(1, (), tuple(entry(key, 10) for key in range(4))))
        done = asyncio.Event()

        async def read() -> None:
            while not done.is_set():
                near, words = await asyncio.gather(index.nearest(unit(1), 50), index.match(Terms(("医保",)), 50))
                for keys in (keys_of(near), keys_of(words)):
                    assert len(keys) == 4
                    assert len({key // 4 for key in keys}) == 1

        readers = [asyncio.create_task(read()) for _ in range(2)]
        for batch in range(2, 12):
            await index.apply(IndexBatch(batch, (10,), tuple(entry(4 * batch + at, 10) for at in range(4))))
        done.set()
        await asyncio.gather(*readers)


def _bm25(words: Sequence[str], texts: Sequence[str], average: float, bm25: Bm25) -> float:
    score = 0.0
    for term in ("医保", "卡"):
        having = sum(term in text.split() for text in texts)
        idf = math.log(1 + (len(texts) - having + 0.5) / (having + 0.5))
        freq = words.count(term)
        damping = bm25.k1 * (1 - bm25.b + bm25.b * len(words) / average)
        score += idf * (bm25.k1 + 1) * freq / (freq + damping)
    return score
