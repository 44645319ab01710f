"""What an exported base has beside its documents, in sections: each with a version of its own, so that one can be added
or changed without the others.

A line of the file is ``{"section": name, "row": …}``; the first line says which sections there are, and in which
version. A program that does not know one of them refuses the file: nothing is lost without a word.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from sqlalchemy import Connection

from qianxun.core.codec.plain import plain
from qianxun.core.codec.typed import fits, read_typed
from qianxun.core.evaluation_types import Case
from qianxun.core.governance.access import AccessRule
from qianxun.core.log_types import LogEntry, LogFilter
from qianxun.core.types import KnowledgeBase
from qianxun.records import evaluations, graph, logs
from qianxun.records.governance import access

LOG_PAGE: Final = 500
LOGS: Final = "logs"  # written on request only


@dataclass(frozen=True, slots=True)
class Section:
    """``write`` gives the rows of a base; ``restore`` makes them again in another, a batch at a time, given the number
    that the base had there."""

    name: str
    version: int
    write: Callable[[Connection, KnowledgeBase], Iterator[Any]]
    restore: Callable[[Connection, KnowledgeBase, int, Sequence[Any]], None]
    is_first: bool = False  # before the documents, which are to be under it from the start


def _write_rules(tx: Connection, base: KnowledgeBase) -> Iterator[Any]:
    return (plain(rule) for rule in access.rules(tx, base.id))


def _restore_rules(tx: Connection, base: KnowledgeBase, _: int, rows: Sequence[Any]) -> None:
    for row in rows:
        rule = read_typed(AccessRule, row)
        access.set_rule(tx, base.id, rule.prefix, rule.labels)


def _write_cases(tx: Connection, base: KnowledgeBase) -> Iterator[Any]:
    for found in evaluations.sets(tx, tenant=base.tenant, knowledge_base=base.id):
        yield {"set": found.name, "case": None}
        for case in evaluations.cases(tx, found.id, tenant=base.tenant):
            yield {"set": found.name, "case": plain(replace(case, id=0, log_id=None))}


def _restore_cases(tx: Connection, base: KnowledgeBase, _: int, rows: Sequence[Any]) -> None:
    known = {found.name: found.id for found in evaluations.sets(tx, tenant=base.tenant, knowledge_base=base.id)}
    cases: dict[str, list[Case]] = {}
    for row in rows:
        if not fits(row["set"], str):
            raise TypeError("the name of a set is no text")
        new = cases.setdefault(row["set"], [])
        if row["case"] is not None:
            new.append(read_typed(Case, row["case"]))
    for name, new in cases.items():
        if name not in known:
            known[name] = evaluations.create_set(tx, base.id, name, tenant=base.tenant).id
        evaluations.save_cases(tx, known[name], new, tenant=base.tenant)


def _write_logs(tx: Connection, base: KnowledgeBase) -> Iterator[Any]:
    """The newest first, as they are listed."""
    chosen, before = LogFilter(knowledge_base=base.id), None
    while page := logs.listed(tx, chosen, tenant=base.tenant, limit=LOG_PAGE, before=before):
        yield from (plain(entry) for entry in page)
        before = page[-1].id


def _restore_logs(tx: Connection, base: KnowledgeBase, there: int, rows: Sequence[Any]) -> None:
    """Chunks are named by the number of their base; there it was another one."""
    own, other = f"c_{base.id}_", f"c_{there}_"

    def named(chunk_id: str) -> str:
        return own + chunk_id.removeprefix(other) if chunk_id.startswith(other) else chunk_id

    found = []
    for entry in (read_typed(LogEntry, row) for row in reversed(rows)):
        feedback = entry.feedback
        if feedback is not None:
            feedback = replace(feedback, chunk_ids=tuple(map(named, feedback.chunk_ids)))
        results = tuple((named(chunk_id), score) for chunk_id, score in entry.results)
        own_entry = replace(entry, id=0, knowledge_base_id=base.id, tenant=base.tenant)
        found.append(replace(own_entry, results=results, feedback=feedback))
    logs.restore(tx, found)


def _write_summaries(tx: Connection, base: KnowledgeBase) -> Iterator[Any]:
    return ({"model": model, **one._asdict()} for model, one in graph.all_summaries(tx, base.id))


def _restore_summaries(tx: Connection, base: KnowledgeBase, _: int, rows: Sequence[Any]) -> None:
    """They are found by the content of their community: where the same graph is derived, they are its summaries."""
    by_model: dict[str, list[graph.Summary]] = {}
    for row in rows:
        if not fits(row, Mapping[str, str]):
            raise TypeError("a summary is no text")
        by_model.setdefault(row["model"], []).append(graph.Summary(row["community"], row["title"], row["summary"]))
    for model, written in by_model.items():
        graph.store_summaries(tx, base.id, model, written)


SECTIONS: Final = (
    Section("access_rules", 1, _write_rules, _restore_rules, is_first=True),
    Section("graph_summaries", 1, _write_summaries, _restore_summaries),
    Section("evaluation", 1, _write_cases, _restore_cases),
    Section(LOGS, 1, _write_logs, _restore_logs),
)
