"""The documents bring models and documents of other libraries: LangChain's, and those of sentence-transformers, here by
their interface. They work, or one sentence says what is expected."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from langchain_core.documents import Document as LangChainDocument
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.language_models import FakeListChatModel, GenericFakeChatModel, ParrotFakeChatModel
from langchain_core.messages import AIMessage
from sqlalchemy import create_engine

from qianxun import AnswerGenerator, Engine, ResultRanker, SearchResult, insert_qa_examples, vectorize_text
from qianxun.core.answer_types import Done, Token
from qianxun.core.errors import BadInput
from qianxun.core.types import Document
from qianxun.records.database.open import sqlite_url
from qianxun.testing.scripted import HashEmbedding

DOCUMENTS = [
    LangChainDocument(page_content="糖尿病的主要症状是多饮、多尿和体重下降。", metadata={"source": "糖尿病.md"}),
    LangChainDocument(page_content="高血压的主要症状是头晕。", metadata={"source": "高血压.md"}),
]
REPLY = "主要症状是多饮、多尿和体重下降。[1]"


class SentenceTransformer:
    """`encode` as sentence-transformers has it: a string gives one vector, a list a matrix; normalised if asked."""

    model_name = "moka-ai/m3e-base"

    def encode(
        self, sentences: str | Sequence[str], batch_size: int = 32, normalize_embeddings: bool = False, **_: Any
    ) -> Any:
        texts = [sentences] if isinstance(sentences, str) else list(sentences)
        rows = HashEmbedding(768).embed_passages(texts) * 3.0
        if normalize_embeddings:
            rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        return rows[0] if isinstance(sentences, str) else rows


class CrossEncoder:
    """`predict` as sentence-transformers has it, with logits."""

    def __init__(self, logits: bool) -> None:
        self.logits = logits

    def predict(self, sentences: Sequence[tuple[str, str]], batch_size: int = 32, **_: Any) -> Any:
        shared = np.array([len(set(query) & set(text)) / len(set(query)) for query, text in sentences])
        return shared * 10.0 - 5.0 if self.logits else shared


# ── answers ──────────────────────────────────────────────────────────────────────────────────────


def test_a_langchain_chat_model_answers_from_langchain_documents() -> None:
    generator = AnswerGenerator(FakeListChatModel(responses=[REPLY]))
    response = generator.generate(query="糖尿病的主要症状是什么？", context=DOCUMENTS)
    assert (response.answer, response.form, response.degraded) == (REPLY, "model", ())
    assert [source.doc_name for source in response.sources] == ["糖尿病.md"]


def test_it_streams_too() -> None:
    llm = GenericFakeChatModel(messages=iter([AIMessage(content=REPLY)]))
    events = list(AnswerGenerator(llm).stream("糖尿病的主要症状是什么？", DOCUMENTS))
    assert "".join(event.text for event in events if isinstance(event, Token)).startswith("主要症状")
    assert isinstance(events[-1], Done)
    assert events[-1].answer.answer == REPLY


def test_content_in_parts_is_read_and_a_failing_model_is_named() -> None:
    parts = [{"type": "text", "text": REPLY[:4]}, {"type": "text", "text": REPLY[4:]}]
    llm = GenericFakeChatModel(messages=iter([AIMessage(content=parts)]))
    assert AnswerGenerator(llm).generate("糖尿病的主要症状是什么？", DOCUMENTS).answer == REPLY
    exhausted = GenericFakeChatModel(messages=iter([]))
    answer = AnswerGenerator(exhausted).generate("糖尿病的主要症状是什么？", DOCUMENTS)
    assert ("多饮" in answer.answer, [one.part for one in answer.degraded]) == (True, ["model"])


@pytest.mark.parametrize("llm", ["gpt-4o", object(), len])
def test_what_is_no_language_model_is_refused_in_one_sentence(llm: Any) -> None:
    with pytest.raises(BadInput, match="LangChain"):
        AnswerGenerator(llm)


def test_what_is_no_document_is_refused_in_one_sentence() -> None:
    with pytest.raises(BadInput, match="第 1 份"):
        AnswerGenerator().generate("症状", [object()])  # type: ignore[list-item]


# ── reranking ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("logits", [True, False])
def test_a_cross_encoder_reranks(logits: bool) -> None:
    initial_results = [SearchResult(str(at), "d", one.page_content, 0.5, {}) for at, one in enumerate(DOCUMENTS[::-1])]
    ranker = ResultRanker(CrossEncoder(logits))
    reranked = ranker.rerank(query="糖尿病治疗", results=initial_results, top_k=5)
    assert [result.chunk_id for result in reranked] == ["1", "0"]
    assert 1.0 >= reranked[0].score >= reranked[1].score >= 0.0


@pytest.mark.parametrize("model", [object(), "BAAI/bge-reranker-large"])
def test_what_is_no_reranker_is_refused_in_one_sentence(model: Any) -> None:
    with pytest.raises(BadInput, match="Reranker"):
        ResultRanker(model)
    with pytest.raises(BadInput, match="SearchResult"):
        ResultRanker(CrossEncoder(logits=False)).rerank("糖尿病", ["一段文字"])


# ── vectors ──────────────────────────────────────────────────────────────────────────────────────


def test_a_sentence_transformer_vectorizes(tmp_path: Path) -> None:
    model = SentenceTransformer()
    vector = vectorize_text("血压高能喝酒吗", model)
    assert vector == pytest.approx(model.encode("血压高能喝酒吗", normalize_embeddings=True).tolist())
    examples = [{"user_input": "血压高能喝酒吗", "agent_response": "最好不喝。"}]
    engine = create_engine(sqlite_url(tmp_path / "library.db"))
    with engine.connect() as db_conn:
        assert insert_qa_examples(examples, db_conn, model) == 1
    engine.dispose()
    assert len(vectorize_text("血压", DeterministicFakeEmbedding(size=16))) == 16
    for wrong in (object(), "moka-ai/m3e-base"):
        with pytest.raises(BadInput, match="SentenceTransformer"):
            vectorize_text("血压", wrong)


def test_an_engine_takes_models_of_other_libraries_by_name(tmp_path: Path) -> None:
    models = {
        "m3e": SentenceTransformer(),
        "cross": CrossEncoder(logits=True),
        "parrot": ParrotFakeChatModel(),
        "langchain": DeterministicFakeEmbedding(size=16),
    }

    async def story() -> None:
        async with Engine.open(tmp_path, models=models, background=False) as engine:
            kb = (await engine.create_knowledge_base("医学", model="m3e", config={"chat_model": "parrot"})).id
            await engine.add_documents(kb, [Document("dm", DOCUMENTS[0].page_content)])
            found = await engine.retrieve(kb, "糖尿病的症状", rerank="cross")
            assert (found.degraded, found.found[0].rerank is not None) == ((), True)
            assert (await engine.create_knowledge_base("另一个", model="langchain")).dimension == 16
            assert (await engine.ask(kb, "糖尿病的主要症状是什么")).sources

    asyncio.run(story())
