"""Exact answers over tables: the shares answered exactly, answered wrongly and declined.

    python -m benchmarks.table_answers --pages DIR --csv DIR --cells DIR --sql DIR

`--pages`: HTML pages with `*.qa.json` beside them, parsed by our parsers. `--csv`: the CSV files and questions of
AffairQA, all tables offered for every question. `--cells`: IM-TQA (`tables.jsonl`, `queries.jsonl` with answer_cells),
the gold table given, its headers recognised by us. `--sql`: DuSQL questions over one table, whose SQL gives the answer.
"""

from __future__ import annotations

import argparse
import json
import re
import sqlite3
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from qianxun.answer.tables.answer import answer_from_tables
from qianxun.core.layered_types import TableAnswer, TableInput
from qianxun.core.types import Table, TableBlock
from qianxun.ingest.parse import parse
from qianxun.ingest.sandbox.limits import ParseLimits
from qianxun.ingest.tables.grid import Cell, flow, place
from qianxun.ingest.tables.read_table import read_table
from qianxun.question.table_query import plain

MOST_CELLS = 2_000_000


@dataclass(frozen=True)
class Case:
    """A question, the tables to answer it from, and the answers that are right: each a list of values."""

    question: str
    tables: tuple[TableInput, ...]
    gold: tuple[tuple[str, ...], ...]
    kind: str = ""


# ── the sets ─────────────────────────────────────────────────────────────────────────────────────


def pages(folder: Path) -> Iterator[Case]:
    for page in sorted(folder.glob("*.html")):
        asked = json.loads(page.with_suffix(".qa.json").read_text(encoding="utf-8"))
        gold = tuple(tuple(answer) for answer in asked["answers"])
        yield Case(asked["question"], _tables(page), gold)


def _tables(path: Path) -> tuple[TableInput, ...]:
    parsed = parse(path, ParseLimits())
    tables = [block.table for block in parsed.blocks if isinstance(block, TableBlock)]
    return tuple(TableInput(f"{path.stem}#{n}", table, parsed.title or path.stem) for n, table in enumerate(tables))


def affairs(folder: Path) -> Iterator[Case]:
    tables = tuple(table for path in sorted(folder.glob("*.csv")) for table in _tables(path))
    gold = {each["id"]: each["answer"] for each in json.loads((folder / "AffairQA_AffairQA.json").read_bytes())}
    for each in json.loads((folder / "AffairQA_test.json").read_bytes()):
        kind = re.sub(r"\d+$", "", each["id"])
        yield Case(each["question"], tables, (tuple(gold[each["id"]]),), kind)


def cells(folder: Path) -> Iterator[Case]:
    tables = {}
    for line in (folder / "tables.jsonl").read_text(encoding="utf-8").splitlines():
        held = json.loads(line)
        tables[held["_id"]] = held
    gold_table = dict(line.split("\t")[:2] for line in (folder / "qrels.tsv").read_text().splitlines()[1:])
    read = {name: read_table(_grid(held)) for name, held in tables.items()}
    for line in (folder / "queries.jsonl").read_text(encoding="utf-8").splitlines():
        asked = json.loads(line)
        name = gold_table[asked["_id"]]
        table = read[name]
        offered = (TableInput(name, table),) if table is not None else ()
        gold = tuple(tables[name]["cells"][cell] for cell in asked["answer_cells"])
        yield Case(asked["text"], offered, (gold,), tables[name]["table_type"])


def _grid(held: dict[str, Any]) -> Any:
    spans: dict[int, list[tuple[int, int]]] = {}
    for r, row in enumerate(held["cell_id_matrix"]):
        for c, cell in enumerate(row):
            spans.setdefault(cell, []).append((r, c))
    placed = []
    for cell, slots in spans.items():
        (top, left), (bottom, right) = min(slots), max(slots)
        text = held["cells"][cell].strip()
        placed.append((top, left, Cell(text, bottom - top + 1, right - left + 1)))
    return place(placed)


def sql(folder: Path) -> Iterator[Case]:
    tables = {}
    for line in (folder / "tables.jsonl").read_text(encoding="utf-8").splitlines():
        held = json.loads(line)
        tables[held["_id"]] = held
    gold_table = dict(line.split("\t")[:2] for line in (folder / "qrels.tsv").read_text().splitlines()[1:])
    for line in (folder / "queries.jsonl").read_text(encoding="utf-8").splitlines():
        asked = json.loads(line)
        statement = asked["sql"]
        if asked["n_tables"] != 1 or "group by" in statement or statement.count("select") != 1:
            continue
        held = tables[gold_table[asked["_id"]]]
        table = _sql_table(held)
        gold = _run_sql(statement, held, table)
        if table is not None and gold:
            yield Case(asked["text"], (TableInput(held["_id"], table),), (gold,), _sql_kind(statement))


