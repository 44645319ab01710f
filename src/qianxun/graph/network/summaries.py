"""Summaries of a community: sentences quoted whole from its sources, or written by a language model from them."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Final, TypeAlias

from qianxun.core.errors import BadModelReply
from qianxun.core.graph_types import CO_OCCURRENCE, Community, Entity, Evidence, LlmCost, Relation, Span
from qianxun.core.ports import ChatModel
from qianxun.core.types import Message
from qianxun.graph.extract.lexicon import system_prompt
from qianxun.graph.extract.llm import quoted
from qianxun.graph.network.communities import community_id
from qianxun.text.chinese import SENTENCE_END, fold
from qianxun.text.llm_json import Malformed, read_json, text_of
from qianxun.text.tokens import tokens

BUDGET: Final = 200  # tokens of a summary
SENTENCES: Final = 5
EVIDENCE: Final = 400  # places that are considered
TITLE_NAMES: Final = 3
CO_OCCURRENCE_WEIGHT: Final = 0.25  # of two names in one sentence, where a stated relation has 1
DEPENDENT_WEIGHT: Final = 0.6  # of a sentence that refers to what is before it
# Sentences that refer to what is before them: by themselves they say less.
_DEPENDENT: Final = re.compile(
    "此外|另外|同时|因此|所以|但|然而|不过|其(?!他)|该|这|那|此|他|她|它|上述|综上|除此|还|并|也|而|随后|之后|后来"
    r"|(?:however|this|these|that|those|it|he|she|they|his|her|its|their|also|moreover|furthermore|in addition)\b",
    re.IGNORECASE,
)
_LINE_END: Final = re.compile(r"\n")

# Of a summary that a model writes
TITLE_LIMIT: Final = 60  # characters
SUMMARY_LIMIT: Final = 800
SHOWN_NAMES: Final = 40  # of members
REPLY_TOKENS: Final = 350
_NUMBER: Final = re.compile(r"\d+(?:[.,:/-]\d+)*")
_LINK: Final = re.compile(r"https?:|www\.|\]\(|!\[|<[a-z/]|data:|javascript:", re.IGNORECASE)

_Triple: TypeAlias = tuple[str, str, str]  # source, target, type


@dataclass(frozen=True, slots=True)
class _Sentence:
    text: str
    source: Evidence
    entities: frozenset[str]  # ids
    relations: frozenset[_Triple]
    cost: int


def evidence_for(relations: Iterable[Relation], mentions: Iterable[Evidence] = ()) -> tuple[Evidence, ...]:
    """The places whose texts `extractive_summary` needs, at most `EVIDENCE`, each once.

    Those of the heaviest relations first; ``mentions`` are for members without relations among themselves.
    """
    ranked = sorted(relations, key=lambda relation: (relation.type == CO_OCCURRENCE, -relation.weight, _key(relation)))
    places = dict.fromkeys(place for relation in ranked for place in relation.evidence)
    return tuple(dict.fromkeys((*places, *mentions)))[:EVIDENCE]


def extractive_summary(
    entities: Sequence[Entity],
    relations: Sequence[Relation],
    texts: Mapping[int, str],
    *,
    mentions: Sequence[Evidence] = (),
    budget: int = BUDGET,
) -> Community:
    """The community of these entities; ``relations`` are those among them, ``texts`` those of chunks by key.

    ``summary`` is the sentences at ``sources``, one per line, in their order: those that cover most of the community's
    weight, none of them cut. Places without a text are not quoted.
    """
    ordered = tuple(sorted(entities, key=lambda entity: (-entity.importance, -entity.chunks, entity.id)))
    chosen = _chosen(_sentences(ordered, relations, mentions, texts), ordered, budget)
    return Community(
        id=community_id((entity.id for entity in ordered), relations),
        entities=tuple(entity.id for entity in ordered),
        title="、".join(entity.name for entity in ordered[:TITLE_NAMES]),
        summary="\n".join(sentence.text for sentence in chosen),
        sources=tuple(sentence.source for sentence in chosen),
        origin="extractive",
    )


def digest(community: Community) -> str:
    """The key of a model's summary: another text at its sources is another summary."""
    return blake2b(f"{community.id}\n{community.title}\n{community.summary}".encode(), digest_size=16).hexdigest()


def _sentences(
    entities: Sequence[Entity], relations: Sequence[Relation], mentions: Sequence[Evidence], texts: Mapping[int, str]
) -> list[_Sentence]:
    """Every sentence that is evidence, each text once, in an order that does not depend on that of the chunks."""
    names = {entity.id: (entity.name, *entity.aliases) for entity in entities}
    by_text: dict[str, _Sentence] = {}
    stated = _stated_in(relations, mentions, texts)
    for source in sorted(stated, key=lambda place: (place.chunk, place.start)):
        text = texts[source.chunk][source.start : source.end]
        if text and text not in by_text:
            ids = {own for own, called in names.items() if any(name and name in text for name in called)}
            ids.update(end for one, other, _ in stated[source] for end in (one, other) if end in names)
            by_text[text] = _Sentence(text, source, frozenset(ids), frozenset(stated[source]), tokens(text) + 1)
    return sorted(by_text.values(), key=lambda sentence: (sentence.cost, sentence.text))


