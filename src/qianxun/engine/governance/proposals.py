"""A person's rating of a search becomes a proposal: a rule for the question, or a case of an evaluation set.

Nothing changes the results by itself: a proposal waits until somebody applies it, saves it as a case or dismisses it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sqlalchemy import Connection

from qianxun.core.errors import BadInput, NotFound
from qianxun.core.evaluation_types import Case, EvaluationSet, Relevant
from qianxun.core.governance.actor import current_actor
from qianxun.core.governance.corrections import AUTHOR_LIMIT, Change, Correction, CorrectionKind, NewCorrection
from qianxun.core.limits import PASSAGE_LIMIT
from qianxun.core.log_types import LogEntry
from qianxun.engine.governance.host import Host
from qianxun.records import evaluations
from qianxun.records.governance import corrections

if TYPE_CHECKING:
    from qianxun.bases.base import OpenBase

MOST: Final = 10  # chunks of one rating that rules are proposed for


async def propose_rules(engine: Host, entry: LogEntry) -> list[Correction]:
    """What the rating of a search proposes, in the place of what an earlier rating of it did.

    A chunk that was returned and called bad should not come for this question; one that was called good, or was missed,
    should come first. Without a chunk nothing is proposed.
    """
    from qianxun.indexing.correct import add_correction

    try:
        base = await engine.base(entry.knowledge_base_id)
    except NotFound:  # deleted since
        return []
    origin = f"log:{entry.id}"
    await base.records.write(lambda tx: corrections.withdraw(tx, base.id, origin))
    if entry.feedback is None:
        return []
    returned = {chunk_id for chunk_id, _ in entry.results}
    found = []
    for chunk_id in entry.feedback.chunk_ids[:MOST]:
        kind: CorrectionKind = "exclude" if entry.feedback.rating == "bad" and chunk_id in returned else "pin"
        change = Change(question=entry.query, note=entry.feedback.comment)
        new = NewCorrection(kind, (chunk_id,), "", change, "", origin)
        try:
            found.append(await add_correction(base, new, state="proposed"))
        except NotFound:  # the chunk is gone by now
            continue
    return found


async def save_as_case(base: OpenBase, tenant: str, number: int, set_name: str) -> tuple[EvaluationSet, Case]:
    """Keeps the question of a proposal with the words of its chunk as a case of an evaluation set, which is created
    where there is none; the proposal is done with. Raises BadInput for one that says what should not be found."""

    def saved(tx: Connection) -> tuple[EvaluationSet, Case]:
        one = corrections.get(tx, base.id, number)
        if one.kind != "pin" or one.anchor is None:
            raise BadInput("评测集的一题要有该找到的内容", hint="只有 pin（该排在最前的片段）能存为一题")
        kind, _, log = one.origin.partition(":")
        relevant = Relevant(one.doc_id, one.anchor.quote[:PASSAGE_LIMIT])
        case = Case(one.change.question, (relevant,), "", "feedback", int(log) if kind == "log" else None)
        found = evaluations.set_named(tx, base.id, set_name, tenant=tenant)
        (stored,) = evaluations.save_cases(tx, found.id, [case], tenant=tenant)
        if one.state == "proposed":
            by, reason = current_actor()[:AUTHOR_LIMIT], f"已存入评测集“{found.name}”"
            corrections.set_state(tx, base.id, number, "undone", by=by, reason=reason)
        return evaluations.get_set(tx, found.id, tenant=tenant), stored

    return await base.records.write(saved)
