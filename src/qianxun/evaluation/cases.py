"""Cases of an evaluation set: what a search found for one, ranked by its labels; and sets as BEIR-style folders.

A label is a passage by its own words, or a whole document (`core.evaluation_types.Relevant`). A chunk is a label's when
it is of the same document and one of the two has at least half of the other: so labels outlive another way of cutting.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from qianxun.core.errors import BadInput
from qianxun.core.evaluation_types import Case, CaseOrigin, Relevant
from qianxun.core.types import Chunk
from qianxun.evaluation.dataset import CORPUS, QUERIES, load_labels

SHINGLE = 5  # characters: rare enough to be of one place, short enough for a short passage
SHARED = 0.5
QRELS = "qrels.tsv"
HEADER = "query-id\tcorpus-id\tscore\n"
NOT_TEXT = re.compile(r"\W+")


# ── rankings ─────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Labels:
    """The labels of one case, ready to be looked up in results."""

    relevant: tuple[Relevant, ...]
    shingles: tuple[frozenset[str], ...]

    @staticmethod
    def of_case(case: Case) -> Labels:
        return Labels(case.relevant, tuple(_shingles(label.text) for label in case.relevant))

    @property
    def grades(self) -> dict[str, int]:
        return {_name(at): label.grade for at, label in enumerate(self.relevant)}

    @property
    def is_of_documents(self) -> bool:
        return not any(label.text for label in self.relevant)

    def fitting(self, chunk: Chunk) -> list[str]:
        """The names, in `grades`, of the labels that this chunk is relevant to."""
        own = [at for at, label in enumerate(self.relevant) if label.doc_id == chunk.doc_id]
        text = _shingles(chunk.text) if any(self.shingles[at] for at in own) else frozenset()
        return [_name(at) for at in own if not self.relevant[at].text or _is_shared(self.shingles[at], text)]


def ranked(labels: Labels, found: Iterable[Chunk]) -> list[str]:
    """The names of labels in the order of the first chunk that is relevant to them, others in between.

    Where all labels are of whole documents, a document ranks where its best chunk does; otherwise every chunk that is
    no label's takes a place.
    """
    names: dict[str, None] = {}
    for chunk in found:
        other = f"document:{chunk.doc_id}" if labels.is_of_documents else f"chunk:{chunk.chunk_id}"
        names.update(dict.fromkeys(labels.fitting(chunk) or (other,)))
    return list(names)


def first_relevant(labels: Labels, found: Iterable[Chunk]) -> int | None:
    """The rank, from 1, of the first chunk that is relevant."""
    wanted = {name for name, grade in labels.grades.items() if grade > 0}
    return next((rank for rank, chunk in enumerate(found, 1) if wanted.intersection(labels.fitting(chunk))), None)


def is_still_there(relevant: Relevant, chunks: Iterable[Chunk]) -> bool:
    """Whether a passage is still in the chunks of its document."""
    labels = Labels.of_case(Case("", (relevant,)))
    return any(labels.fitting(chunk) for chunk in chunks)


def _name(at: int) -> str:
    return f"label:{at}"


def _shingles(text: str) -> frozenset[str]:
    """Without blanks and marks, which change with the way a table or a heading is written into a chunk."""
    letters = NOT_TEXT.sub("", text.casefold()) or text.strip()
    return frozenset(letters[at : at + SHINGLE] for at in range(max(1, len(letters) - SHINGLE + 1))) - {""}


def _is_shared(label: frozenset[str], chunk: frozenset[str]) -> bool:
    return bool(label and chunk) and len(label & chunk) >= SHARED * min(len(label), len(chunk))


# ── folders ──────────────────────────────────────────────────────────────────────────────────────


def read_cases(folder: Path) -> tuple[list[Case], tuple[str, ...]]:
    """The cases of a BEIR-style folder, and what was left out and why. The corpus is not read.

    Passages, expected answers and origins are those of a query's ``metadata``, where `write_cases` puts them; without
    them the labels are of whole documents. Raises BadInput with file and line.
    """
    labelled = load_labels(folder)
    cases = []
    for query, text in labelled.queries.items():
        extra = labelled.metadata.get(query, {})
        grades = labelled.qrels[query]
        cases.append(Case(text, _relevant(extra, grades), _text(extra, "expected"), _origin(extra)))
    return cases, labelled.notes


def _relevant(extra: Mapping[str, Any], grades: Mapping[str, int]) -> tuple[Relevant, ...]:
    """The passages of a query's metadata that belong to its judgements; and the judged documents that have none."""
    given = extra.get("passages")
    passages = [
        Relevant(str(one["doc_id"]), str(one["text"]), grades[str(one["doc_id"])])
        for one in (given if isinstance(given, list) else ())
        if isinstance(one, dict) and isinstance(one.get("text"), str) and str(one.get("doc_id")) in grades
    ]
    known = {passage.doc_id for passage in passages}
    return (*passages, *(Relevant(document, "", grade) for document, grade in grades.items() if document not in known))


def _text(extra: Mapping[str, Any], name: str) -> str:
    value = extra.get(name)
    return value if isinstance(value, str) else ""


def _origin(extra: Mapping[str, Any]) -> CaseOrigin:
    origin = extra.get("origin")
    return origin if origin in ("saved", "feedback") else "imported"


def write_cases(folder: Path, cases: Sequence[Case]) -> None:
    """``queries.jsonl`` and ``qrels.tsv``; what BEIR has no place for goes into the ``metadata`` of a query."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / QUERIES).write_text("".join(query_lines(cases)), "utf-8")
    (folder / QRELS).write_text(HEADER + "".join(judgement_lines(cases)), "utf-8")


def query_lines(cases: Iterable[Case]) -> Iterator[str]:
    for case in cases:
        passages = [{"doc_id": label.doc_id, "text": label.text} for label in case.relevant if label.text]
        extra: dict[str, Any] = {"origin": case.origin}
        extra |= {"passages": passages} if passages else {}
        extra |= {"expected": case.expected} if case.expected else {}
        yield json.dumps({"_id": str(case.id), "text": case.question, "metadata": extra}, ensure_ascii=False) + "\n"


def judgement_lines(cases: Iterable[Case]) -> Iterator[str]:
    """Of several passages of one document the best counts, as judgements are of documents here."""
    for case in cases:
        grades: dict[str, int] = {}
        for label in case.relevant:
            grades[label.doc_id] = max(label.grade, grades.get(label.doc_id, label.grade))
        for document, grade in grades.items():
            if re.search(r"[\t\r\n]", document):
                raise BadInput(
                    f"文档编号 {document[:80]!r} 里有制表符或换行，写不进 qrels.tsv", hint="从评测集里去掉这个问题"
                )
            yield f"{case.id}\t{document}\t{grade}\n"


def write_corpus(folder: Path, documents: Iterable[tuple[str, str, str]]) -> int:
    """``corpus.jsonl`` of (id, title, text). Returns how many."""
    folder.mkdir(parents=True, exist_ok=True)
    count = 0
    with (folder / CORPUS).open("w", encoding="utf-8") as file:
        for doc_id, title, text in documents:
            file.write(json.dumps({"_id": doc_id, "title": title, "text": text}, ensure_ascii=False) + "\n")
            count += 1
    return count
