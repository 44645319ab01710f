from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from qianxun.core.errors import ModelUnavailable
from qianxun.core.ports import EmbeddingModel
from qianxun.core.types import Message
from qianxun.testing.scripted import (
    Gate,
    HashEmbedding,
    ScriptedChat,
    ScriptedEmbedding,
    ScriptedReranker,
    ScriptedStreamingChat,
)

TEXTS = ["城镇职工医保住院报销比例", "职工医保的住院报销比例是多少", "发动机机油更换周期", "", "ＡＢＣ", "\ud800"]


def test_rows_are_unit_vectors_in_order() -> None:
    model: EmbeddingModel = HashEmbedding(dimension=32)
    vectors = model.embed_passages(TEXTS)
    assert vectors.shape == (len(TEXTS), 32)
    assert vectors.dtype == np.float32
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(np.ones(len(TEXTS)), abs=1e-6)
    for row, text in zip(vectors, TEXTS, strict=True):
        assert np.array_equal(row, model.embed_query(text))


def test_shared_bigrams_bring_texts_together() -> None:
    near, query, far = HashEmbedding().embed_passages(TEXTS[:3])
    assert near @ query > 0.35
    assert near @ query > far @ query + 0.3


def test_another_process_gets_the_same_vector() -> None:
    script = "from qianxun.testing.scripted import HashEmbedding; print(HashEmbedding().embed_query('医保').tolist())"
    other = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert other.strip() == str(HashEmbedding().embed_query("医保").tolist())


def test_no_texts_give_no_rows_and_the_name_tells_the_dimension() -> None:
    model = HashEmbedding(dimension=16)
    assert model.embed_passages([]).shape == (0, 16)
    assert (model.name, HashEmbedding().name, HashEmbedding(name="甲").name) == ("fake-16", "fake-64", "甲")


def test_a_chat_replies_in_order_and_the_last_for_ever() -> None:
    chat = ScriptedChat(["一", ModelUnavailable("断了"), lambda messages: messages[-1].content.upper()])
    asked = [[Message("system", "s"), Message("user", text)] for text in ("a", "b", "c", "d")]
    assert chat.complete(asked[0]) == "一"
    with pytest.raises(ModelUnavailable):
        chat.complete(asked[1])
    assert [chat.complete(messages) for messages in asked[2:]] == ["C", "D"]
    assert (chat.prompts, chat.systems) == (["a", "b", "c", "d"], ["s"] * 4)
    assert not hasattr(chat, "stream")


def test_a_stream_comes_in_pieces_and_may_fail() -> None:
    chat = ScriptedStreamingChat("一二三四五", size=2, fails_after=4)
    pieces: list[str] = []
    with pytest.raises(ModelUnavailable):
        pieces.extend(chat.stream([Message("user", "?")]))
    chat.fails_after = None
    assert list(chat.stream([Message("user", "?")])) == ["一二", "三四", "五"]
    assert chat.is_closed


def test_a_gate_holds_a_call_until_it_is_opened_or_stopped() -> None:
    gate = Gate()
    model = ScriptedEmbedding(gate=gate, when=lambda text: "等" in text, on="passages")
    assert model.embed_query("等").shape == (64,)
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(model.embed_passages, ["等"])
        assert gate.entered.wait(60)
        assert not waiting.done()
        gate.opened.set()
        assert waiting.result(60).shape == (1, 64)
    with pytest.raises(ModelUnavailable):
        ScriptedReranker(gate=Gate()).score("问", ["答"], lambda: True)


def test_an_embedding_fails_or_changes_for_some_texts() -> None:
    model = ScriptedEmbedding(error=ModelUnavailable("连不上"), when=lambda text: "坏" in text)
    assert model.embed_passages(["好"]).shape == (1, 64)
    for call in (model.embed_query, lambda text: model.embed_passages([text])):
        with pytest.raises(ModelUnavailable):
            call("坏")
    model.error, model.change = None, lambda vectors: vectors[:, :3]
    assert (model.embed_query("坏").shape, model.embed_query("好").shape) == ((3,), (64,))
    assert (model.passages, model.queries, model.failures) == (["好", "坏"], ["坏", "坏", "好"], 2)


def test_a_reranker_scores_as_told_and_remembers() -> None:
    model = ScriptedReranker(lambda query, passage: len(passage) / 10)
    assert model.score("问", ["一", "二三"]) == [0.1, 0.2]
    assert (model.calls, model.passages) == ([("问", ("一", "二三"))], ["一", "二三"])
    assert ScriptedReranker(0.3).score("问", ["一"]) == [0.3]
    assert ScriptedReranker(reply=lambda passages: None).score("问", ["一"]) is None
