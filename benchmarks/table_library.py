"""Exact answers from a whole library: all files in one base, only the question given.

    python -m benchmarks.table_library --pages DIR --csv DIR

The way is that of a user, `Engine.search_tables`: the tables are found, read and answered from. The sets are those of
`benchmarks.table_answers`, which gives every question its tables.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from benchmarks.table_answers import Case, affairs, is_right, pages
from qianxun.engine.engine import Engine
from qianxun.engine.settings import load

SETS: dict[str, tuple[str, Callable[[Path], Iterator[Case]]]] = {"pages": ("*.html", pages), "csv": ("*.csv", affairs)}


async def measured(files: Sequence[Path], cases: Iterator[Case], show: bool) -> Counter[str]:
    counted: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as data:
        async with Engine.open(settings=load(arguments={"data": data}), background=False) as engine:
            base = await engine.create_knowledge_base("all")
            await engine.add(base.id, files)
            for case in cases:
                recall = await engine.search_tables(base.id, case.question)
                answer = recall.answer
                outcome = "declined"
                if answer is not None and answer.sure:
                    outcome = "exact" if is_right(answer, case.gold) else "wrong"
                counted[outcome] += 1
                own = {each.id.split("#")[0] for each in case.tables}
                names = [Path(each.document_name).stem for each in recall.results]
                counted["found"] += bool(own.intersection(names))
                counted["first"] += bool(own.intersection(names[:1]))
                if show and outcome == "wrong" and answer is not None:
                    print(f"{case.question}\n    {answer.text!r}, gold {list(case.gold[0])[:8]}  {answer.reading}")
    return counted


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in SETS:
        options.add_argument(f"--{name}", type=Path)
    options.add_argument("--show", action="store_true", help="what was answered wrongly")
    chosen = options.parse_args()
    for name, (files, cases) in SETS.items():
        folder = getattr(chosen, name)
        if folder is None:
            continue
        counted = asyncio.run(measured(sorted(folder.glob(files)), cases(folder), chosen.show))
        total = sum(counted[outcome] for outcome in ("exact", "wrong", "declined")) or 1
        shares = "  ".join(f"{outcome} {counted[outcome] / total:6.1%}" for outcome in ("exact", "wrong", "declined"))
        print(f"{name:6} {total:5} questions  {shares}  found {counted['found']}, first {counted['first']}")


if __name__ == "__main__":
    main()
