"""Domains by which answers are measured: what is open, split into those that were looked at while building and those
that were not (`IS_TUNED`).

Public sets under ``../shared/data`` (sampled: the documents that answer the sampled questions, and others), and
documents and questions of our own under ``answer_library``: ``open`` was looked at, ``kept`` was written first and
not looked at since (but for what the check dropped), ``second`` was looked at after it had been measured once.
``third`` and ``third_kept`` (judgments, hospital records, rules, a university's pages, insurance, tables) were written
by somebody else; only ``third`` was looked at. So were ``fourth`` and ``fourth_kept`` (a zoo's rules, a contract, a
manual, a price list, a judgment, a hospital's record …), later and with more questions in everyday words or without an
answer; ``fourth`` was looked at after it had been measured once; and ``fifth`` and ``fifth_kept`` (annual reports, a
rental case, discharge records, pet insurance, a manual, news …), a third of whose questions have no answer; and
``sixth`` and ``sixth_kept`` (a community's rules, a pet's record, a contract, a price list …). ``seventh`` and
``seventh_kept`` are judgments and hospital records alone, asked in the manner of ``rageval_zh_fin``. ``tenth`` are
files of an office (workbooks with several sheets, Word documents, a CSV file, notes), asked for sums, lists under a
condition, the first few, follow-ups and in everyday words; it was looked at after it had been measured once.
``eleventh`` (a driving school's contract, a kindergarten's and a power company's notices, a manual for growers, rules
for lost parcels, a timetable) and ``eleventh_kept`` (other kinds of documents) were written without reading the
program, a quarter of the questions without an answer; ``eleventh`` was measured once before anybody looked at it. The
``sentences.jsonl`` are right and wrong ones for the check; ``eighth`` and ``ninth`` have nothing else.
``ingest.jsonl`` asks of the files under ``../shared/data/ingest``; it has no text of theirs beyond the fact that is
expected.
"""

from __future__ import annotations

import csv
import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.answer_cases import Asked, Library, cases
from benchmarks.check_sentences import Row, read_rows

DATA = Path(__file__).resolve().parents[1] / ".." / "shared" / "data"
BEIR, INGEST = DATA / "beir", DATA / "ingest"
OWN = Path(__file__).with_name("answer_library")
DOCUMENTS = 1_200
FOREIGN = 3  # every third question is also asked of another domain's documents, which do not answer it
SEVERAL_FIGURES = 40  # characters: a reference that is longer is an answer in sentences, no span

SETS: Mapping[str, str] = {
    "finance": "rageval_zh_fin",
    "encyclopaedia": "cmrc2018",
    "web": "dureader_robust",
    "news": "rgb_zh",
    "insurance": "insuranceqa_zh",
    "tables": "imtqa",
    "triples": "kbqa_zh_1hop",
    "two hops": "kbqa_zh_mh_train",
}
FILES: Mapping[str, tuple[str, ...]] = {
    "laws_open": ("markdown/刑法/刑法.md", "markdown/宪法/宪法.md"),
    "laws_kept": tuple(
        f"markdown/民法典/{part}.md"
        for part in ("总则", "物权编", "合同编", "人格权编", "婚姻家庭编", "继承编", "侵权责任编", "附则")
    ),
    "office_open": (
        "office_pdf/kag_test_docx.docx",
        "office_pdf/kag_long_text_1.txt",
        "office_pdf/kag_角色信息表说明.md",
    ),
    "office_kept": ("office_pdf/kag_aiwen.pdf", "office_pdf/kag_test_markdown.md"),
    "novel_kept": ("novels/儒林外史.txt",),
}
IS_TUNED = frozenset(
    [
        "finance",
        "encyclopaedia",
        "own_open",
        "own_second",
        "own_third",
        "own_fourth",
        "own_fifth",
        "own_sixth",
        "own_seventh",
        "own_tenth",
        "own_eleventh",
        "laws_open",
        "office_open",
        "pages_open",
    ]
)
NAMES = (
    *SETS,
    "medicine",
    "own_open",
    "own_kept",
    "own_second",
    "own_third",
    "own_third_kept",
    "own_fourth",
    "own_fourth_kept",
    "own_fifth",
    "own_fifth_kept",
    "own_sixth",
    "own_sixth_kept",
    "own_seventh",
    "own_seventh_kept",
    "own_tenth",
    "own_eleventh",
    "own_eleventh_kept",
    *FILES,
    "pages_open",
    "pages_kept",
)


