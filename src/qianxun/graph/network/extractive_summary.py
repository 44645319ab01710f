"""What a community is about, in sentences of its own sources: quoted whole, each with the place where it stands."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

from qianxun.core.graph_types import CO_OCCURRENCE, Community, Entity, Evidence, Relation, Span
from qianxun.graph.network.communities import community_id
from qianxun.text.chinese import SENTENCE_END
from qianxun.text.tokens import tokens

BUDGET: Final = 200  # tokens of a summary
SENTENCES: Final = 5
READ: Final = 400  # places looked at
NAMES: Final = 3  # in a title
# Sentences that speak of what was said before them: by themselves they say less.
_LEANING: Final = re.compile(
    "此外|另外|同时|因此|所以|但|然而|不过|其(?!他)|该|这|那|此|他|她|它|上述|综上|除此|还|并|也|而|随后|之后|后来"
    r"|(?:however|this|these|that|those|it|he|she|they|his|her|its|their|also|moreover|furthermore|in addition)\b",
    re.IGNORECASE,
)
_LINE_END: Final = re.compile(r"\n")
_BY_ITSELF: Final = 0.6
_LOOSE: Final = 0.25  # what it counts that two names share a sentence, where a stated relation counts 1


@dataclass(frozen=True, slots=True)
class _Sentence:
    text: str
    source: Evidence
    covers: frozenset[str]  # ids of entities
    says: frozenset[tuple[str, str, str]]  # relations
    cost: int


def evidence_for(relations: Iterable[Relation], mentions: Iterable[Evidence] = ()) -> tuple[Evidence, ...]:
    """The places that `summarised` reads: whoever calls it hands over the texts of their chunks.

    Those of the weightiest relations first; ``mentions`` are where members stand that have no relation among
    themselves. No place twice, and no more than `READ`.
    """
    ranked = sorted(relations, key=lambda each: (each.type == CO_OCCURRENCE, -each.weight, _said(each)))
    places = dict.fromkeys(place for each in ranked for place in each.evidence)
    return tuple(dict.fromkeys((*places, *mentions)))[:READ]


def summarised(
    entities: Sequence[Entity],
    relations: Sequence[Relation],
    texts: Mapping[int, str],
    *,
    mentions: Sequence[Evidence] = (),
    budget: int = BUDGET,
) -> Community:
    """The community of these entities; ``relations`` are those among them, ``texts`` those of chunks by their keys.

    ``summary`` is the sentences at ``sources``, one to a line, in their order: those that speak of most of the
    community's weight, none of which is cut. A place whose text is not given is not quoted.
    """
    ordered = tuple(sorted(entities, key=lambda each: (-each.importance, -each.chunks, each.id)))
    chosen = _chosen(_sentences(ordered, relations, mentions, texts), ordered, budget)
    return Community(
        id=community_id((each.id for each in ordered), relations),
        entities=tuple(each.id for each in ordered),
        title="、".join(each.name for each in ordered[:NAMES]),
        summary="\n".join(each.text for each in chosen),
        sources=tuple(each.source for each in chosen),
        origin="extractive",
    )


def digest(community: Community) -> str:
    """Names what a summary by a model is made from: another text at its sources is another summary."""
    return blake2b(f"{community.id}\n{community.title}\n{community.summary}".encode(), digest_size=16).hexdigest()


def _sentences(
    entities: Sequence[Entity], relations: Sequence[Relation], mentions: Sequence[Evidence], texts: Mapping[int, str]
) -> list[_Sentence]:
    """Every sentence that is evidence, once by its text; the order tells nothing of when a chunk was made."""
    names = {each.id: (each.name, *each.aliases) for each in entities}
    by_text: dict[str, _Sentence] = {}
    says = _said_where(relations, mentions, texts)
    for source in sorted(says, key=lambda each: (each.chunk, each.start)):
        text = texts[source.chunk][source.start : source.end]
        if text and text not in by_text:
            covers = {own for own, called in names.items() if any(name and name in text for name in called)}
            covers.update(end for one, other, _ in says[source] for end in (one, other) if end in names)
            by_text[text] = _Sentence(text, source, frozenset(covers), frozenset(says[source]), tokens(text) + 1)
    return sorted(by_text.values(), key=lambda each: (each.cost, each.text))


def _said_where(
    relations: Sequence[Relation], mentions: Sequence[Evidence], texts: Mapping[int, str]
) -> dict[Evidence, set[tuple[str, str, str]]]:
    """Whole sentences that are evidence, and the relations that each states; of a mention, none."""
    readable = {
        place
        for place in evidence_for(relations, mentions)
        if 0 <= place.start < place.end <= len(texts.get(place.chunk, ""))
    }
    ends = {chunk: _ends(texts[chunk]) for chunk in {place.chunk for place in readable}}
    sentence = {
        place: Evidence(place.chunk, *_whole(texts[place.chunk], ends[place.chunk], (place.start, place.end)))
        for place in readable
    }
    says: dict[Evidence, set[tuple[str, str, str]]] = {
        sentence[place]: set() for place in mentions if place in readable
    }
    for each in relations:
        for place in readable.intersection(each.evidence):
            says.setdefault(sentence[place], set()).add(_said(each))
    return says


def _chosen(offered: Sequence[_Sentence], entities: Sequence[Entity], budget: int) -> list[_Sentence]:
    """Again and again the sentence that says most of what has not been said; of equals the shorter."""
    weight = {each.id: 0.1 + each.importance for each in entities}
    left = list(offered)
    covered: set[str] = set()
    said: set[tuple[str, str, str]] = set()
    chosen: list[_Sentence] = []

    def gain(each: _Sentence) -> float:
        stated = sum(_LOOSE if kind == CO_OCCURRENCE else 1.0 for _, _, kind in sorted(each.says - said))
        told = stated / 10 + sum(weight[own] for own in sorted(each.covers - covered))
        return told * (_BY_ITSELF if _LEANING.match(each.text) else 1.0)

    while len(chosen) < SENTENCES:
        left = [each for each in left if each.cost <= budget and gain(each) > 0]
        if not left:
            break
        best = max(left, key=gain)  # the first of equals
        left.remove(best)
        chosen.append(best)
        covered |= best.covers
        said |= best.says
        budget -= best.cost
    return chosen


def _said(relation: Relation) -> tuple[str, str, str]:
    return relation.source, relation.target, relation.type


def sentence_at(text: str, span: Span) -> Span:
    """The whole sentence in which a span stands, or all sentences that it touches; a line's end ends a sentence."""
    return _whole(text, _ends(text), span)


def _ends(text: str) -> list[int]:
    """Where sentences and lines end, the text's own beginning and end among them."""
    lines = (at.start() for at in _LINE_END.finditer(text))
    return sorted({0, len(text), *lines, *(each.end() for each in SENTENCE_END.finditer(text))})


def _whole(text: str, ends: list[int], span: Span) -> Span:
    begin = ends[bisect_right(ends, span[0]) - 1]
    stop = ends[bisect_left(ends, span[1])]
    while begin < stop and text[begin].isspace():
        begin += 1
    while stop > begin and text[stop - 1].isspace():
        stop -= 1
    return begin, stop
