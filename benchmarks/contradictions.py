"""How many flat contradictions the check of answers catches, and how many right sentences it takes for one.

    python -m benchmarks.contradictions [SET ...] [--count 500] [--show 3] [--kind KIND]

Wrong sentences are sentences of a set's own passages that say something else after one change: a denial that is put in
or left out, permission for prohibition, another quantity, a word and its opposite, two that change places around a
verb, another name of the same passage, another digit. Right ones are the sentence as it is, with a word that means the
same, without its first clause, with an introduction, two sentences in one, and, where a set has them, the reference
answers of its authors beside the passages that these marked as evidence. The changes are written here, and not taken
from the check's own lexicon. A wrong sentence counts as caught if it is dropped; those that are kept with a flag are
counted beside it.

A set is a folder of passages in the layout of BEIR, or ``court`` or ``records``: the judgments and the hospital records
of ``answer_library`` that were looked at; ``court_kept`` and ``records_kept``, of which totals alone are printed.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypeAlias

from qianxun.answer.verify.citations import Sentence
from qianxun.answer.verify.sentence_check import Checked, check
from qianxun.core.answer_types import Passage
from qianxun.text.chinese import plain_analyser

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "beir"
SETS = ("cmrc2018", "rageval_zh_fin", "dureader_robust", "rgb_zh", "insuranceqa_zh", "court", "records")
OWN = Path(__file__).with_name("answer_library")
RECORDS = re.compile("病历|入院记录|手术记录|出院|体检报告")
JUDGMENTS = re.compile("判决书")
OWN_KINDS = {"court": JUDGMENTS, "court_kept": JUDGMENTS, "records": RECORDS, "records_kept": RECORDS}
NUMBER = re.compile(r"(?<![\d.A-Za-z第(（〔\[-])\d{1,6}(?:\.\d+)?(?=[^\d.,、.)）\]A-Za-z\-])")  # that counts something
MOST_OF_EACH = 40  # sentences of a document of our own: there are few
SENTENCE = re.compile(r"(?<![^。！？!?\n])[^。！？!?\n]{12,80}[。！？!?]")  # whole ones


def pairs(text: str) -> tuple[tuple[str, str], ...]:
    return tuple((old, new) for old, _, new in (word.partition("→") for word in text.split()))


NEGATION = pairs("""
    不是→是 没有→有 不能→能 不会→会 并未→已经 尚未→已经 未能→能够 无法→能够 否认→承认有 未→已 无→有
    是→不是 有→没有 能够→不能 会→不会 已经→尚未 属于→不属于 包括→不包括 适合→不适合 已→未
    认为→不认为 构成→不构成 采纳→不采纳 系→不系 达到→未达到 出现→未出现 影响→不影响
""")
PERMISSION = pairs("""
    可以→不可以 不得→可以 应当→不应当 必须→不必 需要→不需要 禁止→允许 允许→禁止
    不可以→可以 无需→必须 不必→必须 有权→无权 无权→有权 严禁→可以 不予→予以 予以→不予
    应→不应 可→不可 需→无需 避免→可以 不宜→可以 准许→不准许 同意→不同意
""")
QUANTITY = pairs("""
    全部→部分 所有→部分 部分→全部 均→部分 都→只有部分 各→仅有一 任何→某些 每→并非每 大多数→少数 多数→少数
    一律→部分 仅→不仅 只→不只 至少→至多 最多→最少 不超过→超过 超过→不到 以上→以下 以下→以上 以内→以外
    不低于→低于 不少于→少于 最高→最低 最低→最高 最大→最小 首次→多次 少数→多数 一部分→全部 大部分→小部分 少量→大量
""")
OPPOSITES = pairs("""
    增长→下降 下降→上升 提高→降低 增加→减少 减少→增加 高于→低于 低于→高于
    最早→最晚 之前→之后 之后→之前 支持→反对 成功→失败 开始→结束 有效→无效 长期→短期 加强→削弱 优势→劣势
    早期→晚期 前期→后期 公开→秘密 直接→间接 左侧→右侧 右侧→左侧 阴性→阳性 阳性→阴性 正常→异常 从轻→从重
    主犯→从犯 从犯→主犯 升高→降低 缓解→加重 加重→减轻 成立→不成立 原告→被告 被告→原告 双侧→单侧 急性→慢性
