"""Good dialogues back into the library: the turns of a conversation that people rated as good become examples."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from qianxun.examples.files.cleaning import BadExample, ExampleDraft, clean
from qianxun.examples.insert import insert_drafts, vectorize
from qianxun.examples.library import ExampleLibrary
from qianxun.examples.schema import DEFAULT_TABLE_NAMES, GRADES, embedded_text

NEAR: Final = 0.95  # the similarity from which on an example says the same as one that there is
_USER: Final = ("user", "human", "用户")
_AGENT: Final = ("assistant", "ai", "agent", "助手")
_GOOD: Final = ("good", "like", "up", "true", "1", GRADES[0])


@dataclass(frozen=True, slots=True)
class AdoptionReport:
    """What became of the dialogues; each is in one of the counts."""

    added: int = 0
    unrated: int = 0  # not rated as good: left out
    near: int = 0  # of those that were left out, the ones that say what an example says already
    rejected: tuple[str, ...] = ()  # why a turn cannot be an example


def adopt_dialogues(
    dialogues: Iterable[Any], library: ExampleLibrary, table: str = DEFAULT_TABLE_NAMES[0], *, near: float = NEAR
) -> AdoptionReport:
    """Adds the good turns to one table, graded 优秀 unless they say otherwise. All or none are stored.

    A dialogue is ``{"user_input", "agent_response", "rating"}``, or a conversation ``{"messages": […], "rating"}``: its
    turns are the questions with their replies. Only those with a good ``rating`` are taken.
    """
    (source,) = library.sources([table])
    drafts: dict[tuple[str, str], ExampleDraft] = {}
    rejected: list[str] = []
    unrated = 0
    for number, dialogue in enumerate(dialogues, 1):
        if not _is_dialogue(dialogue):
            rejected.append(f"第 {number} 段：不是对话，应有 user_input 与 agent_response，或 messages")
            continue
        for turn in turns_of(dialogue):
            if not _is_good(turn.get("rating")):
                unrated += 1
                continue
            try:
                draft = clean({"quality_grade": GRADES[0], **{k: v for k, v in turn.items() if k != "rating"}})
            except BadExample as error:
                rejected.append(f"第 {number} 段：{error.message}")
                continue
            drafts.setdefault(draft.content, draft)
    new = _unlike(list(drafts.values()), library, source, near)
    added = insert_drafts(library.store, {source: new})[source].added if new else 0
    return AdoptionReport(added, unrated, len(drafts) - added, tuple(rejected))


def _is_dialogue(given: Any) -> bool:
    messages = given.get("messages", ()) if isinstance(given, Mapping) else given
    return isinstance(messages, Sequence) and not isinstance(messages, str)


def turns_of(dialogue: Any) -> list[Mapping[str, Any]]:
    """Each question with the reply to it."""
    if not isinstance(dialogue, Mapping):
        dialogue = {"messages": dialogue}
    if "messages" not in dialogue:
        return [dialogue]
    rest = {name: value for name, value in dialogue.items() if name in ("rating", "tags", "quality_grade")}
    turns: list[Mapping[str, Any]] = []
    question = ""
    for role, text in map(_role_and_text, dialogue["messages"]):
        if role in _USER:
            question = text
        elif role in _AGENT and question:
            turns.append({"user_input": question, "agent_response": text, **rest})
            question = ""
    return turns


def _role_and_text(message: Any) -> tuple[str, str]:
    """The role and the text of a message: a mapping, a pair, or LangChain's."""
    if isinstance(message, Mapping):
        role, text = message.get("role", message.get("type", "")), message.get("content", "")
    elif isinstance(message, Sequence) and len(message) == 2:
        role, text = message
    else:
        role, text = getattr(message, "type", ""), getattr(message, "content", "")
    return str(role).casefold(), str(text)


def _is_good(rating: Any) -> bool:
    return str(rating).casefold() in _GOOD


def _unlike(drafts: Sequence[ExampleDraft], library: ExampleLibrary, source: str, near: float) -> list[ExampleDraft]:
    """Those that say something which neither the table nor an earlier one says."""
    vectors = vectorize([embedded_text(*draft.content) for draft in drafts], library.store.model) if drafts else ()
    new: list[ExampleDraft] = []
    accepted: list[Any] = []
    for draft, vector in zip(drafts, vectors, strict=True):
        is_known = bool(library.search_in_table(source, vector, 1, near))
        if not is_known and not any(float(vector @ other) >= near for other in accepted):
            new.append(draft)
            accepted.append(vector)
    return new
