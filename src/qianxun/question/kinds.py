"""What kind of question a text is, by its words; and the text without greeting and courtesy."""

from __future__ import annotations

import re
from typing import Final, Literal

from qianxun.core.answer_types import QuestionKind
from qianxun.question.words import cue, joined
from qianxun.text.chinese import fold

_PAUSES: Final = re.compile(r"[\s，。！？!?,.~～…、；;：:]+")
_GREETINGS: Final = re.compile(f"(?:{joined('small_talk.greeting')})+")
# The first that matches, from the most specific on.
_KINDS: Final[tuple[tuple[QuestionKind, tuple[str, ...]], ...]] = (
    ("comparison", ("comparison.route",)),
    ("count", ("kind.count",)),
    ("definition", ("kind.definition",)),
    ("list", ("kind.list",)),
    ("multi_hop", ("kind.chain", "kind.chain_english")),
)
_LEAST_LEFT: Final = 2  # characters of a question that still asks something


def kind_of(text: str) -> QuestionKind:
    """A plain question for a fact where no other kind matches."""
    folded = fold(text).strip().rstrip("?？!！。. ")
    if is_small_talk(folded):
        return "greeting"
    if cue("summary.route").search(folded) and not cue("kind.one").search(folded):
        return "summary"
    return next((kind for kind, names in _KINDS if any(cue(name).search(folded) for name in names)), "fact")


def is_small_talk(text: str) -> bool:
    """Returns True if every part of it is a greeting, thanks, a farewell or a word to the machine."""
    parts = [part for part in _PAUSES.split(fold(text)) if part]
    return bool(parts) and all(_GREETINGS.fullmatch(part) for part in parts)


def small_talk_kind(text: str) -> Literal["greeting", "thanks", "farewell"]:
    folded = fold(text)
    if cue("small_talk.farewell").search(folded):
        return "farewell"
    return "thanks" if cue("small_talk.thanks").search(folded) else "greeting"


def names_anything(folded: str) -> bool:
    """Returns True if a request for a summary has words beside those that any such request has."""
    return any(map(str.isalnum, cue("summary.generic").sub("", folded)))


def without_greeting(text: str) -> str:
    """你好，请问…… without its first words; the text itself where it is nothing else."""
    rest = text.strip()
    while found := _PAUSES.search(rest):
        if not _GREETINGS.fullmatch(fold(rest[: found.start()])) or not rest[found.end() :].strip():
            break
        rest = rest[found.end() :].strip()
    return rest


def without_courtesy(text: str) -> str:
    """能不能告诉我…… without its first words; the text itself where it is nothing else. 你知道…是谁吗 asks who, not
    whether."""
    found = cue("small_talk.courtesy").match(text)
    rest = text[found.end() :].strip() if found else text
    if found and cue("small_talk.asks_what").search(rest):
        rest = cue("small_talk.whether").sub("", rest)
    return rest if any(map(str.isalnum, rest)) else text


def without_pointing(text: str) -> str:
    """The question without words that point at an attached picture or table: no document has 图中 or 这张."""
    left = cue("attached.pointing").sub("", text).strip(" ，,")
    return left if len(re.findall(r"\w", left)) >= _LEAST_LEFT else text
