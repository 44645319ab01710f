"""The evaluation sets of a service: what `qianxun.engine.admin.evaluation_sets.Evaluations` does, over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from qianxun.core.codec.plain import plain
from qianxun.core.evaluation_types import Case, CaseResult, EvaluationRun, EvaluationSet, RunComparison
from qianxun.core.ports import nothing
from qianxun.doors.client.connection import Request
from qianxun.doors.client.payloads import Ask, Data, read_pages, read_saved_case, value_of, values_of

SETS = "v1/evaluation-sets"
RUNS = "v1/evaluation-runs"
PAGE = 1000
SET, RUN = value_of(EvaluationSet), value_of(EvaluationRun)
LOOK_SECONDS = 0.5  # between two looks at a run
Sets: TypeAlias = list[EvaluationSet]


@dataclass(frozen=True, slots=True)
class ServiceEvaluations:
    """Labelled questions about the bases of a key's tenant."""

    ask: Ask

    async def sets(self, knowledge_base: int) -> Sets:
        request = Request("GET", f"v1/knowledge-bases/{knowledge_base}/evaluation-sets")
        return await self.ask(request, values_of(EvaluationSet))

    async def create(self, knowledge_base: int, name: str) -> EvaluationSet:
        request = Request("POST", f"v1/knowledge-bases/{knowledge_base}/evaluation-sets", {"name": name})
        return await self.ask(request, SET)

    async def get(self, set_id: int) -> EvaluationSet:
        return await self.ask(Request("GET", f"{SETS}/{set_id}"), SET)

    async def remove(self, set_id: int) -> None:
        await self.ask(Request("DELETE", f"{SETS}/{set_id}"), lambda _: None)

    async def cases(self, set_id: int) -> list[Case]:
        return await read_pages(self.ask, f"{SETS}/{set_id}/cases", values_of(Case), page=PAGE)

    async def add_cases(self, set_id: int, cases: Sequence[Case]) -> list[Case]:
        """A thousand at a time: all of these or none."""
        added: list[Case] = []
        for start in range(0, len(cases), PAGE):
            body = {"cases": [_written(case) for case in cases[start : start + PAGE]]}
            request = Request("POST", f"{SETS}/{set_id}/cases", body, repeatable=True)
            added += await self.ask(request, values_of(Case))
        return added

    async def remove_case(self, set_id: int, case_id: int) -> None:
        await self.ask(Request("DELETE", f"{SETS}/{set_id}/cases/{case_id}"), lambda _: None)

    async def save_case(
        self,
        knowledge_base: int,
        question: str,
        *,
        chunk_ids: Sequence[str] = (),
        doc_ids: Sequence[str] = (),
        set_name: str = "",
        expected: str = "",
    ) -> tuple[EvaluationSet, Case]:
        """Keeps a question with the chunks, or whole documents, that should be found."""
        given = {"chunk_ids": list(chunk_ids), "doc_ids": list(doc_ids), "set_name": set_name, "expected": expected}
        body = {"question": question} | {name: value for name, value in given.items() if value}
        return await self.ask(_saving(knowledge_base, body), read_saved_case)

    async def save_logged(
        self, knowledge_base: int, log_id: int, *, chunk_ids: Sequence[str] = (), set_name: str = ""
    ) -> tuple[EvaluationSet, Case]:
        """Keeps a logged search, with the chunks of its feedback where none are given."""
        given = {"log_id": log_id, "chunk_ids": list(chunk_ids), "set_name": set_name}
        body = {name: value for name, value in given.items() if value}
        return await self.ask(_saving(knowledge_base, body), read_saved_case)

    async def start(
        self, set_id: int, mode: str, *, name: str = "", choices: Mapping[str, Any] | None = None
    ) -> EvaluationRun:
        """Begins to measure a way of searching; `run` shows how far it is."""
        body = {"mode": mode, "name": name, "choices": dict(choices or {})}
        return await self.ask(Request("POST", f"{SETS}/{set_id}/runs", body), RUN)

    async def measure(
        self,
        set_id: int,
        mode: str,
        *,
        name: str = "",
        choices: Mapping[str, Any] | None = None,
        watch: Callable[[int], None] = nothing,
    ) -> EvaluationRun:
        """`start`, and looks again until it has ended."""
        run = await self.start(set_id, mode, name=name, choices=choices)
        while run.is_active:
            await asyncio.sleep(LOOK_SECONDS)
            done, run = run.done, await self.run(run.id)
            watch(run.done - done)
        return run

    async def runs(self, set_id: int) -> list[EvaluationRun]:
        return await self.ask(Request("GET", f"{SETS}/{set_id}/runs"), values_of(EvaluationRun))

    async def run(self, run_id: int) -> EvaluationRun:
        return await self.ask(Request("GET", f"{RUNS}/{run_id}"), RUN)

    async def cancel(self, run_id: int) -> EvaluationRun:
        return await self.ask(Request("POST", f"{RUNS}/{run_id}/cancel", repeatable=True), RUN)

    async def remove_run(self, run_id: int) -> None:
        await self.ask(Request("DELETE", f"{RUNS}/{run_id}"), lambda _: None)

    async def results(self, run_id: int, *, metric: str = "ndcg@10") -> list[CaseResult]:
        """What a run achieved on each case, the worst first."""
        request = Request("GET", f"{RUNS}/{run_id}/results", params={"metric": metric, "limit": "20000"})
        return await self.ask(request, values_of(CaseResult))

    async def compare(self, before: int, after: int, *, metric: str = "ndcg@10") -> RunComparison:
        request = Request("GET", f"{RUNS}/{before}/compare/{after}", params={"metric": metric})
        return await self.ask(request, value_of(RunComparison))


def _saving(knowledge_base: int, body: Data) -> Request:
    return Request("POST", f"v1/knowledge-bases/{knowledge_base}/evaluation-cases", body, repeatable=True)


def _written(case: Case) -> dict[str, Any]:
    return {"question": case.question, "relevant": plain(case.relevant), "expected": case.expected}
