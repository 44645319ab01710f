"""The response models of the OpenAPI document, derived from the values of `core` and the codec that writes them.

A field of a value is a field of its model: its name and type are those that `core.codec` writes. Only what a route
computes beside the value is declared here, and the texts are in openapi.toml.
"""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import MISSING, is_dataclass
from functools import cache
from typing import Any, Final, Literal, TypeAlias, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, create_model

from qianxun.core.answer_types import Citation, Flag, Source, TraceStep
from qianxun.core.codec.plain import AS_IT_IS, JsonField, json_fields
from qianxun.core.codec.wire import SHAPES
from qianxun.core.explanation import Explanation, Sum, Vote
from qianxun.core.filters import Filter, Metadata
from qianxun.core.graph_types import Community, Entity, GraphContext, Relation
from qianxun.core.ingest_types import EventOutcome
from qianxun.core.layered_types import Cited, LayerRun, TableShown
from qianxun.core.log_types import Feedback
from qianxun.core.types import (
    ArmScore,
    Chunk,
    Column,
    Degraded,
    DocumentState,
    Found,
    Generation,
    KnowledgeBase,
    StepTime,
)
from qianxun.doors.http.openapi import field_texts

Model: TypeAlias = Any  # a class that is made here: a type checker knows nothing of its fields

_NAMES: Final[Mapping[type, str]] = {
    Chunk: "ChunkInfo",
    Citation: "CitationInfo",
    Cited: "CellInfo",
    Column: "ColumnInfo",
    Community: "CommunityInfo",
    Degraded: "DegradedInfo",
    DocumentState: "DocumentInfo",
    Entity: "EntityInfo",
    EventOutcome: "EventResult",
    Feedback: "FeedbackInfo",
    Flag: "FlagInfo",
    Found: "ResultInfo",
    Generation: "GenerationInfo",
    GraphContext: "GraphInfo",
    KnowledgeBase: "BaseInfo",
    LayerRun: "LayerInfo",
    Relation: "RelationshipInfo",
    Source: "SourceInfo",
    StepTime: "StepInfo",
    Sum: "ScoreSum",
    TableShown: "TableInfo",
    TraceStep: "TraceInfo",
    Vote: "ArmVote",
}
_NARROWED: Final[Mapping[type, Mapping[str, Any]]] = {
    ArmScore: {"raw": float | None},  # null: not a number
    EventOutcome: {"result": Literal["accepted", "unchanged", "duplicate", "stale"]},  # a rejected one is an error
}
_OPTIONAL: Final = (Explanation,)  # where no chunk was named, a response has none of its fields


class _Response(BaseModel):
    # Only the document reads these models, so they are built when it does.
    model_config = ConfigDict(protected_namespaces=(), defer_build=True)


def response(name: str, *kinds: type, only: tuple[str, ...] = (), without: tuple[str, ...] = (), **more: Any) -> Model:
    """A response model with the JSON fields of these values and, under ``more``, what is computed beside them: a type,
    or a type and its default where the field may be missing."""
    written = {key: one for kind in kinds for key, one in json_fields(kind, SHAPES).items()}
    fields: dict[str, Any] = {
        key: (_json_type(one.hint), _field(one))
        for key, one in written.items()
        if (not only or key in only) and key not in {*without, *more}
    }
    last = kinds[-1].__name__ if kinds else name
    for key, kind in more.items():
        narrowed = written.get(key)
        texts = field_texts(last, key) if narrowed is None else field_texts(narrowed.owner.__name__, narrowed.name)
        fields[key] = (kind[0], Field(kind[1], **texts)) if isinstance(kind, tuple) else (kind, Field(**texts))
    about = (field_texts(name) or field_texts(last)).get("description")
    return create_model(name, __base__=_Response, __doc__=about, **fields)


@cache
def of(kind: Any) -> Model:
    """The response model of a value by itself."""
    return response(_NAMES.get(kind, kind.__name__), kind, **_NARROWED.get(kind, {}))


def listed(kind: Any) -> Any:
    """A list of such values, or of such models."""
    model: Any = of(kind) if hasattr(kind, "__dataclass_fields__") else kind
    return list[model]


def _field(one: JsonField) -> Any:
    texts = field_texts(one.owner.__name__, one.name)
    if one.owner in _OPTIONAL or one.name in SHAPES.get(one.owner, AS_IT_IS).newer:
        return Field(one.default, **texts) if one.default is not MISSING else Field(default_factory=dict, **texts)
    return Field(**texts)


def _json_type(hint: Any) -> Any:
    """The type of what the codec writes for a value of the declared type."""
    if hint in (Filter, Metadata):
        return dict[str, Any]
    if isinstance(hint, type) and is_dataclass(hint):
        return of(hint)
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return Union[tuple(_json_type(kind) for kind in inner)]  # noqa: UP007  # of types that are known when it runs
    if origin is tuple:
        return list[_json_type(inner[0])]  # type: ignore[misc]
    if origin not in (None, Literal):
        return dict[str, _json_type(inner[1])]  # type: ignore[misc]
    return hint
