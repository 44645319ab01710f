"""Answers without a language model, over an ordinary search (hybrid, the first ten): are they there, and right?

    python -m benchmarks.answers [--set FOLDER] [--limit 300] [--show 20] [--ask mix] [--no-model]

How often questions that the documents answer are declined, and questions that they do not (`benchmarks.answer_cases`
says how those are made); how many of the reference answers' key figures stand in the answer; and, with the reference
answers taken for a model's, how many sentences with one digit changed are caught by the check, and how many right ones
are dropped by it. ``--ask MODE`` goes through `Engine.ask` as users do, with its grading and its second searches.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import re
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.answer_cases import MAKINGS, Asked, Library, cases
from qianxun.answer.generate import AnswerGenerator
from qianxun.answer.verify.citations import CitationReader, Sentence
from qianxun.answer.verify.grounding import Evidence, is_in
from qianxun.answer.verify.sentence_check import check
from qianxun.core.answer_types import Answer, Passage
from qianxun.core.options import QUERY_MODES, QueryMode
from qianxun.core.types import EVERYTHING, Found, In, Not
from qianxun.engine.admin.evaluate import embedding_model, evaluation_settings, ready_base
from qianxun.engine.engine import Engine
from qianxun.engine.settings import load as load_settings
from qianxun.evaluation.dataset import load as load_set
from qianxun.text.figures import figures

SET = Path(__file__).resolve().parents[1] / ".." / "shared" / "data" / "beir" / "rageval_zh_fin"
MODELS = SET.parents[2] / "models"
MUTATIONS = 500
TOP_K = 10
GOALS = {"unanswerable declined": 0.80, "answerable declined": 0.15, "key figures": 0.70, "mutations caught": 0.99}


@dataclass(frozen=True)
class Told:
    asked: Asked
    answer: Answer
    seconds: float
    found: tuple[Found, ...]


async def answered(
    folder: Path, data: Path, asked: Sequence[Asked], mode: QueryMode | None = None, *, has_model: bool = True
) -> list[Told]:
    """Every question through a search as a user's would go, and the extractive generator."""
    models = {"QIANXUN_VECTORIZATION_MODEL_FOLDERS": str(MODELS)} if has_model else {}
    settings = load_settings(arguments={"data": str(data)}, environment=models)
    dataset = load_set(folder)
    model = embedding_model(settings) if has_model else None
    told = []
    async with Engine.open(settings=evaluation_settings(settings, dataset, model), background=False) as engine:
        base, _, _ = await ready_base(engine, dataset, model, lambda count: None)
        for each in asked:
            where = Not(In("doc_id", tuple(sorted(each.hidden)))) if each.hidden else EVERYTHING
            if mode:
                answer = await engine.ask(base.id, each.text, mode=mode, top_k=TOP_K, where=where)
                told.append(Told(each, answer, answer.seconds, ()))
                continue
            recall = await engine.retrieve(base.id, each.text, top_k=TOP_K, where=where)
            started = time.perf_counter()
            answer = AnswerGenerator().generate(each.text, recall.found)
            told.append(Told(each, answer, time.perf_counter() - started, recall.found))
    return told


# ── figures ──────────────────────────────────────────────────────────────────────────────────────


def key_figures(told: Told) -> tuple[int, int]:
    """How many figures of the reference stand in the answer, and how many there are beside those of the question."""
    reference = told.asked.answer
    asked = Evidence.of((told.asked.text,))
    answer = Evidence.of((told.answer.answer, *(each.doc_name for each in told.answer.sources)))
    wanted = [each for each in figures(reference) if not is_in(each, reference, asked)]
    return sum(is_in(each, reference, answer) for each in wanted), len(wanted)


# ── a digit changed ──────────────────────────────────────────────────────────────────────────────


def cited_sentences(library: Library, asked: Sequence[Asked]) -> Iterator[tuple[str, str, tuple[Passage, ...]]]:
    """The sentences of reference answers, as a model would give them, with the passages marked as their evidence."""
    for each in asked:
        held = [(name, *library.documents[name]) for name in each.gold if name in library.documents]
        passages = tuple(Passage(n, name, title, name, text) for n, (name, title, text) in enumerate(held, start=1))
        reader = CitationReader([])
        for reading in (*reader.feed(each.answer), *reader.close()):
            if isinstance(reading, Sentence) and figures(reading.text) and passages:
                yield each.text, reading.text, passages


def mutated(sentence: str, chance: random.Random) -> str | None:
    places = [found.start() for found in re.finditer(r"\d", sentence)]
    if not places:
        return None
    at = chance.choice(places)
    digit = chance.choice([each for each in "0123456789" if each != sentence[at]])
    return sentence[:at] + digit + sentence[at + 1 :]


