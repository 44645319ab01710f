"""Document 004, 4.1: meaning and words by rank (k = 60), and BM25 with k1 = 1.5, b = .75."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from qianxun.core.types import Document, Vector, Vectors
from qianxun.engine.settings import Search
from qianxun.testing.scripted import HashEmbedding
from tests.answer.asked import Opened

OWN = {"user_id": "u1", "project_id": "p1"}
ONLY_WORDS = "设备编号 QX20240117 的检修由二号车间负责。"
QUERY = "QX20240117 由谁检修"


class FarFromOne(HashEmbedding):
    """Every passage lies at a cosine of .8 or more from every query, but for one."""

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        vectors = np.zeros((len(texts), self.dimension), dtype=np.float32)
        for vector, text in zip(vectors, texts, strict=True):
            cosine = 0.1 if text == ONLY_WORDS else 0.8 + len(text) % 7 / 100
            vector[:2] = cosine, (1.0 - cosine**2) ** 0.5
        return vectors

    def embed_query(self, text: str) -> Vector:
        return np.eye(1, self.dimension, dtype=np.float32)[0]


def library() -> list[Document]:
    near = [f"第{number}段，讲的是江边的旧船坞与往来的渡轮{'。' * (number % 7)}" for number in range(300)]
    texts = {**{f"d{number}": text for number, text in enumerate(near)}, "only_words": ONLY_WORDS}
    return [Document(id=id_, content=text, content_type="chapter", **OWN) for id_, text in texts.items()]


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opened]:
    folder = tmp_path_factory.mktemp("by-rank")
    with Opened(folder, library(), FarFromOne(), search=Search(cache_entries=0)) as opened:
        yield opened


@pytest.mark.parametrize("top_k", [3, 10, 20])
def test_what_only_words_find_is_not_lost_behind_nearer_vectors(shelf: Opened, top_k: int) -> None:
    hybrid = shelf.run(shelf.engine.hybrid_search(shelf.kb, 0.7, 0.3))
    results = shelf.run(hybrid.search(QUERY, "u1", "p1", top_k))
    assert len(results) == top_k
    assert "only_words" in [result.document_id for result in results[:3]]
    scores = [result.score for result in results]
    assert scores == sorted(scores, reverse=True)


def test_words_that_say_little_do_not_push_ahead(shelf: Opened) -> None:
    results = shelf.ask("问问那台机器归谁管呢", fusion="rrf", weights={"vector": 0.7, "keyword": 0.3}).found
    assert "only_words" not in [found.chunk.doc_id for found in results]


# ── the constants of BM25 ────────────────────────────────────────────────────────────────────────


def by_words(shelf: Opened, query: str) -> dict[str, float]:
    return {
        found.chunk.doc_id: found.arms["keyword"].raw for found in shelf.ask(query, mode="fulltext", top_k=50).found
    }


def test_k1_and_b_are_settings_of_a_base(tmp_path_factory: pytest.TempPathFactory) -> None:
    """A term that stands there twice gains more under a larger k1, and a long text loses nothing where b is 0."""
    texts = {
        "一次": "渡轮靠岸。",
        "两次": "渡轮靠岸，渡轮又离岸。",
        "长": "渡轮靠岸。" + "船坞边的人们看着江水，谁也没有说话。" * 5,
    }
    documents = [Document(id=id_, content=text) for id_, text in texts.items()]
    with Opened(tmp_path_factory.mktemp("bm25"), documents, search=Search(cache_entries=0)) as opened:
        usual = by_words(opened, "渡轮")
        opened.run(opened.engine.configure(opened.kb, {"search.bm25_k1": 1.5, "search.bm25_b": 0.75}))
        of_document = by_words(opened, "渡轮")
        assert of_document["两次"] / of_document["一次"] > usual["两次"] / usual["一次"] > 1.0
        opened.run(opened.engine.configure(opened.kb, {"search.bm25_b": 0.0}))
        whatever_length = by_words(opened, "渡轮")
        assert whatever_length["长"] == pytest.approx(whatever_length["一次"])
        assert usual["长"] < usual["一次"]


def test_the_formula_is_the_documents(tmp_path_factory: pytest.TempPathFactory) -> None:
    """idf · tf (k1 + 1) ÷ (tf + k1 (1 − b + b · length ÷ average)): the same text, twice k1."""
    document = Document(id="d", content="渡轮")
    found = []
    for k1 in (1.2, 1.5):
        search = Search(cache_entries=0, bm25_k1=k1)
        with Opened(tmp_path_factory.mktemp("formula"), [document], search=search, model="none") as opened:
            (only,) = opened.ask("渡轮", mode="fulltext").found
            found.append(only.arms["keyword"].raw)
    assert found[0] == pytest.approx(found[1], abs=1e-3)  # alone, of average length and once: k1 cancels out
