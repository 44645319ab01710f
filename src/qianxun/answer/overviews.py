"""An answer to a question about everything: what the communities of the graph say, in sentences of their sources."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from qianxun.answer.assemble import passage
from qianxun.answer.draft import Written
from qianxun.answer.state import AnswerState
from qianxun.answer.verify.plain_text import quotable
from qianxun.core.answer_types import Answer, Passage
from qianxun.core.graph_types import Community
from qianxun.core.types import Found

COMMUNITIES: Final = 6
SENTENCES: Final = 2  # of one


def is_overview(state: AnswerState) -> bool:
    """Whether the question names nothing, so that everything is what it asks for, and there is something to tell."""
    analysis = state.analysis
    return analysis is not None and analysis.is_broad and any(_told(state))


def overview(state: AnswerState) -> Answer:
    """The best communities, each with the sentences that its summary rests on, cited."""
    written = Written()
    told = list(_told(state))
    for at, (title, sentence, source) in enumerate(told):
        numbers, _ = written.number((source,))
        written.add(f"- {title}：{sentence}" if title else f"  {sentence}", numbers, "\n" if at + 1 < len(told) else "")
    return written.answer("extractive")


def _told(state: AnswerState) -> Iterator[tuple[str, str, Passage]]:
    """(title, sentence, source); the title stands with a community's first sentence."""
    held = {each.chunk.key: (each, passage(each, number)) for number, each in enumerate(state.found, start=1)}
    said: set[str] = set()
    shown = 0
    for community in state.graph.communities:
        sentences = [each for each in _sentences(community, held) if each[0] not in said][:SENTENCES]
        said.update(sentence for sentence, _ in sentences)
        for at, (sentence, source) in enumerate(sentences):
            yield ("" if at else quotable(community.title)), sentence, source
        shown += bool(sentences)
        if shown == COMMUNITIES:
            return


def _sentences(community: Community, held: dict[int, tuple[Found, Passage]]) -> Iterator[tuple[str, Passage]]:
    for evidence in community.sources:
        if evidence.chunk in held:
            found, source = held[evidence.chunk]
            sentence = " ".join(quotable(found.chunk.text[evidence.start : evidence.end]).split())
            if sentence:
                yield sentence, source
