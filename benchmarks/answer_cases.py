"""Questions for `benchmarks.answers`: those that a set's documents answer, and honest ones that they do not.

A question without an answer is made in four ways, each checked against the corpus:

- ``removed``: the set's own question, with every passage hidden that its authors marked as evidence, that is a near
  copy of one, or that holds the reference answer;
- ``year``: its year is another one, which no passage of that subject names;
- ``subject``: it asks of a subject that no passage names, made of the parts of two others;
- ``aspect``: it asks of something that no passage of that subject speaks of (`ASPECTS`, written for this).
"""

from __future__ import annotations

import json
import random
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from qianxun.text.chinese import grams

Making = Literal["answerable", "removed", "year", "subject", "aspect"]
MAKINGS: tuple[Making, ...] = ("answerable", "removed", "year", "subject", "aspect")
SEVERAL = ("multi_hop", "multi_document", "summary")  # of which other passages may tell enough
NEAR_COPY = 0.6
HOLDS = 0.8

ASPECTS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("{}的股票代码是多少？", ("股票代码", "证券代码")),
    ("{}拥有多少件注册商标？", ("商标",)),
    ("{}董事长毕业于哪所大学？", ("毕业",)),
    ("{}员工的平均年龄是多少岁？", ("平均年龄", "年龄")),
    ("{}的员工食堂由哪家供应商承包？", ("食堂",)),
    ("{}的办公楼年租金是多少？", ("租金", "房租")),
    ("{}在海外设立了多少家分支机构？", ("分支机构", "海外分公司")),
    ("{}聘请的会计师事务所叫什么名字？", ("会计师事务所",)),
    ("{}的产品退货率是多少？", ("退货",)),
    ("{}的广告代言人是谁？", ("代言",)),
    ("{}的客服热线平均接听时长是多少？", ("热线", "接听")),
    ("{}的总部大楼建于哪一年？", ("大楼", "总部大厦")),
    ("{}每年为员工提供多少天年假？", ("年假", "假期")),
    ("{}的仓库面积有多大？", ("仓库",)),
    ("{}的女性员工占比是多少？", ("女性",)),
    ("{}的吉祥物叫什么？", ("吉祥物",)),
    ("{}的班车路线有哪些？", ("班车",)),
    ("{}因专利侵权向谁支付了赔偿金？", ("侵权",)),
    ("{}的机房发生火灾的原因是什么？", ("火灾",)),
    ("{}如何处理食品安全投诉？", ("食品安全",)),
    ("{}如何管理其加盟店的装修标准？", ("加盟", "装修")),
    ("{}为什么取消了年终晚会？", ("晚会", "年会")),
    ("{}是如何通过直播带货来清理库存的？", ("直播", "库存")),
    ("结合{}的报告，总结其在宠物用品市场的布局。", ("宠物",)),
    ("结合{}的报告，总结其足球俱乐部的赞助情况。", ("足球",)),
    ("结合{}的报告，总结其卫星发射计划的进展。", ("卫星",)),
)


@dataclass(frozen=True)
class Asked:
    """A question, what hides from it, and what its authors answer."""

    text: str
    making: Making
    kind: str
    answer: str = ""
    hidden: frozenset[str] = frozenset()
    gold: tuple[str, ...] = ()


@dataclass(frozen=True)
class Library:
    """A set as it lies on disk."""

    documents: Mapping[str, tuple[str, str]]  # id → title, text
    questions: tuple[dict[str, str], ...]
    gold: Mapping[str, tuple[str, ...]]

    @staticmethod
    def read(folder: Path) -> Library:
        documents = {each["_id"]: (each.get("title", ""), each["text"]) for each in _rows(folder / "corpus.jsonl")}
        gold: dict[str, list[str]] = defaultdict(list)
        for line in (folder / "qrels.tsv").read_text("utf-8").splitlines()[1:]:
            query, document, *_ = line.split("\t")
            gold[query].append(document)
        questions = tuple(each for each in _rows(folder / "queries.jsonl") if each["_id"] in gold)
        return Library(documents, questions, {query: tuple(found) for query, found in gold.items()})


