"""The OpenAPI document describes what the codec writes, because both are made from the same values."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Literal

from qianxun.core.codec.plain import json_fields
from qianxun.core.codec.wire import SHAPES, to_wire
from qianxun.core.types import Attributes, Chunk, Degraded, Found
from qianxun.doors.http.openapi import _texts
from qianxun.doors.http.response_models import of


@dataclass(frozen=True, slots=True)
class Delayed(Degraded):
    """A value with two fields more than one of ours."""

    seconds: float = 0.0
    states: tuple[Literal["late", "lost"], ...] = ()


def test_a_field_that_a_value_gains_is_written_and_documented_with_no_other_line() -> None:
    written = to_wire(Delayed("rerank", "迟到", 2.5, ("late",)))
    assert written == {"part": "rerank", "reason": "迟到", "seconds": 2.5, "states": ["late"]}
    schema = of(Delayed).model_json_schema()
    assert schema["properties"].keys() == written.keys()
    assert schema["properties"]["states"]["items"]["enum"] == ["late", "lost"]
    assert set(schema["required"]) == written.keys()


def test_fields_stand_in_the_document_under_the_names_that_are_written() -> None:
    chunk = Chunk(7, "c_1_a_0", "a", "手册", 0, "住院。", 0, 3, "text", (), None, 1, Attributes("a", tags=("医保",)))
    found = Found(chunk, 0.5, "keyword", {})
    schema = of(Found).model_json_schema()
    assert schema["properties"].keys() == to_wire(found).keys()
    assert {"content", "fused_score", "tags"} <= schema["properties"].keys()
    assert schema["properties"]["content"]["examples"]  # the text of `Chunk.text`
    of(Found).model_validate(to_wire(found))


def test_every_text_is_of_a_field_that_is_written() -> None:
    modules = [module for name, module in sys.modules.items() if name.startswith("qianxun.core.")]
    classes = {name: kind for module in modules for name, kind in vars(module).items() if isinstance(kind, type)}
    computed = {"knowledge_base_id", "time_cost_ms", "doc_ids", "tier", "returned", "changes", "request", "weights"}
    computed |= {"cells_total", "answer", "chunk", "statistics"}
    for owner, texts in _texts()["fields"].items():
        if owner in classes:
            known = {one.name for one in json_fields(classes[owner], SHAPES).values()} | computed
            assert texts.keys() - {"about"} <= known, owner