def _sql_kind(statement: str) -> str:
    return next(
        (word for word in ("count (", "sum (", "avg (", "max (", "min (", "order by", "where") if word in statement),
        "all",
    )


def _sql_table(held: dict[str, Any]) -> Table | None:
    rows = [
        [Cell(name, header=True) for name in held["header"]],
        *([Cell(str(cell)) for cell in row] for row in held["rows"]),
    ]
    return read_table(flow(rows, MOST_CELLS), title=held["title"], header_rows=1)


def _run_sql(statement: str, held: dict[str, Any], table: Table | None) -> tuple[str, ...] | None:
    """The answer of the gold SQL over the typed rows; None where SQLite cannot run it."""
    if table is None or "TIME_NOW" in statement:
        return None
    base = sqlite3.connect(":memory:")
    quoted = ", ".join(f'"{name}"' for name in held["header"])
    base.execute(f'create table "{held["title"]}" ({quoted})')
    base.executemany(f'insert into "{held["title"]}" values ({",".join("?" * len(table.columns))})', table.rows)
    for name in sorted([*held["header"], held["title"]], key=len, reverse=True):
        statement = re.sub(rf"(?<![\w\"']){re.escape(name)}(?![\w\"'])", f'"{name}"', statement)
    statement = re.sub(r"(?<=[=<>] )(\d{4}-\d\d-\d\d)", r"'\1'", statement)
    try:
        found = base.execute(statement).fetchall()
    except (sqlite3.Error, sqlite3.Warning):
        return None
    return tuple(_shown(value) for row in found for value in row if value is not None)


def _shown(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


# ── judging ──────────────────────────────────────────────────────────────────────────────────────


def is_right(answer: TableAnswer, gold: tuple[tuple[str, ...], ...]) -> bool:
    """Whether the values are those of one of the right answers, as sets; 632 and 632分 are the same."""
    offered = [{_value(value) for value in answer.values if value is not None}]
    offered.append({_value(part) for part in re.split("[、,，;；]", answer.text)})
    offered.append({_value(answer.text)})
    shown = {_value(part) for part in answer.text.split("、")}
    offered.append(shown)
    offered.append(
        {_value(part.removesuffix("%")) for part in answer.text.split("、")}
    )  # 8.33 below 比例（%） is 8.33%
    wanted = [{_value(value) for value in answer_values if value.strip()} for answer_values in gold]
    return any(each == want for each in offered for want in wanted)


def _value(value: object) -> str:
    text = plain(str(value)).rstrip("。")
    bare = text.replace(",", "")
    try:
        return f"{float(bare):.6g}"
    except ValueError:
        pass
    if re.fullmatch(r"-?\d+(\.\d+)?%", bare):
        return f"{float(bare[:-1]) / 100:.6g}"
    day = re.fullmatch(r"(\d{4})[-/](\d{1,2})[-/](\d{1,2})", bare)
    return f"{day[1]}-{int(day[2]):02}-{int(day[3]):02}" if day else text


def measure(cases: Iterator[Case], show: str, most: int | None) -> Counter[str]:
    counted: Counter[str] = Counter()
    for number, case in enumerate(cases):
        if most is not None and number >= most:
            break
        answer = answer_from_tables(case.question, case.tables)
        outcome = "declined" if not answer.sure else "exact" if is_right(answer, case.gold) else "wrong"
        counted[outcome] += 1
        counted[f"{case.kind}: {outcome}"] += 1
        if outcome == show:
            said = answer.text if answer.sure else answer.reason
            print(f"[{case.kind}] {case.question}\n    {outcome} {answer.operation} {answer.confidence:.2f} {said!r}")
            print(f"    gold {list(case.gold[0])[:8]}  {answer.reading}  {answer.table}")
    return counted


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sets = {"pages": pages, "csv": affairs, "cells": cells, "sql": sql}
    for name in sets:
        options.add_argument(f"--{name}", type=Path)
    options.add_argument("--show", default="", choices=("", "exact", "wrong", "declined"))
    options.add_argument("--most", type=int)
    options.add_argument("--kinds", action="store_true")
    chosen = options.parse_args()
    for name, cases in sets.items():
        folder = getattr(chosen, name)
        if folder is None:
            continue
        counted = measure(cases(folder), chosen.show, chosen.most)
        total = sum(counted[outcome] for outcome in ("exact", "wrong", "declined")) or 1
        shares = "  ".join(f"{outcome} {counted[outcome] / total:6.1%}" for outcome in ("exact", "wrong", "declined"))
        print(f"{name:6} {total:5} questions  {shares}")
        if chosen.kinds:
            for key in sorted(key for key in counted if ":" in key):
                print(f"         {key} {counted[key]}")


if __name__ == "__main__":
    main()
