"""Chunks to read, and models that say what a test tells them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from qianxun.core.types import Message


@dataclass(frozen=True)
class Chunk:
    text: str
    document_key: int = 1
    headings: tuple[str, ...] = ()
    doc_name: str = "手册"


@dataclass
class Scripted:
    """A ChatModel that gives these replies in order, the last one for ever.

    An exception among them is raised, a function given what was asked.
    """

    replies: list[Any]
    name: str = "qwen"
    asked: list[str] = field(default_factory=list)
    systems: list[str] = field(default_factory=list)

    def complete(self, messages: Sequence[Message]) -> str:
        self.systems.append(messages[0].content)
        self.asked.append(messages[-1].content)
        reply = self.replies[min(len(self.asked), len(self.replies)) - 1]
        if isinstance(reply, Exception):
            raise reply
        told: str = reply(messages[-1].content) if callable(reply) else reply
        return told


def entity(name: str, kind: str = "TERM") -> dict[str, str]:
    return {"name": name, "type": kind}


def relation(source: str, kind: str, target: str) -> dict[str, str]:
    return {"source": source, "type": kind, "target": target}


def said(*chunks: dict[str, Any]) -> str:
    """A reply about these chunks, in order."""
    told = [{"n": at, "entities": [], "relations": [], "aliases": [], **chunk} for at, chunk in enumerate(chunks, 1)]
    return json.dumps({"chunks": told}, ensure_ascii=False)
