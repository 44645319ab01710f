"""Sentences as a language model writes them, right and wrong ones, beside the passage that they cite: how many does the
check of answers drop, and how many does it mark as not found?

    python -m benchmarks.check_sentences --family fourth [--family FOLDER ...] [--totals]

A family is a folder with ``sentences.jsonl``, of ``benchmarks/answer_library`` or anywhere. Those whose name ends in
``kept`` were never looked at: of them totals are printed alone. A wrong sentence is caught if it is dropped or flagged;
what is invented without a figure contradicts nothing, and is caught if its verdict is "not found".
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from qianxun.answer.verify.citations import Sentence
from qianxun.answer.verify.sentence_check import Checked, check
from qianxun.core.answer_types import Passage

LIBRARY = Path(__file__).with_name("answer_library")


@dataclass(frozen=True)
class Row:
    sentence: str
    passages: tuple[str, ...]
    is_right: bool
    domain: str
    kind: str
    question: str = ""
    document: str = ""


def read_rows(folder: Path) -> Iterator[Row]:
    for line in (folder / "sentences.jsonl").read_text(encoding="utf-8").splitlines():
        one = json.loads(line)
        yield Row(
            one.get("sentence") or one["text"],
            tuple(one["passages"]) if "passages" in one else (one["passage"],),
            bool(one["right"] if "right" in one else one["is_right"]),
            one.get("domain") or one["genre"],
            one["kind"],
            one.get("q", ""),
            one.get("doc", ""),
        )


def checked(row: Row) -> Checked:
    passages = [
        Passage(at, row.document or "d", row.document, f"c{at}", text) for at, text in enumerate(row.passages, 1)
    ]
    return check(Sentence(row.sentence, tuple(one.number for one in passages)), passages, row.question)


def is_caught(found: Checked) -> bool:
    return not found.accepted or any(flag.kind in ("contradicted", "unsupported_number") for flag in found.flags)


def _line(name: str, found: Sequence[tuple[Row, Checked]]) -> str:
    right = [result for row, result in found if row.is_right]
    wrong = [result for row, result in found if not row.is_right]
    return (
        f"  {name:26}"
        f" right: dropped {_share(right, lambda one: not one.accepted)}"
        f", flagged {_share(right, lambda one: one.accepted and is_caught(one))}"
        f", not found {_share(right, lambda one: not is_caught(one) and one.verdict == 'not_found')}"
        f"   wrong: caught {_share(wrong, is_caught)}"
        f", of which dropped {_share(wrong, lambda one: not one.accepted)}"
        f", not found {_share(wrong, lambda one: not is_caught(one) and one.verdict == 'not_found')}"
    )


def _share(results: Sequence[Checked], is_one: Callable[[Checked], bool]) -> str:
    count = sum(map(is_one, results))
    return f"{count / len(results):.3f} ({count}/{len(results)})" if results else "–"


def print_totals(name: str, found: Sequence[tuple[Row, Checked]]) -> None:
    print(_line(name, found))
    abouts: dict[str, Callable[[Row], str]] = {
        "domain": lambda row: row.domain,
        "sort": lambda row: "right" if row.is_right else row.kind.partition(":")[0],  # contradicted, invented
        "kind": lambda row: row.kind,
    }
    for about, group_of in abouts.items():
        groups: dict[str, list[tuple[Row, Checked]]] = defaultdict(list)
        for row, result in found:
            groups[group_of(row)].append((row, result))
        for group, own in sorted(groups.items()):
            print(_line(f"  {about} {group}", own))


def print_failures(found: Sequence[tuple[Row, Checked]]) -> None:
    for row, result in found:
        if result.accepted if row.is_right else is_caught(result):
            continue
        mark = "RIGHT LOST" if row.is_right else f"WRONG PASSED ({result.verdict})"
        print(f"\n[{mark} {row.domain} {row.kind}] {row.sentence}")
        for flag in result.flags:
            print(f"    {flag.kind}: {flag.reason}")
        print(f"    {' ‖ '.join(row.passages)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--family", action="append", required=True, help="a name in answer_library, or a folder")
    parser.add_argument("--totals", action="store_true", help="no sentence is printed")
    chosen = parser.parse_args()
    for family in chosen.family:
        folder = LIBRARY / family if (LIBRARY / family).is_dir() else Path(family)
        found = [(row, checked(row)) for row in read_rows(folder)]
        print_totals(family, found)
        if not chosen.totals and not folder.name.endswith("kept"):
            print_failures(found)


if __name__ == "__main__":
    main()