def _stated_in(
    relations: Sequence[Relation], mentions: Sequence[Evidence], texts: Mapping[int, str]
) -> dict[Evidence, set[_Triple]]:
    """Whole sentences that are evidence, and the relations that each states; none for a mention."""
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
    stated: dict[Evidence, set[_Triple]] = {sentence[place]: set() for place in mentions if place in readable}
    for relation in relations:
        for place in readable.intersection(relation.evidence):
            stated.setdefault(sentence[place], set()).add(_key(relation))
    return stated


def _chosen(offered: Sequence[_Sentence], entities: Sequence[Entity], budget: int) -> list[_Sentence]:
    """Greedily the sentence that adds most; of equals the shorter."""
    weight = {entity.id: 0.1 + entity.importance for entity in entities}
    left = list(offered)
    covered: set[str] = set()
    stated: set[_Triple] = set()
    chosen: list[_Sentence] = []

    def gain(sentence: _Sentence) -> float:
        new = sorted(sentence.relations - stated)
        of_relations = sum(CO_OCCURRENCE_WEIGHT if kind == CO_OCCURRENCE else 1.0 for _, _, kind in new)
        total = of_relations / 10 + sum(weight[own] for own in sorted(sentence.entities - covered))
        return total * (DEPENDENT_WEIGHT if _DEPENDENT.match(sentence.text) else 1.0)

    while len(chosen) < SENTENCES:
        left = [sentence for sentence in left if sentence.cost <= budget and gain(sentence) > 0]
        if not left:
            break
        best = max(left, key=gain)  # the first of equals
        left.remove(best)
        chosen.append(best)
        covered |= best.entities
        stated |= best.relations
        budget -= best.cost
    return chosen


def _key(relation: Relation) -> _Triple:
    return relation.source, relation.target, relation.type


def _ends(text: str) -> list[int]:
    """Where sentences and lines end, with the beginning and the end of the text."""
    lines = (found.start() for found in _LINE_END.finditer(text))
    return sorted({0, len(text), *lines, *(found.end() for found in SENTENCE_END.finditer(text))})


def _whole(text: str, ends: list[int], span: Span) -> Span:
    """The whole sentences that a span touches; the end of a line ends a sentence."""
    begin = ends[bisect_right(ends, span[0]) - 1]
    stop = ends[bisect_left(ends, span[1])]
    while begin < stop and text[begin].isspace():
        begin += 1
    while stop > begin and text[stop - 1].isspace():
        stop -= 1
    return begin, stop


# ── written by a model ───────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class WrittenSummary:
    title: str
    summary: str


def llm_summary(model: ChatModel, community: Community, names: Sequence[str]) -> WrittenSummary:
    """A model's summary of a community whose members have these names; asks again once if the reply is unusable.

    Raises ModelUnavailable, or BadModelReply if the second reply is unusable, too.
    """
    prompt = _prompt(community, names)
    fault = ""
    for again in ("", "\n\n上一次的回复不能用：{}。请改正，只输出那个 JSON 对象。"):
        user = Message("user", prompt + again.format(quoted(fault)))
        try:
            return _checked(model.complete((Message("system", system_prompt("summary")), user)), prompt)
        except Malformed as error:
            fault = str(error)
        except BadModelReply as error:
            fault = error.message
    raise BadModelReply(f"模型 {model.name} 的摘要不可用：{fault}", hint="摘句摘要照用；可换一个模型再建")


def with_summary(community: Community, written: WrittenSummary, model: str) -> Community:
    """The community with a model's summary; its sources are the same."""
    return replace(community, title=written.title, summary=written.summary, origin=f"model:{model}")


def estimate(communities: Iterable[tuple[Community, Sequence[str]]]) -> LlmCost:
    """The cost of the summaries, before any call."""
    cost = LlmCost()
    for community, names in communities:
        cost += LlmCost(1, tokens(system_prompt("summary")) + tokens(_prompt(community, names)), REPLY_TOKENS)
    return cost


def _prompt(community: Community, names: Sequence[str]) -> str:
    listed = "、".join(" ".join(name.split()) for name in names[:SHOWN_NAMES])
    return f"<资料>\n实体：{quoted(listed)}\n{quoted(community.summary)}\n</资料>"


def _checked(reply: str, shown: str) -> WrittenSummary:
    """Raises Malformed for links or numbers that are not in the sources."""
    fields = read_json(reply)
    if not isinstance(fields, dict):
        raise Malformed("应为一个 JSON 对象")
    title, summary = text_of(fields.get("title"), TITLE_LIMIT), text_of(fields.get("summary"), SUMMARY_LIMIT)
    written = f"{title}\n{summary}"
    if _LINK.search(written):
        raise Malformed("不许有网址、图片或标记")
    unknown = sorted(set(_NUMBER.findall(fold(written))) - set(_NUMBER.findall(fold(shown))))
    if unknown:
        raise Malformed(f"资料里没有这些数字：{'、'.join(unknown[:5])}")
    return WrittenSummary(title, summary)
