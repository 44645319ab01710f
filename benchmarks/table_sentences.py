"""Sentences about the cells of tables, right and wrong by construction: how many right ones does the check of answers
drop, and how many wrong ones does it catch?

    python -m benchmarks.table_sentences [SET ...] [--tables 60] [--show 3]

Each says of one row or two what a cell has, how two of them differ, what they make together, or which is the largest. A
wrong one has the cell of another row or column. A set is ``imtqa``, or a folder of ``answer_library`` with tables.
"""

from __future__ import annotations

import argparse
import csv
import json
import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from qianxun.answer.verify.citations import Sentence
from qianxun.answer.verify.sentence_check import Checked, check
from qianxun.core.answer_types import Passage

DATA = Path(__file__).resolve().parents[1] / ".." / "shared" / "data" / "beir"
OWN = Path(__file__).with_name("answer_library")
SETS = ("own_open", "own_second", "own_third", "own_fourth", "imtqa")
NUMBER = re.compile(r"\d{1,9}(?:\.\d{1,4})?")
NAME = re.compile(r"[^\W\d_][^|（）()\n]{1,15}")
UNIT = re.compile(r"[（(]([^（()）\d]{1,6})[)）]\s*$")
MOST_ROWS = 40


@dataclass(frozen=True)
class Table:
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    @property
    def drawn(self) -> str:
        lines = [self.header, ("---",) * len(self.header), *self.rows]
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)

    def figures(self) -> list[int]:
        """The columns of plain numbers."""
        return [at for at in range(1, len(self.header)) if all(NUMBER.fullmatch(row[at]) for row in self.rows)]


@dataclass(frozen=True)
class Case:
    kind: str
    sentence: str
    source: str
    is_right: bool


def tables(name: str, count: int) -> Iterator[Table]:
    found = _of_imtqa() if name == "imtqa" else _of_folder(OWN / name.removeprefix("own_"))
    usable = [one for one in found if _is_usable(one)]
    random.Random(name).shuffle(usable)
    yield from usable[:count]


def _is_usable(table: Table) -> bool:
    """Its first column names its rows, each otherwise, and none within another."""
    names = [row[0] for row in table.rows]
    titles = [UNIT.sub("", title) for title in table.header]
    is_named = all(NAME.fullmatch(name) for name in (*names, *titles))
    is_distinct = not any(one in other for at, one in enumerate(names) for other in names[:at] + names[at + 1 :])
    return len(names) > 2 and is_named and is_distinct and bool(table.figures())


def _of_folder(folder: Path) -> Iterator[Table]:
    for path in sorted(folder.glob("*.csv")):
        with path.open(encoding="utf-8-sig", newline="") as file:
            lines = [tuple(cell.strip() for cell in line) for line in csv.reader(file) if any(line)]
        yield _table(lines)
    for path in sorted(folder.glob("*.md")):
        for drawn in re.findall(r"(?:^\|[^\n]*\|\s*\n?){3,}", path.read_text(encoding="utf-8"), re.MULTILINE):
            lines = [tuple(cell.strip() for cell in line.strip().strip("|").split("|")) for line in drawn.splitlines()]
            yield _table([line for line in lines if not re.fullmatch(r"[\s|:\-]*", "".join(line))])


def _of_imtqa() -> Iterator[Table]:
    with (DATA / "imtqa" / "tables.jsonl").open(encoding="utf-8") as file:
        for line in file:
            grid = json.loads(line)["grid"]
            yield _table([tuple(" ".join(str(cell).split()) for cell in row) for row in grid])


def _table(lines: Sequence[tuple[str, ...]]) -> Table:
    rows = tuple(line for line in lines[1:] if len(line) == len(lines[0])) if lines else ()
    return Table(lines[0] if lines else (), rows[:MOST_ROWS])


def cases(name: str, count: int) -> Iterator[Case]:
    chance = random.Random(name)
    for table in tables(name, count):
        for _ in range(4):
            yield from _cases(table, chance)


def _cases(table: Table, chance: random.Random) -> Iterator[Case]:
    one, two, third = chance.sample(table.rows, 3)
    column = chance.choice(table.figures())
    unit = found[1] if (found := UNIT.search(table.header[column])) else ""
    title = UNIT.sub("", table.header[column])
    a, b, c = (Decimal(row[column]) for row in (one, two, third))
    if len({a, b, c}) < 3:
        return
    top = max(table.rows, key=lambda row: Decimal(row[column]))
    right = {
        "cell": f"{one[0]}的{title}为{a}{unit}。",
        "reworded": f"就{title}来说，{one[0]}是{a}{unit}，{two[0]}则是{b}{unit}。",
        "difference": f"{one[0]}的{title}比{two[0]}{'多' if a > b else '少'}{abs(a - b)}{unit}。",
        "sum": f"{one[0]}和{two[0]}的{title}合计{a + b}{unit}。",
        "largest": f"{title}最高的是{top[0]}，为{top[column]}{unit}。",
        "between": f"{one[0]}（{a}{unit}）的{title}{'高' if a > b else '低'}于{two[0]}（{b}{unit}）。",
    }
    wrong = {
        "cell": f"{one[0]}的{title}为{b}{unit}。",
        "reworded": f"就{title}来说，{one[0]}是{b}{unit}，{two[0]}则是{a}{unit}。",
        "difference": f"{one[0]}的{title}比{two[0]}{'多' if a > b else '少'}{abs(a - b) + 7}{unit}。",
        "sum": f"{one[0]}和{two[0]}的{title}合计{a + c + b + 3}{unit}。",
        "largest": f"{title}最高的是{one[0]}，为{top[column]}{unit}。" if one is not top else "",
    }
    for sentences, is_right in ((right, True), (wrong, False)):
        for kind, sentence in sentences.items():
            if sentence:
                yield Case(kind, sentence, table.drawn, is_right)


def checked(case: Case) -> Checked:
    return check(Sentence(case.sentence, (1,)), (Passage(1, "d", "", "c", case.source),))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="*", default=SETS)
    parser.add_argument("--tables", type=int, default=60, help="of each set")
    parser.add_argument("--show", type=int, default=0, help="failures of each kind to print")
    chosen = parser.parse_args()
    for name in chosen.sets:
        counts: dict[tuple[bool, str], Counter[str]] = defaultdict(Counter)
        shown: Counter[tuple[bool, str]] = Counter()
        for case in cases(name, chosen.tables):
            key, found = (case.is_right, case.kind), checked(case)
            state = "dropped" if not found.accepted else "flagged" if found.flags else "kept"
            counts[key][state] += 1
            if (state == "dropped") == case.is_right and state != "flagged" and shown[key] < chosen.show:
                shown[key] += 1
                print(f"  {'RIGHT' if case.is_right else 'WRONG'} {state} {case.sentence}  {found.flags[:1]}")
        for is_right in (True, False):
            total: Counter[str] = sum((own for key, own in counts.items() if key[0] == is_right), Counter())
            kinds = "  ".join(
                f"{kind} {own['dropped']}+{own['flagged']}/{own.total()}"
                for (right, kind), own in counts.items()
                if right == is_right
            )
            about = "right" if is_right else "wrong"
            print(
                f"{name:12} {about}: dropped {total['dropped']}, flagged {total['flagged']} of {total.total()}  {kinds}"
            )


if __name__ == "__main__":
    main()