def _rows(path: Path) -> Iterator[dict[str, str]]:
    for line in path.read_text("utf-8").split("\n"):  # U+2028 stands within texts
        if line.strip():
            yield json.loads(line)


def cases(library: Library, limit: int, seed: int = 7) -> list[Asked]:
    """``limit`` questions of the set as they are, and as many made unanswerable in each way as the set allows."""
    chance = random.Random(seed)
    sample = list(library.questions)
    chance.shuffle(sample)
    pairs = {name: _pairs(text) for name, (_, text) in library.documents.items()}
    found = [_as_it_is(library, each) for each in sample[:limit]]
    facts = [each for each in sample if each.get("type", "") not in SEVERAL]
    found += [_removed(library, each, pairs) for each in facts[:limit]]
    found += list(_other_year(library, facts))[:limit]
    found += list(_other_subject(library, facts))[:limit]
    found += _aspects(library, chance)[:limit]
    return found


def _as_it_is(library: Library, question: Mapping[str, str]) -> Asked:
    gold = library.gold[question["_id"]]
    return Asked(question["text"], "answerable", question.get("type", ""), _reference(question), gold=gold)


def _reference(question: Mapping[str, str]) -> str:
    answers = question.get("answers")
    return question.get("answer", "") or (str(answers[0]) if answers else "")


def _pairs(text: str) -> frozenset[str]:
    return frozenset(gram for gram in grams(text) if len(gram) > 1)


def _removed(library: Library, question: Mapping[str, str], pairs: Mapping[str, frozenset[str]]) -> Asked:
    gold = library.gold[question["_id"]]
    answer = _reference(question)
    told = _pairs(answer)
    hidden = set(gold)
    for name, (title, text) in library.documents.items():
        copies = any(_common(pairs[name], pairs[each]) > NEAR_COPY for each in gold if each in pairs)
        is_own = not title or title in question["text"]
        holds = bool(answer) and (
            answer.rstrip("。.") in text or (len(told) >= 3 and _within(told, pairs[name]) >= HOLDS)
        )
        if copies or (is_own and holds):
            hidden.add(name)
    return Asked(question["text"], "removed", question.get("type", ""), answer, frozenset(hidden), gold)


def _common(left: frozenset[str], right: frozenset[str]) -> float:
    return len(left & right) / max(1, min(len(left), len(right)))


def _within(part: frozenset[str], whole: frozenset[str]) -> float:
    return len(part & whole) / max(1, len(part))


def _other_year(library: Library, questions: Sequence[Mapping[str, str]]) -> Iterator[Asked]:
    texts = _texts_by_title(library)
    for question in questions:
        found = re.search(r"(?:19|20)\d\d(?=年)", question["text"])
        title = next((each for each in texts if each and each in question["text"]), "")
        if found is None or not title:
            continue
        year = next(str(each) for each in (2012, 2009, 2006, 2003) if str(each) not in texts[title])
        yield Asked(question["text"].replace(found.group(), year), "year", question.get("type", ""))


def _other_subject(library: Library, questions: Sequence[Mapping[str, str]]) -> Iterator[Asked]:
    texts = _texts_by_title(library)
    titles = sorted(each for each in texts if len(each) >= 6)
    whole = "\n".join(texts.values())
    for at, question in enumerate(questions):
        title = next((each for each in titles if each in question["text"]), "")
        if not title:
            continue
        other = titles[(titles.index(title) + 1 + at) % len(titles)]
        made = other[:2] + title[2:]
        if made not in whole and made not in texts:
            yield Asked(question["text"].replace(title, made), "subject", question.get("type", ""))


def _aspects(library: Library, chance: random.Random) -> list[Asked]:
    texts = _texts_by_title(library)
    found = [
        Asked(form.format(title), "aspect", "aspect")
        for title in sorted(texts)
        if title
        for form, words in ASPECTS
        if not any(word in texts[title] for word in words)
    ]
    chance.shuffle(found)
    return found


def _texts_by_title(library: Library) -> dict[str, str]:
    texts: dict[str, str] = defaultdict(str)
    for title, text in library.documents.values():
        texts[title] += f"{title}\n{text}\n"
    return texts
