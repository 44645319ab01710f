"""Answers without a language model, one row to a domain: `python -m benchmarks.answer_domains [DOMAIN ...]`.

Every question goes through `Engine.ask` as a user's would. Columns: answerable questions declined; unanswerable ones
declined; facts and figures of the reference that are in the answer; wrong answers, as a share of all questions
(an answer with none of the facts that are expected, or with one that is not; any plain answer to what cannot be
answered is counted in the second column, not here); ``probable``: answers that are marked as uncertain. And the check
of a model's sentences: one digit changed, caught; flat contradictions, caught; right sentences dropped.
`benchmarks.domains` says what the domains are. ``--kinds`` breaks our own questions down, ``--show`` lists failures:
not to be used with domains that are kept.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks import check_sentences, contradictions
from benchmarks.answers import mutated
from benchmarks.domains import IS_TUNED, NAMES, Case, Domain, domain
from benchmarks.kept_searches import KeptSearches, digest
from qianxun.answer.assemble import assemble
from qianxun.answer.verify.citations import CitationReader, Sentence
from qianxun.answer.verify.grounding import Evidence, is_in
from qianxun.answer.verify.sentence_check import check
from qianxun.core.answer_types import Answer, Passage
from qianxun.core.types import EVERYTHING, In, Not
from qianxun.engine.admin.evaluate import embedding_model, evaluation_settings, ready_base
from qianxun.engine.engine import Engine
from qianxun.engine.settings import load as load_settings
from qianxun.evaluation.dataset import load as load_set
from qianxun.text.chinese import fold, grams
from qianxun.text.figures import figures

MODELS = Path(__file__).resolve().parents[1] / ".." / "shared" / "models"
TOP_K = 10
NEAR = 0.6  # of the pairs of characters of a reference
PASSAGES = 5  # of a search, that a reference of our own may rest on
GOALS = "≤ .10  ≥ .90  ≥ .75  < .03    –    ≥ .99  ≥ .90  ≤ .03"


@dataclass(frozen=True)
class Outcome:
    case: Case
    answer: Answer
    passages: tuple[Passage, ...]  # that its reference rests on

    @property
    def is_declined(self) -> bool:
        return self.answer.is_declined

    @property
    def is_probable(self) -> bool:
        return self.answer.form == "probable"

    def facts(self) -> tuple[int, int]:
        """How many of the facts that are expected are in the answer, and how many there are. A decline has none, though
        it repeats the question."""
        text = "" if self.is_declined else self.answer.answer
        if self.case.expect:
            present = [any(_has(text, one) for one in writings) for writings in self.case.expect]
            return sum(present), len(present)
        asked = Evidence.of((self.case.text,))
        answer = Evidence.of((text, *(each.doc_name for each in self.answer.sources if text)))
        wanted = [one for one in figures(self.case.reference) if not is_in(one, self.case.reference, asked)]
        return sum(is_in(one, self.case.reference, answer) for one in wanted), len(wanted)

    @property
    def is_wrong(self) -> bool:
        """Answered plainly, and with nothing of what is expected, or with what is not."""
        if self.is_declined or self.is_probable or not self.case.is_answerable:
            return False
        stood, _ = self.facts()
        has_forbidden = any(_has(self.answer.answer, one) for one in self.case.forbid)
        cites_gold = any(source.doc_id in self.case.gold for source in self.answer.sources)
        if self.case.expect:
            return stood == 0 or has_forbidden
        return stood == 0 and not cites_gold


def _has(answer: str, fact: str) -> bool:
    """In any writing of its figures, or most of it where it is long."""
    text, own = _bare(answer), _bare(fact)
    if own in text:
        return True
    stated = figures(fact)
    if stated and len(own) <= sum(len(_bare(one.written)) for one in stated) + 2:
        return all(is_in(one, fact, Evidence.of((answer,))) for one in stated)
    pairs = {one for one in grams(fact) if len(one) > 1}
    return len(pairs) >= 4 and len(pairs & set(grams(answer))) >= NEAR * len(pairs)


def _bare(text: str) -> str:
    return re.sub(r"[\s,，。、；：:“”\"'《》（）()\-]", "", fold(text))


# ── asking ───────────────────────────────────────────────────────────────────────────────────────


async def outcomes(asked: Domain, cache: Path, kept: KeptSearches) -> list[Outcome]:
    models = {"QIANXUN_VECTORIZATION_MODEL_FOLDERS": str(MODELS)}
    folder = cache / "files" / asked.name if asked.folder is None else cache / "index"
    settings = load_settings(arguments={"data": str(folder)}, environment=models)
    if asked.folder is None:
        async with Engine.open(settings=settings, background=False) as engine:
            return await _all(engine, await _filled(engine, asked), asked, kept)
    dataset = load_set(asked.folder)
    model = embedding_model(settings)
    async with Engine.open(settings=evaluation_settings(settings, dataset, model), background=False) as engine:
        base, _, _ = await ready_base(engine, dataset, model, lambda count: None)
        return await _all(engine, base.id, asked, kept)


async def _filled(engine: Engine, asked: Domain) -> int:
    for base in await engine.knowledge_bases():
        if base.name == asked.name:
            return base.id
    base = await engine.create_knowledge_base(asked.name)
    await engine.add(base.id, asked.files)
    return base.id


async def _all(engine: Engine, base: int, asked: Domain, kept: KeptSearches) -> list[Outcome]:
    kept.over(engine)
    found = []
    for case in asked.cases:
        where = Not(In("doc_id", tuple(sorted(case.hidden)))) if case.hidden else EVERYTHING
        history = [{"role": "user", "content": text} for text in case.history]
        answer = await engine.ask(base, case.text, mode="mix", top_k=TOP_K, where=where, history=history)
        passages: tuple[Passage, ...] = ()
        if case.reference:
            only = In("doc_id", case.gold) if case.gold else EVERYTHING
            search = partial(engine.retrieve, base, case.text, top_k=PASSAGES, where=only)
            recall = await kept.once(("retrieve", case.text, digest(only)), search)
            passages = assemble(recall.found).passages
        found.append(Outcome(case, answer, passages))
    kept.save()
    return found


# ── the check of a model's sentences ─────────────────────────────────────────────────────────────


def checked(found: Sequence[Outcome], asked: Domain) -> Counter[str]:
    chance = random.Random(11)
    counts: Counter[str] = Counter()
    for question, sentence, passages in _sentences(found, asked):
        numbers = tuple(each.number for each in passages)
        counts["right"] += 1
        if not check(Sentence(sentence, numbers), passages, question).accepted:
            counts["dropped"] += 1
            continue
        wrong = mutated(sentence, chance)
        if wrong is None:
            continue
        counts["mutated"] += 1
        result = check(Sentence(wrong, numbers), passages, question)
        counts["caught"] += bool(not result.accepted or result.flags)
    return counts


def _sentences(found: Sequence[Outcome], asked: Domain) -> Iterator[tuple[str, str, tuple[Passage, ...]]]:
    """Reference answers with what they rest on."""
    for one in found:
        if not one.case.reference or not one.passages:
            continue
        reader = CitationReader([])
        for reading in (*reader.feed(one.case.reference), *reader.close()):
            if isinstance(reading, Sentence) and figures(reading.text):
                yield one.case.text, reading.text, one.passages


def opposed(asked: Domain, count: int) -> Counter[str]:
    """Flat contradictions of a set's own sentences, and right ones; or sentences that were written for this."""
    counts: Counter[str] = Counter()
    results = [(row.is_right, check_sentences.checked(row)) for row in asked.sentences]
    if asked.folder is not None and asked.name not in ("tables", "triples", "two hops"):
        made = contradictions.cases(asked.folder.name, count, asked.folder.parent)
        results += [(case.is_right, contradictions.checked_against(case.sentence, case.sources)) for case in made]
    for is_right, result in results:
        counts["right" if is_right else "opposed"] += 1
        counts["lost"] += is_right and not result.accepted
        counts["refuted"] += not is_right and (not result.accepted or bool(result.flags))
    return counts