""")
SAME = pairs("""
    不得→不能 必须→应当 应当→必须 可以→能够 增长→上升 提高→提升 下降→降低
    所有→全部 没有→无 超过→高于 需要→应该 不可以→不能 减少→降低 已经→已
    因为→由于 由于→因为 但是→但 以及→和 例如→比如 拥有→具有 成立→创立 位于→地处 担任→出任 获得→取得 目前→现在
    大约→约 曾经→曾 并且→且 如果→若 同时→并且 非常→十分 通常→一般 一般→通常 主要→主要是 使用→采用 购买→买
    认为→指出 出现→发生 导致→造成 造成→导致 进行→开展 治疗→诊治 给予→予 伴→伴有 于→在 并→同时 及→和 与→和
    支付→给付 赔偿→赔付 负担→承担 提供→给出 协议→合同 签订→订立 根据→依据 依照→按照 患者→病人 检查→检测
    服用→口服 建议→推荐 帮助→协助 方法→办法 重要→关键 能够→能 开始→起 属于→是 称为→叫做 包括→包含 发现→查见
""")
INTRODUCTIONS = ("根据资料，", "因此，", "综上，", "首先，", "具体来说，", "资料显示，")


@dataclass(frozen=True)
class Case:
    kind: str
    sentence: str
    sources: tuple[str, ...]
    is_right: bool


Change: TypeAlias = Callable[[str, random.Random, str], str | None]
"""Of a sentence, by chance, with the passage that it is from."""


def changed(words: Sequence[tuple[str, str]]) -> Change:
    """Whole words: 不是 holds 是, and 无菌 no denial."""

    def change(sentence: str, chance: random.Random, _: str) -> str | None:
        cut = [word for word, _ in plain_analyser().tagged(sentence)]
        found = [
            (at, new)
            for at, word in enumerate(cut)
            for old, new in words
            if word == old and sentence.count(old) == 1 and new not in sentence
        ]
        if not found:
            return None
        at, new = chance.choice(found)
        return "".join((*cut[:at], new, *cut[at + 1 :]))

    return change


def denied(sentence: str, chance: random.Random, _: str) -> str | None:
    """A denial before a verb that has something before and after it."""
    tagged = plain_analyser().tagged(sentence)
    places = [
        at
        for at in range(1, len(tagged) - 1)
        if tagged[at][1] == "v" and len(tagged[at][0]) == 2 and tagged[at - 1][1][:1] in "nrdt"
        and tagged[at + 1][1][:1] in "nmru" and tagged[at + 1][0] != "的"
        and not re.search("[不没未无]", sentence)
    ]  # fmt: skip
    if not places:
        return None
    at = chance.choice(places)
    words = [word for word, _ in tagged]
    return "".join((*words[:at], chance.choice(("没有", "并未", "不")), *words[at:]))


def swapped(sentence: str, chance: random.Random, _: str) -> str | None:
    """Two names or things around one verb."""
    tagged = plain_analyser().tagged(sentence)
    found = []
    for at in range(len(tagged) - 2):
        (first, kind), (verb, is_verb), (second, other) = tagged[at : at + 3]
        are_nouns = kind[:1] == other[:1] == "n" and min(len(first), len(second)) > 1
        is_done = is_verb == "v" and verb not in ("是", "为", "等于")
        if are_nouns and is_done and first != second and sentence.count(first) == sentence.count(second) == 1:
            found.append((first + verb + second, second + verb + first))
    return sentence.replace(*chance.choice(found)) if found else None


def renamed(sentence: str, chance: random.Random, source: str) -> str | None:
    """A name for another of its kind that the passage has elsewhere."""
    tags = _tags(source)
    own = [(word, tag) for word, tag in plain_analyser().tagged(sentence) if _is_name(word, tag)]
    found = [
        (word, other)
        for word, tag in own
        for other, its in tags.items()
        if its == tag
        and _is_name(other, its)
        and other not in sentence
        and word not in other
        and sentence.count(word) == 1
    ]
    return sentence.replace(*chance.choice(found)) if found else None


@cache
def _tags(source: str) -> dict[str, str]:
    return dict(plain_analyser().tagged(source))


def _is_name(word: str, tag: str) -> bool:
    return tag in ("nr", "ns", "nt", "nz", "nrt") and len(word) > 1


def another_digit(sentence: str, chance: random.Random, source: str) -> str | None:
    """The last digit of a number that counts something, so that the passage does not have the new one."""
    found = list(re.finditer(NUMBER, sentence))
    chance.shuffle(found)
    for match in found:
        old = match.group()
        new = old[:-1] + str((int(old[-1]) + chance.choice((1, 2, 3, 5, 7))) % 10)
        if float(new) and not re.search(rf"(?<![\d.]){re.escape(new)}(?![\d.])", source):
            return sentence[: match.start()] + new + sentence[match.end() :]
    return None


def without_first_clause(sentence: str, _: random.Random, __: str) -> str | None:
    rest = sentence.partition("，")[2]
    return rest if len(rest) >= 10 else None


def introduced(sentence: str, chance: random.Random, _: str) -> str | None:
    return chance.choice(INTRODUCTIONS) + sentence


def joined(sentence: str, _: random.Random, source: str) -> str | None:
    """Two sentences that follow each other in one."""
    rest = re.match(r"[^。！？!?\n]{10,60}[。！？!?]", source.partition(sentence)[2])
    return f"{sentence[:-1]}，同时，{rest.group()}" if rest else None


WRONG: dict[str, Change] = {
    "negation": changed(NEGATION),
    "denial": denied,
    "permission": changed(PERMISSION),
    "quantity": changed(QUANTITY),
    "opposites": changed(OPPOSITES),
    "swapped": swapped,
    "renamed": renamed,
    "digit": another_digit,
}
RIGHT: dict[str, Change] = {
    "as it is": lambda sentence, _, __: sentence,
    "same meaning": changed(SAME),
    "shortened": without_first_clause,
    "introduced": introduced,
    "joined": joined,
}


def checked_against(sentence: str, sources: Sequence[str]) -> Checked:
    passages = [Passage(at, f"d{at}", "", f"c{at}", text) for at, text in enumerate(sources, start=1)]
    return check(Sentence(sentence, tuple(one.number for one in passages)), passages)


def texts(name: str, data: Path = DATA) -> Iterator[str]:
    if name in OWN_KINDS:
        for folder in sorted(OWN.iterdir()):
            if folder.is_dir() and folder.name.endswith("kept") == name.endswith("kept"):
                yield from (
                    path.read_text(encoding="utf-8")
                    for path in sorted(folder.iterdir())
                    if path.suffix in (".md", ".txt") and OWN_KINDS[name].search(path.name)
                )
        return
    with (data / name / "corpus.jsonl").open(encoding="utf-8") as file:
        yield from (json.loads(line)["text"] for line in file)


def cases(name: str, count: int, data: Path = DATA) -> Iterator[Case]:
    """For each kind as many as there are, at most ``count`` in all wrong and all right ones."""
    chance = random.Random(name)
    passages = list(texts(name, data))
    chance.shuffle(passages)
    made: Counter[str] = Counter()
    of_each = MOST_OF_EACH if name in OWN_KINDS else 1
    for text in passages:
        sentences = [match.strip() for match in SENTENCE.findall(text)]
        for sentence in chance.sample(sentences, min(of_each, len(sentences))):
            for kinds, is_right in ((WRONG, False), (RIGHT, True)):
                for kind, make in kinds.items():
                    if made[kind] < count // len(kinds) and (written := make(sentence, chance, text)):
                        made[kind] += 1
                        yield Case(kind, written.strip(), (text,), is_right)
    if name not in OWN_KINDS:
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
    parser.add_argument("--kind", action="append", help="only these kinds")
    chosen = parser.parse_args()
    for name in chosen.sets:
        total, hits, flagged = (Counter[tuple[bool, str]]() for _ in range(3))
        shown: Counter[tuple[bool, str]] = Counter()
        began, calls = time.process_time(), 0
        for case in cases(name, chosen.count):
            if chosen.kind and case.kind not in chosen.kind:
                continue
            key = case.is_right, case.kind
            total[key] += 1
            checked, calls = checked_against(case.sentence, case.sources), calls + 1
            hits[key] += not checked.accepted
            flagged[key] += checked.accepted and bool(checked.flags)
            if checked.accepted != case.is_right and shown[key] < chosen.show and not name.endswith("kept"):
                shown[key] += 1
                print(f"  {case.kind}: {case.sentence} | {checked.evidence or checked.flags}")
        for is_right, about in ((False, "wrong, caught"), (True, "right, lost")):
            kinds = {
                kind: f"{hits[is_right, kind]}+{flagged[is_right, kind]}/{total[is_right, kind]}"
                for right, kind in total
                if right == is_right
            }
            every = sum(total[is_right, kind] for kind in kinds) or 1
            share = sum(hits[is_right, kind] for kind in kinds) / every
            print(f"{name:16} {about:14} {share:.3f}  {'  '.join(f'{kind} {value}' for kind, value in kinds.items())}")
        print(f"{name:16} {1000 * (time.process_time() - began) / max(calls, 1):.1f} ms of CPU a sentence", flush=True)


if __name__ == "__main__":
    main()
