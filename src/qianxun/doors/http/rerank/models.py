"""Rerank models as a request names them: what is on this machine or in the settings, and what the tenant registered."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from qianxun.core.codec.results import rerank_name
from qianxun.core.errors import BadInput, ModelUnavailable, NotFound
from qianxun.core.model_types import UserModel, is_ref
from qianxun.core.ports import EmbeddingModel, RerankModel
from qianxun.core.unicode import storable
from qianxun.doors.http.responses import InvalidField
from qianxun.engine.embedding_models import NO_MODEL
from qianxun.engine.engine import Engine
from qianxun.engine.model_catalog import MAXSIM
from qianxun.rank.rerank import checked_scores

FIELD: Final = "model"
SHOWN: Final = 20  # names in a hint


@dataclass(frozen=True, slots=True)
class Chosen:
    """A model that a request named, and whose threads it runs in: "" for those that all share."""

    model: RerankModel
    lane: str
    is_afar: bool  # a service, which may fail without that being the request's fault


async def chosen(engine: Engine, told: str) -> Chosen:
    """The model that is meant. Raises NotFound or InvalidField, saying what there is."""
    registered = await engine.registry.list(model_type="rerank")
    return await asyncio.to_thread(_chosen, engine, told, registered)


def _chosen(engine: Engine, told: str, registered: Sequence[UserModel]) -> Chosen:
    if not told.strip():
        raise InvalidField(FIELD, "缺少这个字段", hint=_known(engine, registered))
    name = _meant(engine, told, registered)
    try:
        model = _opened(engine, name)
    except NotFound:
        raise NotFound(f"没有“{storable(told)[:80]}”这个重排模型", hint=_known(engine, registered)) from None
    except (ModelUnavailable, BadInput) as error:  # not downloaded, disabled, of another type
        raise InvalidField(FIELD, error.message, hint=error.hint) from error
    lane = repr((engine.tenant, name)) if is_ref(name) else ""
    return Chosen(model, lane, is_ref(name) or name == engine.settings.rerank.model)


def _meant(engine: Engine, told: str, registered: Sequence[UserModel]) -> str:
    """The name that the engine knows it by, "" if unknown. Raises InvalidField if several models share it."""
    name = rerank_name(told)
    if is_ref(name) or engine.catalog.knows_rerank(name):
        return name
    found = [each for each in registered if each.status and told in (each.config_name, each.model_name)]
    if len(found) > 1:
        numbers = "、".join(str(each.id) for each in found[:SHOWN])
        raise InvalidField(FIELD, f"有 {len(found)} 个登记的模型叫“{told[:80]}”", hint=f"改写编号：{numbers}")
    return found[0].ref if found else ""


async def scored(engine: Engine, by: Chosen, query: str, passages: Sequence[str]) -> list[float]:
    """One score in [0, 1] per passage, in order: those that a search with this model would give them.

    In threads of their own, so that no search waits for them.
    """
    given_up = threading.Event()

    def score() -> list[float]:
        try:
            return checked_scores(by.model.score(query, passages, given_up.is_set), len(passages))
        except ModelUnavailable as error:
            if by.is_afar or given_up.is_set():
                raise
            raise InvalidField(FIELD, error.message, hint=error.hint) from error

    try:
        lane = engine.model_threads.lane("passages", by.lane)
        return await asyncio.get_running_loop().run_in_executor(lane, score)
    finally:
        given_up.set()


def _opened(engine: Engine, name: str) -> RerankModel:
    if is_ref(name):
        return engine.registry.rerank(name)
    return engine.catalog.rerank(name, _embedding(engine) if name == MAXSIM else None)


def _embedding(engine: Engine) -> EmbeddingModel | None:
    """The model that a new base would have."""
    if engine.settings.vectorization.model == NO_MODEL:
        return None
    name, dimension = engine.embeddings.choose(None, engine.registry)
    return engine.embeddings.get(name, dimension, engine.registry)


def _known(engine: Engine, registered: Sequence[UserModel]) -> str:
    own = [f"{each.id}（{each.config_name}）" for each in registered if each.status]
    return f"可用：{'、'.join([*engine.catalog.rerankers(), *own][:SHOWN])}"
