"""Whether answers depend on how a document is typed: `python -m benchmarks.writing_styles [DOMAIN ...]`.

The documents of our own questions are written again in other styles that say the same: blanks between Chinese and
figures, full-width figures, lines broken like those of a page, half-width marks, traditional characters. The questions
stay. One row to a style: answerable and unanswerable questions declined, facts in the answers, wrong answers; then how
many questions lose a fact that the answer over the documents as written has, and how many win one. Nothing here has to
be labelled: what differs from the first row is a fault.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from opencc import OpenCC

from benchmarks.answer_domains import Outcome, outcomes
from benchmarks.domains import Domain, domain
from benchmarks.kept_searches import KeptSearches

OWN = ("own_open", "own_third", "own_seventh")
WIDTH = 36  # characters of a line of a page
TEXTS = (".txt", ".md")
_BLANK = re.compile(r"(?<=[\u4e00-\u9fff])(?=[A-Za-z0-9])|(?<=[A-Za-z0-9%])(?=[\u4e00-\u9fff])")
_FULL = {ord(mark): ord(mark) + 0xFEE0 for mark in "0123456789%"}
_HALF = str.maketrans("，：；？！（）", ",:;?!()")
_UNBROKEN = re.compile(r"\s*(?:[|#>\-*]|\d+[.、)]|[（(][一二三四五六七八九十\d]+[)）]|[^：:\n]{1,12}[：:])")


def broken(text: str) -> str:
    """Lines of prose, as a page has them; rows, headings, items of lists and fields stay whole."""
    found = []
    for line in text.split("\n"):
        if len(line) <= WIDTH or _UNBROKEN.match(line):
            found.append(line)
        else:
            found += [line[at : at + WIDTH] for at in range(0, len(line), WIDTH)]
    return "\n".join(found)


def in_lines(rewrite: Callable[[str], str]) -> Callable[[str], str]:
    """Rules of tables and marks of headings and lists stay as they are."""
    return lambda text: "\n".join(line if set(line) <= set("|-: ") else rewrite(line) for line in text.split("\n"))


STYLES: Mapping[str, Callable[[str], str]] = {
    "as written": str,
    "blanks": in_lines(lambda line: _BLANK.sub(" ", line)),
    "full width": in_lines(lambda line: line.translate(_FULL) if not line.startswith("#") else line),
    "lines": broken,
    "half width": in_lines(lambda line: line.translate(_HALF)),
    "traditional": OpenCC("s2t").convert,
}


def rewritten(asked: Domain, style: str, cache: Path) -> Domain:
    folder = cache / "styles" / style / asked.name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for path in asked.files:
        if path.suffix in TEXTS:
            (folder / path.name).write_text(STYLES[style](path.read_text("utf-8")), encoding="utf-8")
        else:
            shutil.copy(path, folder)
    return dataclasses.replace(asked, name=f"{asked.name} {style}", files=tuple(sorted(folder.iterdir())))


def row(style: str, found: Sequence[Outcome], first: Sequence[Outcome]) -> str:
    answerable = [one for one in found if one.case.is_answerable]
    others = [one for one in found if not one.case.is_answerable]
    stood, wanted = (sum(each) for each in zip(*(one.facts() for one in answerable), strict=True))
    changed = [one.facts()[0] - other.facts()[0] for one, other in zip(found, first, strict=True)]
    cells = (
        style,
        f"{sum(one.is_declined for one in answerable)} / {len(answerable)}",
        f"{sum(one.is_declined for one in others)} / {len(others)}",
        f"{stood} / {wanted}",
        str(sum(one.is_wrong for one in answerable)),
        str(sum(one < 0 for one in changed)),
        str(sum(one > 0 for one in changed)),
    )
    return "| " + " | ".join(cells) + " |"


def differing(found: Sequence[Outcome], first: Sequence[Outcome]) -> list[str]:
    changed = [
        (other, own)
        for other, own in zip(first, found, strict=True)
        if own.facts()[0] < other.facts()[0] or own.is_declined != other.is_declined
    ]
    return ["\n    ".join((f"  {own.case.text}", _shown(other), _shown(own))) for other, own in changed]


def _shown(outcome: Outcome) -> str:
    return " ".join(outcome.answer.answer.split())[:240]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("domains", nargs="*", default=OWN, metavar="DOMAIN", help=f"own_*; {', '.join(OWN)}")
    parser.add_argument("--data", type=Path, default=Path(".bench-cache/domains"), help="where indexes are kept")
    parser.add_argument("--show", action="store_true", help="the answers that differ; not with domains that are kept")
    chosen = parser.parse_args()
    print("| style | answerable declined | unanswerable declined | facts | wrong | lost | won |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    asked = [domain(name, 0, chosen.data) for name in chosen.domains]
    first: list[Outcome] = []
    for style in STYLES:
        parts = [rewritten(one, style, chosen.data) for one in asked]
        found = [
            one for part in parts for one in asyncio.run(outcomes(part, chosen.data, KeptSearches.of(None, part.name)))
        ]
        first = first or found
        print(row(style, found, first), flush=True)
        for line in differing(found, first) if chosen.show else ():
            print(line, flush=True)


if __name__ == "__main__":
    main()
