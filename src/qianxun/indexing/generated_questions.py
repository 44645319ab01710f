"""Questions made by a base's qa model, as a step of preparing documents."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TypeAlias

from qianxun.bases.base import OpenBase
from qianxun.core.errors import ModelError, NotFound
from qianxun.core.ports import ChatModel, nothing
from qianxun.core.types import Piece, QAPair
from qianxun.indexing.prepare import Ask
from qianxun.ingest.questions import make_questions
from qianxun.records import pairs

log = logging.getLogger(__name__)

Warn: TypeAlias = Callable[[str], None]


def asker(base: OpenBase, warn: Warn = nothing) -> Ask | None:
    """How this base makes questions; None where no qa model is configured for it.

    Whatever goes wrong is said to the log and to ``warn``: the document is taken in without these questions.
    """
    name = base.about.config.get("qa_model")
    if not name:
        return None

    def aloud(reason: str) -> None:
        log.warning("base %s: %s", base.id, reason)
        warn(reason)

    def ask(pieces: Sequence[Piece]) -> tuple[str, Sequence[tuple[QAPair, ...]]]:
        try:
            model = _model(base, str(name))
        except (ModelError, NotFound) as error:
            aloud(f"没有生成问题：{error}")
            return "", [()] * len(pieces)
        origin = f"model:{model.name}"[:220]
        return origin, _made(base, model, origin, pieces, aloud)

    return ask


def _model(base: OpenBase, name: str) -> ChatModel:
    if base.models is None:
        raise NotFound(f"没有名为“{name}”的 qa 模型", hint="在设置中登记这个模型，或去掉知识库的 qa_model")
    return base.models.chat(name, "qa")


def _made(
    base: OpenBase, model: ChatModel, origin: str, pieces: Sequence[Piece], aloud: Warn
) -> list[tuple[QAPair, ...]]:
    """What was made of a text before is used again; only the others are asked about, each text once."""
    with base.records.reading() as tx:
        known = pairs.made_for(tx, base.id, origin, [piece.text for piece in pieces])
    unknown = {piece.text: piece for piece in pieces if piece.text not in known}
    failures: list[ModelError] = []
    made = make_questions(model, list(unknown.values()), on_failure=lambda _, error: failures.append(error))
    if failures:
        aloud(f"{len(failures)} 个分块没有生成问题：{failures[0]}")
    known |= dict(zip(unknown, made, strict=True))
    return [known[piece.text] for piece in pieces]