# ── the table ────────────────────────────────────────────────────────────────────────────────────


def row(asked: Domain, found: Sequence[Outcome], count: int) -> str:
    answerable = [one for one in found if one.case.is_answerable]
    others = [one for one in found if not one.case.is_answerable]
    stood, wanted = (sum(each) for each in zip(*(one.facts() for one in answerable), strict=True))
    counts, against = checked(found, asked), opposed(asked, count)
    cells = (
        f"{'' if asked.name in IS_TUNED else '*'}{asked.name} | {len(answerable)} / {len(others)}",
        _share(sum(one.is_declined for one in answerable), len(answerable)),
        _share(sum(one.is_declined for one in others), len(others)),
        _share(stood, wanted),
        _share(sum(one.is_wrong for one in answerable), len(answerable)),
        f"{_share(sum(one.is_probable for one in answerable), len(answerable))} / "
        f"{_share(sum(one.is_probable for one in others), len(others))}",
        _share(counts["caught"], counts["mutated"]),
        _share(against["refuted"], against["opposed"]),
        _share(counts["dropped"] + against["lost"], counts["right"] + against["right"]),
    )
    return "| " + " | ".join(cells) + " |"


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.3f}".replace("0.", ".", 1) if whole else "–"


HEAD = """\
| domain (* not looked at) | questions | answerable declined | unanswerable declined | facts in the answer | wrong \
| probable | digit caught | opposite caught | right dropped |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |"""


