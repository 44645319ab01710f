"""Boundaries by meaning: a toy model whose meanings are known, and the real model where its weights are here."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.shared import BGE_SMALL, DATA, needs_data, needs_model

from qianxun.core.errors import BadInput
from qianxun.core.types import Column, Table, TableSpan, Text, Vector, Vectors
from qianxun.ingest.boundaries import semantic_cuts, sentences
from qianxun.ingest.chunk import ChunkSplitter

TOPICS = {
    "医": "参保人员住院医疗费用由医保基金支付。",
    "房": "购房人申请公积金贷款应当提供房产证明。",
    "车": "机动车驾驶人应当每年参加车辆安全检验。",
}


class TopicModel:
    """A sentence means the topic whose character it contains most often."""

    name = "topics"
    dimension = 4

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        rows = np.array([[text.count(topic) for topic in TOPICS] + [0.1] for text in texts], dtype=np.float32)
        unit: Vectors = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        return unit

    def embed_query(self, text: str) -> Vector:
        row: Vector = self.embed_passages([text])[0]
        return row


def joined(*parts: str) -> tuple[str, list[int]]:
    content, joints = "", []
    for part in parts:
        joints.append(len(content))
        content += part
    return content, joints[1:]


def test_cuts_fall_where_the_topic_changes() -> None:
    content, joints = joined(*(sentence * 8 for sentence in TOPICS.values()))
    assert semantic_cuts(Text(content), TopicModel()) == tuple(joints)


def test_chunks_do_not_mix_topics_and_keep_their_promises() -> None:
    content, joints = joined(*(sentence * 20 for sentence in TOPICS.values()))
    text = Text(content)
    pieces = ChunkSplitter(200, 30).pieces(text, cuts=semantic_cuts(text, TopicModel()))
    assert {0, *joints} <= {piece.start for piece in pieces}
    for piece in pieces:
        assert sum(sentence[-6:] in piece.body for sentence in TOPICS.values()) == 1
        assert len(piece.text) <= 200
        assert content[piece.start : piece.end] == piece.body


def test_one_topic_has_no_cut_and_neither_has_a_short_text() -> None:
    assert semantic_cuts(Text(TOPICS["医"] * 30), TopicModel()) == ()
    assert semantic_cuts(Text(""), TopicModel()) == ()
    assert semantic_cuts(Text("好。" + TOPICS["房"]), TopicModel()) == ()


def test_cuts_keep_their_distance() -> None:
    content, _ = joined(*(sentence * 3 for sentence in [*TOPICS.values()] * 5))
    cuts = semantic_cuts(Text(content), TopicModel(), percentile=0, least=150)
    assert cuts
    assert min(np.diff([0, *cuts, len(content)])) >= 150


def test_tables_are_left_alone() -> None:
    content, (start, end) = joined(TOPICS["医"] * 8, TOPICS["车"] * 8, TOPICS["医"] * 8)
    span = TableSpan(start, end, Table("", (Column("a", ("a",)),), (), ()), (start,))
    assert semantic_cuts(Text(content, tables=(span,)), TopicModel()) == ()


@given(st.text(alphabet="医房车。！？”\n 1.a", max_size=200))
def test_sentences_cover_the_text_in_order(content: str) -> None:
    covered = 0
    for start, end in sentences(content):
        assert not content[covered:start].strip()
        assert content[start:end].strip()
        covered = end
    assert not content[covered:].strip()


def test_a_very_short_sentence_joins_the_one_before_it() -> None:
    content = "他问是否可以报销住院费用。可以。下一个问题是门诊费用怎么办。"
    assert [content[start:end] for start, end in sentences(content)] == [
        "他问是否可以报销住院费用。可以。",
        "下一个问题是门诊费用怎么办。",
    ]


@pytest.mark.parametrize("wrong", [{"window": 0}, {"percentile": 101.0}, {"least": -1}])
def test_impossible_settings_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(BadInput, match=next(iter(wrong))):
        semantic_cuts(Text("甲。"), TopicModel(), **wrong)


@needs_data
@needs_model
def test_the_real_model_finds_where_passages_were_joined() -> None:
    from qianxun.models.local.embedding import LocalEmbedding

    with (DATA / "beir" / "cmrc2018" / "corpus.jsonl").open(encoding="utf-8") as lines:
        passages = [json.loads(next(lines))["text"].replace("\n", "") for _ in range(60)]
    content, joints = joined(*(passage[: passage.rindex("。") + 1][-400:] for passage in passages[::10]))
    cuts = semantic_cuts(Text(content), LocalEmbedding("bge-small-zh-v1.5", BGE_SMALL))
    assert len(set(cuts) & set(joints)) >= 4  # of five
    assert len(cuts) <= 12
