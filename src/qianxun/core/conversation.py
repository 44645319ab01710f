"""What was said before a question: the turns of a conversation, from whatever shape a caller has them in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, Literal, TypeAlias

from qianxun.core.errors import BadQuery
from qianxun.core.unicode import sendable

Role: TypeAlias = Literal["user", "assistant"]

TURNS_LIMIT: Final = 20  # of a conversation that are looked at, the last ones
TURN_LENGTH: Final = 8000  # characters of one

_ROLES: Final[Mapping[str, Role | None]] = {
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "ai": "assistant",
    "system": None,
    "developer": None,
    "tool": None,
    "function": None,
    # streamed messages of LangChain
    "HumanMessageChunk": "user",
    "AIMessageChunk": "assistant",
    "SystemMessageChunk": None,
    "ToolMessageChunk": None,
    "FunctionMessageChunk": None,
}


@dataclass(frozen=True, slots=True)
class Turn:
    role: Role
    content: str


def turns_of(history: Sequence[Any]) -> tuple[Turn, ...]:
    """The last turns of a conversation, given as ``{"role", "content"}``, ``(role, content)`` or objects with these
    attributes.

    Turns of a system or a tool, images, and empty turns (a call of a tool) are left out. Raises BadQuery for what is
    no turn.
    """
    read = (_turn(turn) for turn in reversed(history))
    latest = islice((turn for turn in read if turn is not None and turn.content), TURNS_LIMIT)
    return tuple(reversed(list(latest)))


def _turn(given: Any) -> Turn | None:
    if isinstance(given, Mapping):
        role, content = given.get("role", given.get("type")), given.get("content")
    elif isinstance(given, tuple | list) and len(given) == 2:
        role, content = given
    else:
        role, content = getattr(given, "role", getattr(given, "type", None)), getattr(given, "content", None)
    text = "" if content is None and role == "assistant" else _text(content)  # None: it called a tool
    if not isinstance(role, str) or role not in _ROLES or text is None:
        raise BadQuery(
            f"对话历史里有看不懂的一条：{str(given)[:80]!r}", hint='写成 {"role": "user", "content": "……"} 的列表'
        )
    known = _ROLES[role]
    return None if known is None else Turn(known, sendable(text).strip()[:TURN_LENGTH])


def _text(content: Any) -> str | None:
    """The text of a turn, whose content may be a list of blocks; None if it is neither."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list | tuple) or not all(isinstance(block, str | Mapping) for block in content):
        return None
    blocks = (block if isinstance(block, str) else block.get("text") for block in content)
    return " ".join(block for block in blocks if isinstance(block, str))
