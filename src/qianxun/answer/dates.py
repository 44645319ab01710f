"""The dates that a model is told: of today, and of the documents."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime

from qianxun.core.answer_types import Passage
from qianxun.rank.freshness import moment_of


def date_of(passage: Passage) -> date | None:
    """When a passage's document was last changed, published or made, by its metadata; None if nothing says so."""
    about = passage.metadata.get("document")
    moment = moment_of(about) if isinstance(about, Mapping) else None
    return datetime.fromtimestamp(moment, UTC).date() if moment is not None else None


def shown_day(day: date) -> str:
    return f"{day.year}年{day.month}月{day.day}日"
