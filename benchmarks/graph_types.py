"""How often names get the right type of the medical lexicon without a model, on labels that come from data.

    python -m benchmarks.graph_types ../shared/data/beir/kbqa_zh_1hop

The labels are distant: what has 主要症状 or 常见病因 is a disease, what has 主要适用症 a medicine, and 就诊科室
names departments. Half of the names, by a hash, may be looked at while the lexicon is written (``--part build
--show``); the figures are those of the other half. Names of lines without any such predicate are the control.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path

from qianxun.graph.extract.chunk import extract_facts
from qianxun.graph.extract.domain import load_domain
from qianxun.graph.extract.triples import list_items
from qianxun.text.chinese import Analyser

SET = Path("../shared/data/beir/kbqa_zh_1hop")
SUBJECTS = {
    "DISEASE": "常见症状 主要症状 常见病因 主要病因 常见发病部位 发病部位 疾病分类 中医病名",
    "MEDICINE": "主要适用症 药品类型 是否处方药 主要用药禁忌 药品名称 药品类别 特殊药品 药品性状",
}
OBJECTS = {
    "SYMPTOM": "常见症状 主要症状",
    "DEPARTMENT": "就诊科室 所属科室",
    "BODY_PART": "常见发病部位 发病部位 患病部位",
}
MEDICAL = ("症", "病", "药", "治", "科室", "诊", "检查", "部位", "并发", "手术", "不良反应", "禁忌")
LONGEST = 10  # characters of a name inside an object: longer ones are phrases
CONTROL = 10  # one of so many of the other names


def part_of(name: str) -> str:
    return "held-out" if blake2b(name.encode(), digest_size=1).digest()[0] % 2 else "build"


def labelled(rows: list[dict[str, str]]) -> Iterator[tuple[str, str, str]]:
    """(name, its type, the text it stands in)"""
    for row in rows:
        for labels, name in ((SUBJECTS, row["s"]), (OBJECTS, row["o"])):
            kind = next((kind for kind, predicates in labels.items() if row["p"] in predicates.split()), "")
            if not kind:
                continue
            items = [name]
            if labels is OBJECTS:
                items = [name[slice(*span)] for span in list_items(name, (0, len(name)))] or [name]
            for item in items:
                if labels is SUBJECTS or len(item) <= LONGEST:
                    yield item, kind, row["text"]


def unlabelled(rows: list[dict[str, str]]) -> Iterator[tuple[str, str, str]]:
    medical = {row["s"] for row in rows if any(word in row["p"] for word in MEDICAL)}
    for row in rows:
        if row["s"] not in medical and blake2b(row["text"].encode(), digest_size=2).digest()[0] % CONTROL == 0:
            yield row["s"], "", row["text"]
            yield row["o"], "", row["text"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("set", nargs="?", type=Path, default=SET)
    parser.add_argument("--part", choices=("build", "held-out"), default="held-out")
    parser.add_argument("--show", action="store_true", help="the names with another type; of the build part only")
    arguments = parser.parse_args()
    lines = (arguments.set / "corpus.jsonl").read_text("utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    analyser, domain = Analyser(), load_domain()
    types = {*domain.words.values(), *domain.words_in_context.values(), *domain.endings.values()}
    counts: Counter[tuple[str, str]] = Counter()
    seen: set[tuple[str, str]] = set()
    for name, kind, text in (*labelled(rows), *unlabelled(rows)):
        if part_of(name) != arguments.part or (name, kind) in seen:
            continue
        seen.add((name, kind))
        found = {mention.type for mention in extract_facts(text, analyser=analyser).mentions if mention.name == name}
        given = next(iter(found & types), "")
        counts[kind, given] += 1
        if arguments.show and arguments.part == "build" and given != kind:
            print(f"{name}\t{kind}\t{given}", file=sys.stderr)
    json.dump(figures(counts), sys.stdout, ensure_ascii=False, indent=2)
    print()


def figures(counts: Counter[tuple[str, str]]) -> dict[str, object]:
    told: dict[str, object] = {}
    for kind in sorted({kind for kind, _ in counts if kind}):
        names = sum(count for (label, _), count in counts.items() if label == kind)
        given = sum(count for (label, type), count in counts.items() if label and type == kind)
        right = counts[kind, kind]
        told[kind] = {
            "names": names,
            "right": right,
            "recall": round(right / names, 3),
            "precision": round(right / given, 3) if given else None,
            "without_type": counts[kind, ""],
        }
    control = sum(count for (label, _), count in counts.items() if not label)
    wrong = sum(count for (label, type), count in counts.items() if not label and type)
    return {**told, "control": {"names": control, "with_medical_type": wrong}}


if __name__ == "__main__":
    main()