@dataclass(frozen=True)
class Case:
    """A question. ``expect``: facts that an answer has, each in one of several writings."""

    text: str
    kind: str
    is_answerable: bool
    expect: tuple[tuple[str, ...], ...] = ()
    forbid: tuple[str, ...] = ()
    reference: str = ""  # in sentences, as a model would answer
    gold: tuple[str, ...] = ()  # ids of documents
    hidden: frozenset[str] = frozenset()
    history: tuple[str, ...] = ()


@dataclass(frozen=True)
class Domain:
    """Either a folder in the layout of BEIR, or files."""

    name: str
    cases: tuple[Case, ...]
    folder: Path | None = None
    files: tuple[Path, ...] = ()
    texts: Mapping[str, str] = field(default_factory=dict)  # of the gold documents
    sentences: tuple[Row, ...] = ()  # right and wrong ones, with the passages that they cite


def domain(name: str, limit: int, cache: Path) -> Domain:
    if name.startswith("own_"):
        return _own(name)
    if name in FILES:
        files = tuple(INGEST / path for path in FILES[name])
        rows = [row for row in _rows(OWN / "ingest.jsonl") if row["set"] == name]
        return Domain(name, tuple(map(_case, rows)), files=files)
    if name.startswith("pages_"):
        return _pages(name)
    folder = _sampled(name, limit, cache)
    return Domain(name, tuple(_beir(name, folder, limit)), folder)


# ── our own questions ────────────────────────────────────────────────────────────────────────────


def _own(name: str) -> Domain:
    folder = OWN / name.removeprefix("own_")
    files = tuple(sorted(path for path in folder.iterdir() if path.suffix != ".jsonl"))
    checks = tuple(read_rows(folder)) if (folder / "sentences.jsonl").exists() else ()
    return Domain(name, tuple(map(_case, _rows(folder / "questions.jsonl"))), files=files, sentences=checks)


def _case(row: Mapping[str, object]) -> Case:
    strings = {key: [str(one) for one in _list(row.get(key))] for key in ("expect", "forbid", "history")}
    return Case(
        str(row["q"]),
        str(row["kind"]),
        row["kind"] != "none",
        tuple(tuple(one.split("|")) for one in strings["expect"]),
        tuple(strings["forbid"]),
        str(row.get("says", "")),
        history=tuple(strings["history"]),
    )


def _list(value: object) -> Sequence[object]:
    return value if isinstance(value, list) else ()


def _pages(name: str) -> Domain:
    """Admission pages with a table each, and the questions that came with them: every second page is looked at."""
    asked = sorted((INGEST / "html").glob("*.qa.json"))[0 if name == "pages_open" else 1 :: 2]
    found = []
    for path in asked:
        row = json.loads(path.read_text(encoding="utf-8"))
        writings = tuple(dict.fromkeys("、".join(map(str, answer)) for answer in row["answers"]))
        found.append(Case(row["question"], "table", True, (writings,)))
    files = tuple(path.with_name(path.name.replace(".qa.json", ".html")) for path in asked)
    return Domain(name, tuple(found), files=files)


# ── public sets ──────────────────────────────────────────────────────────────────────────────────


def _beir(name: str, folder: Path, limit: int) -> Iterator[Case]:
    library = Library.read(folder)
    questions = {each["text"]: each for each in library.questions}
    for asked in cases(library, limit):
        if asked.making == "answerable":
            yield _of_set(asked, questions[asked.text])
        else:
            yield Case(asked.text, asked.making, False, hidden=asked.hidden)
    yield from (Case(text, "foreign", False) for text in _foreign(name, limit))


def _of_set(asked: Asked, row: Mapping[str, object]) -> Case:
    answers = [str(one) for one in _list(row.get("answers"))] or ([asked.answer] if asked.answer else [])
    facts = tuple((str(one),) for one in _list(row.get("facts")))
    if facts:
        expect = facts
    elif row.get("type") == "single" and len(answers) > 1 and name_list(answers):  # rgb_zh: every one of them is wanted
        expect = tuple((one,) for one in answers)
    else:
        expect = (tuple(answers),) if answers and len(answers[0]) <= SEVERAL_FIGURES else ()
    reference = asked.answer if "type" in row and "answers" not in row and not facts else ""
    expect = () if reference else expect
    return Case(asked.text, asked.kind or "fact", True, expect, (), reference, asked.gold)


def name_list(answers: Sequence[str]) -> bool:
    """Returns True if the answers are several things, not one in several writings."""
    return not any(one in other for one in answers for other in answers if one != other)