def by_kind(found: Sequence[Outcome]) -> Iterator[str]:
    kinds: dict[str, list[Outcome]] = defaultdict(list)
    for one in found:
        kinds[one.case.kind].append(one)
    for kind, own in sorted(kinds.items()):
        stood, wanted = (sum(each) for each in zip(*(one.facts() for one in own), strict=True))
        yield (
            f"    {kind:12} {len(own):4}  declined {sum(one.is_declined for one in own):3}"
            f"  probable {sum(one.is_probable for one in own):3}  wrong {sum(one.is_wrong for one in own):3}"
            f"  facts {stood}/{wanted}"
        )


def failures(found: Sequence[Outcome]) -> Iterator[str]:
    for one in found:
        stood, wanted = one.facts()
        is_right = stood == wanted and not one.is_declined and not one.is_wrong
        if (is_right and not one.is_probable) if one.case.is_answerable else one.is_declined:
            continue
        state = "WRONG" if one.is_wrong else one.answer.form
        expected = [writings[0] for writings in one.case.expect] or one.case.reference[:60]
        print_answer = " ".join(one.answer.answer.split())[:260]
        yield f"  [{one.case.kind} {state} {stood}/{wanted}] {one.case.text} → {expected}\n      {print_answer}"
        if one.answer.reason:
            yield f"      {one.answer.reason}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("domains", nargs="*", metavar="DOMAIN", help=f"all: {', '.join(NAMES)}")
    parser.add_argument("--limit", type=int, default=100, help="questions of each making of a public set")
    parser.add_argument("--count", type=int, default=200, help="contradictions of each public set")
    parser.add_argument("--data", type=Path, default=Path(".bench-cache/domains"), help="where indexes are kept")
    parser.add_argument("--searches", type=Path, help="a folder in which what searches found is kept for the next run")
    parser.add_argument("--kinds", action="store_true")
    parser.add_argument("--show", action="store_true")
    chosen = parser.parse_args()
    print(HEAD, flush=True)
    for name in chosen.domains or NAMES:
        asked = domain(name, chosen.limit, chosen.data)
        found = asyncio.run(outcomes(asked, chosen.data, KeptSearches.of(chosen.searches, name)))
        print(row(asked, found, chosen.count), flush=True)
        for line in (*(by_kind(found) if chosen.kinds else ()), *(failures(found) if chosen.show else ())):
            print(line, flush=True)


if __name__ == "__main__":
    main()
