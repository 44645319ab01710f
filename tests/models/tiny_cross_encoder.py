"""A real cross-encoder, small enough to be built by a test: its logit is arithmetic over shared characters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Regex, Tokenizer, models, pre_tokenizers, processors

from qianxun.models import RerankCard, rerank_card

LETTERS = "住院费用报销比例门诊起付线异地就医备案机油更换周期年龄可以多少的为百分之八十五。？"
SPECIAL = ["[CLS]", "[SEP]", "[UNK]"]
BIAS = -2.0


def write_cross_encoder(folder: Path, card: RerankCard, outputs: int = 1, weight: float = 1.0) -> Path:
    """Puts a tokenizer and weights under the card's paths: logit = weight · Σ pairs of the same letter − 2."""
    for file in card.files:
        (folder / file.path).parent.mkdir(parents=True, exist_ok=True)
    tokenizer = _tokenizer()
    tokenizer.save(str(folder / card.tokenizer.path))
    onnx.save(_weights(tokenizer.get_vocab_size(), outputs, weight), str(folder / card.weights.path))
    return folder


def logit(query: str, passage: str) -> float:
    """What the weights compute, in Python."""
    return sum(query.count(letter) * passage.count(letter) for letter in set(query) & set(LETTERS)) + BIAS


def any_reranker() -> RerankCard:
    return rerank_card("bge-reranker-base")


def _tokenizer() -> Tokenizer:
    vocabulary = {word: place for place, word in enumerate([*SPECIAL, *dict.fromkeys(LETTERS)])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 0), ("[SEP]", 1)]
    )
    return tokenizer


def _weights(size: int, outputs: int, weight: float) -> Any:
    rows = np.eye(size, dtype=np.float32)
    rows[: len(SPECIAL)] = 0.0
    constants = {
        "rows": rows,
        "two": np.array([2], np.int64),
        "one": np.array([1], np.int64),
        "bias": np.array([BIAS] * outputs, np.float32),
        "weight": np.array([weight], np.float32),
    }
    nodes = [
        helper.make_node("Gather", ["rows", "input_ids"], ["letters"]),
        helper.make_node("Cast", ["token_type_ids"], ["kind"], to=TensorProto.FLOAT),
        helper.make_node("Cast", ["attention_mask"], ["mask"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["kind", "mask"], ["of_passage"]),
        helper.make_node("Sub", ["mask", "of_passage"], ["of_query"]),
        helper.make_node("Unsqueeze", ["of_query", "two"], ["query_mask"]),
        helper.make_node("Unsqueeze", ["of_passage", "two"], ["passage_mask"]),
        helper.make_node("Mul", ["letters", "query_mask"], ["query_letters"]),
        helper.make_node("Mul", ["letters", "passage_mask"], ["passage_letters"]),
        helper.make_node("ReduceSum", ["query_letters", "one"], ["query"], keepdims=0),
        helper.make_node("ReduceSum", ["passage_letters", "one"], ["passage"], keepdims=0),
        helper.make_node("Mul", ["query", "passage"], ["same"]),
        helper.make_node("ReduceSum", ["same", "one"], ["count"], keepdims=1),
        helper.make_node("Mul", ["count", "weight"], ["weighted"]),
        helper.make_node("Add", ["weighted", "bias"], ["logits"]),
    ]
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "tokens"])
        for name in ("input_ids", "attention_mask", "token_type_ids")
    ]
    output = helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", outputs])
    held = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, "tiny", inputs, [output], held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