def _foreign(name: str, limit: int) -> list[str]:
    others = [row for row in _rows(OWN / "kept" / "questions.jsonl") if row["kind"] not in ("none", "followup")]
    chance = random.Random(name)
    return [str(row["q"]) for row in chance.sample(others, min(len(others), limit // FOREIGN))]


def _sampled(name: str, limit: int, cache: Path) -> Path:
    """A small folder of the set's layout: the documents that answer ``limit`` questions, and others."""
    folder = cache / "sets" / f"{name.replace(' ', '_')}-{limit}"
    if (folder / "qrels.tsv").exists():
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    if name == "medicine":
        _write(folder, *_medicine(limit))
        return folder
    source = BEIR / SETS[name]
    gold: dict[str, list[str]] = {}
    for line in (source / "qrels.tsv").read_text("utf-8").splitlines()[1:]:
        query, document, score = line.split("\t")[:3]
        if score != "0":
            gold.setdefault(query, []).append(document)
    chance = random.Random(17)
    queries = sorted((row for row in _rows(source / "queries.jsonl") if row["_id"] in gold), key=lambda row: row["_id"])
    chance.shuffle(queries)
    queries = queries[:limit]
    if name == "tables":
        queries = _with_cells(queries, source)
    documents = list(_rows(source / "corpus.jsonl"))
    documents = _drawn(documents, source) if name == "tables" else documents
    wanted = {one for row in queries for one in gold[row["_id"]]}
    if name == "triples":
        texts = {row["_id"]: str(row["o"]) for row in documents}
        queries = [{**row, "answers": [texts[one] for one in gold[row["_id"]] if one in texts]} for row in queries]
    if name == "two hops":
        queries = [{**row, "answers": [row["answer"]]} for row in queries]
    chance.shuffle(documents)
    documents.sort(key=lambda row: row["_id"] not in wanted)
    _write(folder, documents[: max(DOCUMENTS, len(wanted))], queries, gold)
    return folder


def _with_cells(queries: Sequence[Mapping[str, object]], source: Path) -> list[dict[str, object]]:
    """The text of the cells that answer a question of imtqa."""
    tables = {row["_id"]: row for row in _rows(source / "tables.jsonl")}
    found = []
    for row in queries:
        table = tables.get(str(row["_id"]).rsplit("_", 1)[0])
        cells = [str(one) for one in _list(table.get("cells"))] if table else []
        answers = [cells[at] for at in _list(row["answer_cells"]) if isinstance(at, int) and at < len(cells)]
        found.append({**row, "facts": [one.strip() for one in answers if one.strip()]})
    return found


def _drawn(documents: Sequence[dict[str, object]], source: Path) -> list[dict[str, object]]:
    """Tables as they are drawn in a text, their merged cells repeated."""
    grids = {row["_id"]: row["grid"] for row in _rows(source / "tables.jsonl")}
    found = []
    for row in documents:
        lines = [_list(line) for line in _list(grids.get(row["_id"]))]
        drawn = ["| " + " | ".join(str(cell).strip().replace("\n", " ") for cell in line) + " |" for line in lines]
        found.append({**row, "text": "\n".join(drawn) or row["text"]})
    return found


def _medicine(limit: int) -> tuple[list[dict[str, object]], list[dict[str, object]], dict[str, list[str]]]:
    """Answers of physicians, and the titles of the questions of patients."""
    with (INGEST / "encoding" / "toyhom_gbk.csv").open(encoding="gb18030", newline="") as file:
        rows = [row for row in csv.DictReader(file) if len(row["answer"]) > 60 and 8 <= len(row["title"]) <= 40]
    random.Random(17).shuffle(rows)
    rows = list({row["title"]: row for row in rows}.values())
    documents: list[dict[str, object]] = [
        {"_id": f"m{at}", "title": "", "text": row["answer"]} for at, row in enumerate(rows[:DOCUMENTS])
    ]
    queries: list[dict[str, object]] = [{"_id": f"q{at}", "text": row["title"]} for at, row in enumerate(rows[:limit])]
    return documents, queries, {f"q{at}": [f"m{at}"] for at in range(len(queries))}


def _write(
    folder: Path,
    documents: Sequence[Mapping[str, object]],
    queries: Sequence[Mapping[str, object]],
    gold: Mapping[str, Sequence[str]],
) -> None:
    for name, rows in (("corpus", documents), ("queries", queries)):
        text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        (folder / f"{name}.jsonl").write_text(text, encoding="utf-8")
    lines = [f"{row['_id']}\t{one}\t1" for row in queries for one in gold[str(row["_id"])]]
    (folder / "qrels.tsv").write_text("\n".join(["query-id\tcorpus-id\tscore", *lines]) + "\n", encoding="utf-8")


def _rows(path: Path) -> Iterator[dict[str, object]]:
    for line in path.read_text("utf-8").split("\n"):  # U+2028 stands within texts
        if line.strip():
            yield json.loads(line)