def mutations(library: Library, asked: Sequence[Asked], seed: int = 11) -> tuple[Counter[str], list[str]]:
    """Sentences that are right, and how many of them are caught once one digit is another."""
    chance = random.Random(seed)
    counts: Counter[str] = Counter()
    missed = []
    for question, sentence, passages in cited_sentences(library, asked):
        numbers = tuple(each.number for each in passages)
        counts["right"] += 1
        if not check(Sentence(sentence, numbers), passages, question).accepted:
            counts["right but dropped"] += 1
            continue
        wrong = mutated(sentence, chance)
        if wrong is None or counts["mutated"] == MUTATIONS:
            continue
        counts["mutated"] += 1
        checked = check(Sentence(wrong, numbers), passages, question)
        if checked.accepted and not checked.flags:
            missed.append(f"{sentence} → {wrong}")
        else:
            counts["caught"] += 1
    return counts, missed


# ── the report ───────────────────────────────────────────────────────────────────────────────────


def report(told: Sequence[Told]) -> dict[str, float]:
    by_making: dict[str, list[Told]] = defaultdict(list)
    for each in told:
        by_making[each.asked.making].append(each)
    declined = {making: _declined(by_making[making]) for making in MAKINGS if by_making[making]}
    for making, share in declined.items():
        print(f"{making:12} {len(by_making[making]):5}  declined {share:.3f}")
    answerable = by_making["answerable"]
    for kind in sorted({each.asked.kind for each in answerable}):
        own = [each for each in answerable if each.asked.kind == kind]
        stood, wanted = map(sum, zip(*map(key_figures, own), strict=True))
        print(f"  {kind:24} {len(own):4}  declined {_declined(own):.3f}  key figures {stood}/{wanted}")
    counted = [key_figures(each) for each in answerable]
    stood, wanted = map(sum, zip(*counted, strict=True))
    whole = [stood == wanted for stood, wanted in counted if wanted]
    lengths = sorted(len(each.answer.answer) for each in answerable if not each.answer.is_declined)
    seconds = sorted(each.seconds for each in told)
    print(
        f"key figures {stood}/{wanted} = {stood / max(wanted, 1):.3f}; all of a question's: {sum(whole)}/{len(whole)}"
    )
    print(f"median answer {lengths[len(lengths) // 2]} characters, made in {1000 * seconds[len(seconds) // 2]:.1f} ms")
    unanswerable = [each for each in told if each.asked.making != "answerable"]
    return {
        "answerable declined": declined["answerable"],
        "unanswerable declined": _declined(unanswerable),
        "key figures": stood / max(wanted, 1),
    }


def _declined(told: Sequence[Told]) -> float:
    return sum(each.answer.is_declined for each in told) / max(len(told), 1)


def _is_met(goal: str, value: float) -> bool:
    return value <= GOALS[goal] if goal == "answerable declined" else value >= GOALS[goal]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", type=Path, default=SET)
    parser.add_argument("--limit", type=int, default=300, help="questions of each making")
    parser.add_argument("--data", type=Path, default=Path(".bench-cache/answers"), help="where the index is kept")
    parser.add_argument("--show", type=int, default=0, help="answers to print")
    parser.add_argument("--ask", choices=QUERY_MODES, default=None, help="through Engine.ask, in this mode")
    parser.add_argument("--no-model", action="store_true", help="without the embedding model")
    chosen = parser.parse_args()
    library = Library.read(chosen.set)
    asked = cases(library, chosen.limit)
    told = asyncio.run(answered(chosen.set, chosen.data, asked, chosen.ask, has_model=not chosen.no_model))
    found = report(told)
    counts, missed = mutations(library, [each for each in asked if each.making == "answerable"])
    if counts["mutated"]:
        found["mutations caught"] = counts["caught"] / counts["mutated"]
        print(f"one digit changed {counts['mutated']}, caught {counts['caught']}")
        print(f"right sentences {counts['right']}, dropped {counts['right but dropped']}")
    for line in missed[:10]:
        print("  missed:", line)
    for each in random.Random(3).sample(told, min(chosen.show, len(told))):
        print(f"\n[{each.asked.making} {each.asked.kind}] {each.asked.text}\n  reference: {each.asked.answer[:200]}")
        print(each.answer.answer)
    for goal, value in found.items():
        print(("met    " if _is_met(goal, value) else "MISSED ") + f"{goal}: {value:.3f} (goal {GOALS[goal]})")
    return 0 if all(_is_met(goal, value) for goal, value in found.items()) else 1


if __name__ == "__main__":
    raise SystemExit(main())
