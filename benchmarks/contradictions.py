"""How many flat contradictions the check of answers catches, and how many right sentences it takes for one.

    python -m benchmarks.contradictions [SET ...] [--count 500]

Wrong sentences are sentences of a set's own passages that say the opposite after one change: a word of negation, of
permission, a word and its opposite, two names that change places. Right ones are the sentence as it is, with words that
mean the same, without its first clause, and, where a set has them, the reference answers of its authors beside the
passages that these marked as evidence. The changes are written here, and not taken from the check's own lexicon.
"""

from __future__ import annotations

import argparse
import json
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from qianxun.answer.verify.citations import Sentence
from qianxun.answer.verify.sentence_check import check
from qianxun.core.answer_types import Passage
from qianxun.text.chinese import plain_analyser

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "beir"
SETS = ("cmrc2018", "rageval_zh_fin", "dureader_robust", "rgb_zh", "insuranceqa_zh")
SENTENCE = re.compile(r"[^。！？!?\n]{12,80}[。！？!?]")


def pairs(text: str) -> tuple[tuple[str, str], ...]:
    return tuple((old, new) for old, _, new in (word.partition("→") for word in text.split()))


NEGATION = pairs("""
    不是→是 没有→有 不能→能 不会→会 并未→已经 尚未→已经 未能→能够 无法→能够
    是→不是 有→没有 能够→不能 会→不会 已经→尚未 属于→不属于 包括→不包括 适合→不适合
""")
PERMISSION = pairs("""
    可以→不可以 不得→可以 应当→不应当 必须→不必 需要→不需要 禁止→允许 允许→禁止
    不可以→可以 无需→必须 不必→必须
""")
OPPOSITES = pairs("""
    增长→下降 下降→上升 提高→降低 增加→减少 减少→增加 高于→低于 低于→高于 超过→低于
    最大→最小 最高→最低 最早→最晚 以上→以下 以下→以上 之前→之后 之后→之前 全部→部分
    所有→部分 支持→反对 成功→失败 开始→结束 有效→无效 长期→短期 加强→削弱 优势→劣势
    早期→晚期 前期→后期 公开→秘密 直接→间接
""")
SAME = pairs("""
    不得→不能 必须→应当 应当→必须 可以→能够 增长→上升 提高→提升 下降→降低
    所有→全部 没有→无 超过→高于 需要→应该 不可以→不能 减少→降低 已经→已
""")


@dataclass(frozen=True)
class Case:
    kind: str
    sentence: str
    sources: tuple[str, ...]
    is_right: bool


def changed(words: Sequence[tuple[str, str]]) -> Callable[[str, random.Random], str | None]:
    def change(sentence: str, chance: random.Random) -> str | None:
        found = [(old, new) for old, new in words if sentence.count(old) == 1 and new not in sentence]
        if not found:
            return None
        old, new = chance.choice(found)
        # 不是 holds 是: only the whole word is changed.
        if any(longer != old and old in longer and longer in sentence for longer, _ in (*NEGATION, *PERMISSION)):
            return None
        return sentence.replace(old, new)

    return change


def swapped(sentence: str, chance: random.Random) -> str | None:
    """Two names around one verb."""
    tagged = plain_analyser().tagged(sentence)
    for at in range(len(tagged) - 2):
        (first, kind), (verb, is_verb), (second, other) = tagged[at : at + 3]
        names = kind[:2] in ("nr", "nt", "nz", "ns") and other[:2] in ("nr", "nt", "nz", "ns")
        if names and is_verb == "v" and first != second and sentence.count(first) == sentence.count(second) == 1:
            return sentence.replace(first + verb + second, second + verb + first)
    return None


def without_first_clause(sentence: str, chance: random.Random) -> str | None:
    rest = sentence.partition("，")[2]
    return rest if len(rest) >= 10 else None


Change = Callable[[str, random.Random], str | None]
WRONG: dict[str, Change] = {
    "negation": changed(NEGATION),
    "permission": changed(PERMISSION),
    "opposites": changed(OPPOSITES),
    "swapped": swapped,
}
RIGHT: dict[str, Change] = {
    "as it is": lambda sentence, _: sentence,
    "same meaning": changed(SAME),
    "shortened": without_first_clause,
}


def contradicted(sentence: str, sources: Sequence[str]) -> str:
    """What the check finds against a sentence; "" where it finds nothing."""
    passages = [Passage(at, f"d{at}", "", f"c{at}", text) for at, text in enumerate(sources, start=1)]
    checked = check(Sentence(sentence, tuple(one.number for one in passages)), passages)
    return "" if checked.accepted else checked.evidence or "dropped"


def cases(name: str, count: int, data: Path = DATA) -> Iterator[Case]:
    """For each kind as many as there are, at most ``count`` in all wrong and all right ones."""
    chance = random.Random(name)
    passages = [json.loads(line) for line in (data / name / "corpus.jsonl").open(encoding="utf-8")]
    chance.shuffle(passages)
    made: Counter[str] = Counter()
    for passage in passages:
        sentences = SENTENCE.findall(passage["text"])
        if not sentences:
            continue
        sentence = chance.choice(sentences).strip()
        for kinds, is_right in ((WRONG, False), (RIGHT, True)):
            for kind, make in kinds.items():
                if made[kind] < count // len(kinds) and (text := make(sentence, chance)) and text.strip():
                    made[kind] += 1
                    yield Case(kind, text, (passage["text"],), is_right)
    yield from references(name, count, data)


def references(name: str, count: int, data: Path = DATA) -> Iterator[Case]:
    """What the authors of a set answer, beside the passages that they marked as evidence."""
    questions = [json.loads(line) for line in (data / name / "queries.jsonl").open(encoding="utf-8")]
    answers = {one["_id"]: one["answer"] for one in questions if one.get("answer")}
    if not answers:
        return
    texts = {one["_id"]: one["text"] for one in map(json.loads, (data / name / "corpus.jsonl").open(encoding="utf-8"))}
    gold: dict[str, list[str]] = {}
    for line in (data / name / "qrels.tsv").read_text(encoding="utf-8").splitlines():
        query, passage, score = line.split("\t")[:3]
        if query in answers and passage in texts and score not in ("0", "score"):
            gold.setdefault(query, []).append(texts[passage])
    for query in random.Random(name).sample(sorted(gold), min(count, len(gold))):
        for sentence in re.findall(r"[^。！？!?\n]+[。！？!?]?", answers[query]):
            yield Case("reference", sentence, tuple(gold[query]), True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="*", default=SETS)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--show", type=int, default=0, help="so many of the mistaken ones of each kind")
    chosen = parser.parse_args()
    for name in chosen.sets:
        total, hits = Counter[tuple[bool, str]](), Counter[tuple[bool, str]]()
        for case in cases(name, chosen.count):
            key = case.is_right, case.kind
            total[key] += 1
            against = contradicted(case.sentence, case.sources)
            hits[key] += bool(against)
            if bool(against) == case.is_right and total[key] - hits[key] <= chosen.show and hits[key] <= chosen.show:
                print(f"  {case.kind}: {case.sentence} | {against}")
        for is_right, about in ((False, "wrong, caught"), (True, "right, lost")):
            kinds = {
                kind: f"{hits[is_right, kind]}/{total[is_right, kind]}" for right, kind in total if right == is_right
            }
            every = sum(total[is_right, kind] for kind in kinds) or 1
            share = sum(hits[is_right, kind] for kind in kinds) / every
            print(f"{name:16} {about:14} {share:.3f}  {'  '.join(f'{kind} {value}' for kind, value in kinds.items())}")


if __name__ == "__main__":
    main()
