"""What a model says of several texts, held against these texts: facts of which every name stands where it is said to.

{"chunks": [{"n": 1,
             "entities": [{"name": "二甲双胍", "type": "MEDICINE"}, …],
             "relations": [{"source": "二甲双胍", "type": "治疗", "target": "糖尿病"}, …],
             "aliases": [{"name": "世界卫生组织", "alias": "世卫组织"}, …]}, …]}
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from qianxun.core.graph_types import CO_OCCURRENCE, Facts, Mention, Span, StatedAlias, Statement
from qianxun.graph.extract.positions import IN_TITLE, NAME_LIMIT, Standing, mentioned, shared, stated
from qianxun.text.chinese import fold
from qianxun.text.llm_json import Malformed, read_json, text_of

ENTITIES: Final = 80  # of one text; what a model says beyond is left out
RELATIONS: Final = 120
ALIASES: Final = 40
TYPE_LIMIT: Final = 30  # characters
CONCEPT: Final = "CONCEPT"  # not TERM, which statistics call what may be a mere word: a model knows what it names
TYPES: Final[Mapping[str, str]] = {
    "PERSON": "人物 人 姓名",
    "PLACE": "地点 地名 地区 国家 城市 LOCATION GPE",
    "ORGANIZATION": "机构 组织 公司 企业 ORG COMPANY",
    "WORK": "作品 书籍 著作 电影 法规 文件 BOOK DOCUMENT LAW",
    "EVENT": "事件 会议 活动",
    "TIME": "时间 日期 DATE",
    "DISEASE": "疾病 病症 病",
    "SYMPTOM": "症状 体征",
    "MEDICINE": "药物 药品 药 DRUG MEDICATION",
    "TREATMENT": "治疗 疗法 手术 检查",
    "PRODUCT": "产品 商品 设备 软件",
    "INDICATOR": "指标 数值 METRIC",
    CONCEPT: "术语 概念 名词 其他 TERM OTHER MISC",
}
_TYPE_OF: Final = {word: kind for kind, words in TYPES.items() for word in (kind, *words.split())}
_TYPE: Final = re.compile(r"[^\W\d_][\w· -]*")  # words alone: no address, no markup
_EMPTY_TYPES: Final = frozenset(("", CO_OCCURRENCE, "有关", "关联", "关系", "related", "related_to", "related to"))

Triple: TypeAlias = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Read:
    """What a model found in one text. ``dropped`` is how much it said that the text does not bear out."""

    facts: Facts
    dropped: int = 0


@dataclass(frozen=True, slots=True)
class Checked:
    """What of a reply can be used: the place of a text → what was read in it; ``fault`` says why others are missing."""

    read: Mapping[int, Read]
    fault: str = ""


def check_reply(reply: object, texts: Sequence[str], titles: Sequence[str] = (), *, strict: bool = True) -> Checked:
    """Holds a reply against the texts it is about, and what stands above each.

    Never raises: what cannot be used is missing from the answer.
    Strict, a text of which anything is malformed is missing; otherwise only what is malformed is left out, and counted.
    """
    try:
        said = _by_number(read_json(reply), len(texts))
    except Malformed as error:
        return Checked({}, str(error))
    read: dict[int, Read] = {}
    faults: list[str] = []
    for at, text in enumerate(texts):
        try:
            if at not in said:
                raise Malformed("缺少这一段")
            read[at] = _borne_out(_listed(said[at], strict), text, titles[at] if titles else "")
        except Malformed as error:
            faults.append(f"第 {at + 1} 段：{error}")
    return Checked(read, "；".join(faults)[:500])


def _borne_out(said: _Said, text: str, title: str) -> Read:
    """Where not one of several names stands in the text, the model speaks of another, or in another language."""
    read = facts_of(said, text, title)
    if len(said.types) > 1 and not read.facts.mentions:
        raise Malformed("列出的名称没有一个在这一段里，请照抄原文，段号从 1 开始")
    return read


def _by_number(told: dict[str, Any] | list[Any], count: int) -> dict[int, dict[str, Any]]:
    """The place of a text → what is said of it. A single text may be answered without its number."""
    items = told.get("chunks", [told] if "entities" in told else None) if isinstance(told, dict) else told
    if not isinstance(items, list):
        raise Malformed("应有数组 chunks")
    found: dict[int, dict[str, Any]] = {}
    for item in items[: 2 * count]:
        if not isinstance(item, dict):
            raise Malformed("chunks 中有不是对象的项")
        number = _number(item.get("n", 1 if count == 1 else None))
        if number < 1:
            raise Malformed("段号 n 从 1 开始")
        if number <= count:  # others were not asked about
            found.setdefault(number - 1, item)
    return found


def _number(value: object) -> int:
    if isinstance(value, str) and value.isdecimal() and len(value) < 6:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise Malformed(f"段号 n 应为整数，却是 {str(value)[:40]!r}")
    return value


# ── the lists of one text ────────────────────────────────────────────────────────────────────────


_Fields: TypeAlias = Mapping[str, str | None]  # name → what it is taken for where it is not told; None: has to be
_ENTITY: Final[_Fields] = {"name": None, "type": CONCEPT}
_RELATION: Final[_Fields] = {"source": None, "type": None, "target": None}
_ALIAS: Final[_Fields] = {"name": None, "alias": None}


@dataclass(frozen=True, slots=True)
class _Said:
    types: dict[str, str] = field(default_factory=dict)  # name → type
    relations: tuple[Triple, ...] = ()
    aliases: tuple[tuple[str, str], ...] = ()
    dropped: int = 0


def _listed(item: Mapping[str, Any], strict: bool) -> _Said:
    entities, lost = _rows(item, "entities", _ENTITY, ENTITIES, strict)
    relations, lost_too = _rows(item, "relations", _RELATION, RELATIONS, strict)
    aliases, lost_again = _rows(item, "aliases", _ALIAS, ALIASES, strict)
    return _Said(
        {each[0]: each[1] for each in reversed(entities)},  # what is said first holds
        tuple((source, kind, target) for source, kind, target in dict.fromkeys(relations)),
        tuple((name, alias) for name, alias in dict.fromkeys(aliases)),
        lost + lost_too + lost_again,
    )


def _rows(
    item: Mapping[str, Any], name: str, fields: _Fields, most: int, strict: bool
) -> tuple[list[tuple[str, ...]], int]:
    told = item.get(name, [])
    if told is None:
        told = []
    if not isinstance(told, list):
        raise Malformed(f"{name} 应为数组")
    rows: list[tuple[str, ...]] = []
    lost = max(0, len(told) - most)
    for each in told[:most]:
        try:
            rows.append(_row(each, name, fields))
        except Malformed:
            if strict:
                raise
            lost += 1
    return rows, lost


def _row(each: object, name: str, fields: _Fields) -> tuple[str, ...]:
    if not isinstance(each, dict):
        raise Malformed(f"{name} 中有不是对象的项")
    try:
        return tuple(text_of(each.get(one) or other, 3 * NAME_LIMIT) for one, other in fields.items())
    except Malformed as error:
        raise Malformed(f"{name} 的 {'、'.join(fields)} 中，{error}") from error


# ── held against the text ────────────────────────────────────────────────────────────────────────


def facts_of(said: _Said, text: str, title: str = "") -> Read:
    """What the text bears out: a name that stands neither in it nor in its title is dropped, with all that is said of
    it; and what is said of the title alone."""
    standing, above = Standing(text), Standing(title)
    named = [name for source, _, target in said.relations for name in (source, target)]
    named += [name for pair in said.aliases for name in pair]
    spans = mentioned(standing, filter(_is_name, (*said.types, *named)), above)
    called = {
        name: above.called(above.spans(name)[0]) if own == (IN_TITLE,) else standing.called(own[0])
        for name, own in spans.items()
    }
    statements = tuple(_statements(said.relations, standing, spans, called))
    aliases = tuple(_aliases(said.aliases, standing, spans, called))
    mentions = _mentions(said.types, spans, called)
    sentences = shared(standing.sentences, spans)
    kept = len(spans.keys() & said.types.keys()) + len(statements) + len(aliases)
    lost = said.dropped + len(said.types) + len(said.relations) + len(said.aliases) - kept
    return Read(Facts(mentions, statements, aliases, sentences), lost)


def _is_name(name: str) -> bool:
    """Not a number, nor a sign."""
    return len(name) <= NAME_LIMIT and any(character.isalpha() for character in name)


def _mentions(
    types: Mapping[str, str], spans: Mapping[str, Sequence[Span]], called: Mapping[str, str]
) -> tuple[Mention, ...]:
    found = {Mention(called[name], kind_of(types.get(name, "")), *span) for name, own in spans.items() for span in own}
    return tuple(sorted(found, key=lambda each: (each.start, each.end, each.name, each.type)))


def kind_of(said: str) -> str:
    """The type of an entity in one written form; one's own types are kept, what can be none is a CONCEPT."""
    said = said.strip().upper()
    if said in _TYPE_OF:
        return _TYPE_OF[said]
    return said if len(said) <= TYPE_LIMIT and _TYPE.fullmatch(said) else CONCEPT


def _statements(
    relations: Iterable[Triple],
    standing: Standing,
    spans: Mapping[str, Sequence[Span]],
    called: Mapping[str, str],
) -> Iterable[Statement]:
    for source, kind, target in relations:
        if source not in spans or target not in spans or fold(called[source]) == fold(called[target]):
            continue
        if spans[source] == spans[target] == (IN_TITLE,):
            continue
        if kind.lower() in _EMPTY_TYPES or len(kind) > TYPE_LIMIT or not _TYPE.fullmatch(kind):
            continue  # that they share a sentence is known without it
        span = stated(standing, spans[source], spans[target], kind)
        yield Statement(called[source], called[target], kind, *span)


def _aliases(
    aliases: Iterable[tuple[str, str]],
    standing: Standing,
    spans: Mapping[str, Sequence[Span]],
    called: Mapping[str, str],
) -> Iterable[StatedAlias]:
    """A text that states two names of one thing has both in one sentence."""
    for name, alias in aliases:
        if name not in spans or alias not in spans or fold(called[name]) == fold(called[alias]):
            continue
        span = stated(standing, spans[name], spans[alias])
        if span in standing.sentences and spans[alias] != (IN_TITLE,):
            yield StatedAlias(called[name], called[alias], *span)
