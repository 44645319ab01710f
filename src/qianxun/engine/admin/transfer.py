"""One knowledge base as a file, and back: documents, chunks, vectors, questions, settings, corrections, names that
people merged, what models read and wrote for the graph.

The file is JSON, a line each, compressed: first what it is, then a document a line, other things in sections
(`governance.sections`: labels' rules, evaluation sets, summaries, on request the log), last how many there were and a
checksum of all before. It is written and read as a stream. What can be derived without a call to a model (index,
words, facts by rules) is not in it. `export_base` and `import_base` are the functions to read first.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import json
import os
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from secrets import token_hex
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np
from sqlalchemy import Connection, select

from qianxun.bases.base import OpenBase
from qianxun.core.codec.plain import plain, read
from qianxun.core.codec.typed import fits, read_typed
from qianxun.core.errors import BadInput, Refused
from qianxun.core.governance.corrections import QUESTION_ORIGIN, Correction, CorrectionQuery
from qianxun.core.graph_types import Alias, Facts
from qianxun.core.limits import MIB, NAME_LIMIT
from qianxun.core.model_types import is_ref
from qianxun.core.ports import nothing
from qianxun.core.system.durable import sync
from qianxun.core.types import (
    Accepted,
    Corrected,
    Document,
    KnowledgeBase,
    Piece,
    Prepared,
    QAPair,
    Question,
    Submission,
    Vectors,
)
from qianxun.engine.admin.transfer_file import FORMAT, OWN, Limits, checked, lines, understood
from qianxun.engine.engine import Engine
from qianxun.engine.governance.sections import LOGS, SECTIONS
from qianxun.indexing.prepare import embedded
from qianxun.records import bases, chunk_texts, documents, graph, tables
from qianxun.records.database.counters import allocate
from qianxun.records.database.disk_errors import is_disk_full
from qianxun.records.governance import access, audit, corrections
from qianxun.records.schema import (
    DocumentRow,
    PairRow,
    PairVectorRow,
    VectorRow,
    VersionRow,
)
from qianxun.records.stored_vectors import SINGLE, unpack_vector

VERSION: Final = 5
WITHOUT_FACTS: Final = 4  # a base of which no model has read anything is written so that earlier programs can read it,
WITHOUT_SECTIONS: Final = 2  # one without sections either by still earlier ones,
WITHOUT_CORRECTIONS: Final = 1  # and one without corrections by the first
SECTION_ROWS: Final = 500  # restored in one transaction
BATCH: Final = 200  # documents stored in one transaction,
BATCH_BYTES: Final = 16 * MIB  # or so many bytes of lines
MOST_CORRECTIONS: Final = 100_000  # they are kept until the documents are stored

Watch = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Transferred:
    """What went into a file, or came out of it."""

    knowledge_base: KnowledgeBase
    documents: int
    chunks: int


# ── out ──────────────────────────────────────────────────────────────────────────────────────────


async def export_base(
    engine: Engine, knowledge_base: int, file: Path, watch: Watch = nothing, *, with_logs: bool = False, place: str = ""
) -> Transferred:
    """Writes a base to a file, as it is at one moment; ``watch`` is called with the number of documents done.

    The file appears under its name once it is whole and durable. ``place`` is where it goes from there: receipts of
    later deletions name copies. Raises NotFound, and BadInput for a file that exists.
    """
    base = await engine.base(knowledge_base)
    if with_logs:
        await engine.journal.flush()
    exported = await _exported(base, file, watch, with_logs=with_logs)
    place = place or os.path.abspath(file)  # noqa: ASYNC240
    await base.records.write(lambda tx: audit.append(tx, "", "base.export", place, knowledge_base=base.id))
    return exported


async def _exported(base: OpenBase, file: Path, watch: Watch = nothing, *, with_logs: bool = False) -> Transferred:
    counts = await asyncio.to_thread(_write_file, base, file, watch, with_logs)
    return Transferred(base.about, *counts)


def _write_file(base: OpenBase, file: Path, watch: Watch, with_logs: bool = False) -> tuple[int, int]:
    if file.exists():
        raise BadInput(f"{file} 已经存在", hint="换一个文件名，或先删掉它")
    unfinished = file.with_name(file.name + ".part")
    try:
        with (
            unfinished.open("wb") as raw,
            gzip.GzipFile(filename="", fileobj=raw, mode="wb", compresslevel=5, mtime=0) as stream,
            base.records.reading() as tx,
        ):
            counts = _write_lines(stream, tx, base.about, watch, with_logs)
        sync([unfinished])
        os.replace(unfinished, file)
        sync([file.parent])
    except BaseException as error:
        unfinished.unlink(missing_ok=True)
        if isinstance(error, OSError) and not is_disk_full(error):
            raise BadInput(f"写不了 {file}：{error.strerror}", hint="检查文件夹在不在、可不可写") from error
        raise
    return counts


def _write_lines(
    stream: gzip.GzipFile, tx: Connection, about: KnowledgeBase, watch: Watch, with_logs: bool
) -> tuple[int, int]:
    digest = hashlib.sha256()

    def write(line: Mapping[str, Any]) -> None:
        data = json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass") + b"\n"
        digest.update(data)
        stream.write(data)

    base = {name: plain(getattr(about, name)) for name in ("name", "kind", "embedding_model", "dimension", "config")}
    corrected = corrections.listed(tx, about.id, CorrectionQuery())
    sections = [section for section in SECTIONS if with_logs or section.name != LOGS]
    filled = {section.name: section.version for section in sections if next(section.write(tx, about), None) is not None}
    version = _version(tx, about.id, has_sections=bool(filled), has_corrections=bool(corrected))
    write({"format": FORMAT, "version": version, **base, **({"id": about.id, "sections": filled} if filled else {})})

    def write_sections(*, first: bool) -> None:
        for section in sections:
            if section.is_first is first and section.name in filled:
                for row in section.write(tx, about):
                    write({"section": section.name, "row": row})

    write_sections(first=True)
    for one in corrected:  # before the documents: these name corrections by their numbers
        write({"correction": plain(replace(one, chunk_ids=()))})
    number = chunks = 0
    for line in _documents(tx, about):
        write(line)
        number, chunks = number + 1, chunks + len(line["pieces"] or ())
        watch(1)
    for alias in graph.aliases(tx, about.id):
        write({"alias": plain(alias)})
    write_sections(first=False)
    write({"documents": number, "chunks": chunks, "sha256": digest.hexdigest()})
    return number, chunks


def _version(tx: Connection, knowledge_base: int, *, has_sections: bool, has_corrections: bool) -> int:
    """The earliest version that says everything the base has: what an earlier program passed over would be lost."""
    if graph.has_model_facts(tx, knowledge_base):
        return VERSION
    has_labels = access.version(tx, knowledge_base) is not None  # it would show such documents to everybody …
    has_edited_rows = tables.has_corrected_rows(tx, knowledge_base)  # … and answer from cells that were corrected
    if has_sections or has_labels or has_edited_rows:
        return WITHOUT_FACTS
    return WITHOUT_SECTIONS if has_corrections else WITHOUT_CORRECTIONS


def _documents(tx: Connection, about: KnowledgeBase) -> Iterator[dict[str, Any]]:
    """Of every document the version that is served; of one that is not served yet, the one that will be, uncut."""
    columns = (DocumentRow.key, DocumentRow.generation, DocumentRow.served, DocumentRow.own_access)
    heads = select(*columns).where(
        DocumentRow.knowledge_base_id == about.id, DocumentRow.status.in_(("indexed", "pending", "retrying"))
    )
    for key, newest, served, labels in tx.execute(heads.order_by(DocumentRow.key)).all():
        generation = served or newest
        document = documents.load(tx, key, generation)
        own = {"document_key": key, "generation": generation}
        fingerprint = tx.execute(select(VersionRow.fingerprint).filter_by(**own)).scalar_one()
        written = plain(document)
        del written["created_at"], written["updated_at"]  # of the value; a date that was given is in the metadata
        written["access"] = labels  # its own; what a rule gives comes from the rule
        line: dict[str, Any] = {"document": written, "fingerprint": fingerprint, "generation": generation}
        yield {**line, **(_cut(tx, own, document, about.embedding_model) if served else {"pieces": None})}


def _cut(tx: Connection, own: Mapping[str, int], document: Document, model: str) -> dict[str, Any]:
    """A version's pieces and questions, with their vectors where all have one under the base's model."""
    rows = chunk_texts.rows_of_version(tx, **own)
    pieces = [plain(_piece(row, document.content)) for row in rows]
    pairs = tx.execute(select(PairRow.__table__).filter_by(**own).order_by(PairRow.position)).all()
    places = {row.key: at for at, row in enumerate(rows)}
    linked = [row for row in pairs if row.chunk_key in places]
    questions = [[row.question, row.answer, places[row.chunk_key], row.origin] for row in linked]
    return {
        "pieces": pieces,
        "vectors": _vectors(tx, VectorRow, VectorRow.chunk_key, [row.key for row in rows], model),
        "questions": questions,
        "question_vectors": _vectors(tx, PairVectorRow, PairVectorRow.pair_key, [row.key for row in linked], model),
        "corrected_rows": plain(tables.corrected_rows(tx, **own)),
        **_facts(tx, places),
    }


def _facts(tx: Connection, places: Mapping[int, int]) -> dict[str, Any]:
    """What models read in the chunks of a version, each with the place of its chunk; nothing where none did."""
    read = graph.model_facts(tx, list(places))
    facts = [[places[key], one.origin, one.digest, plain(one.facts)] for key, one in sorted(read.items())]
    return {"facts": facts} if facts else {}


def _piece(row: Any, content: str) -> Piece:
    corrected = None if row.corrected is None else read(Corrected, row.corrected)
    body = content[row.start : row.end]
    if not row.text.endswith(body) or (corrected is not None and corrected.original is not None):
        body = row.text
    lead = row.text[: len(row.text) - len(body)]
    place = (row.kind, tuple(row.headings), row.page, row.table_position)
    return Piece(row.start, row.end, body, lead, *place, corrected)


def _vectors(tx: Connection, table: Any, key: Any, keys: Sequence[int], model: str) -> str | None:
    if not model or not keys:
        return None
    found = {
        row[0]: unpack_vector(row[1])
        for at in range(0, len(keys), 500)
        for row in tx.execute(select(key, table.vector).where(key.in_(keys[at : at + 500]), table.model == model))
    }
    vectors = [vector for one in keys if (vector := found.get(one)) is not None]
    return b64encode(np.concatenate(vectors).astype(SINGLE).tobytes()).decode() if len(vectors) == len(keys) else None


# ── in ───────────────────────────────────────────────────────────────────────────────────────────


async def import_base(
    engine: Engine,
    file: Path,
    *,
    name: str = "",
    model: str | None = None,
    watch: Watch = nothing,
    limits: Limits = OWN,
) -> Transferred:
    """Makes a new base of a file that `export_base` wrote; searchable when it returns.

    Under the model of the file nothing is embedded again; with ``model``, under that one ("none": words only). Chunks
    stay as they are under any model, and with them what people and language models added to them. The file is read to
    its end and compared with its checksum before anything is written. Raises Refused for a file that is damaged, cut
    off, of another kind, not understood or larger than the limits, AlreadyThere for a name that is taken, ModelError
    for a model that does not embed; a base that was begun is removed.
    """
    known = {section.name: section.version for section in SECTIONS}
    head, number, chunks = await asyncio.to_thread(checked, file, limits, VERSION, known)
    chosen = (head["embedding_model"] or "none") if model is None else model
    config = {key: value for key, value in head["config"].items() if key != "user_id" and not _is_registered(value)}
    wanted = await engine.records.read(lambda tx: bases.free_name(tx, name or head["name"], engine.tenant))
    # Under another name until it is whole: what a killed process leaves is not taken for the base.
    unfinished = f"{wanted[: NAME_LIMIT - 30]}（导入未完成 {token_hex(3)}）"
    base = await engine.create_knowledge_base(unfinished, model=chosen, kind=head["kind"], config=config)
    try:
        await asyncio.to_thread(_store, await engine.base(base.id), file, limits, head, watch)
        engine.wake()
        await engine.drain(base.id)
        whole = await engine.rename(base.id, wanted)
    except BaseException:
        await asyncio.shield(engine.delete_knowledge_base(base.id))
        raise
    return Transferred(whole, number, chunks)


def _is_registered(value: Any) -> bool:
    """Whether a setting names a model that a user registered where the base comes from; it is not known here."""
    return isinstance(value, str) and is_ref(value)


async def clone_base(engine: Engine, knowledge_base: int, name: str, watch: Watch = nothing) -> Transferred:
    """A second base with the same content and settings."""
    with TemporaryDirectory(prefix="qianxun-clone-") as folder:
        file = Path(folder) / "base"
        await _exported(await engine.base(knowledge_base), file)
        return await import_base(engine, file, name=name, watch=watch)


@dataclass(frozen=True, slots=True)
class _Incoming:
    """A document of the file, and what models read in it."""

    submission: Submission
    facts: Sequence[Any] = ()

    @property
    def prepared(self) -> Prepared | None:
        return self.submission.prepared

    def with_vectors_of(self, ready: Prepared) -> _Incoming:
        rows = self.prepared.corrected_rows if self.prepared is not None else {}
        return replace(self, submission=replace(self.submission, prepared=replace(ready, corrected_rows=rows)))


def _store(base: OpenBase, file: Path, limits: Limits, head: Mapping[str, Any], watch: Watch) -> None:
    batch: list[_Incoming] = []
    corrected: list[Correction] = []
    numbers: dict[int, int] = {}  # of corrections, there → here
    rows: list[Any] = []  # of a section
    section, waiting = "", 0

    def flush() -> None:
        nonlocal waiting
        if batch:
            _store_documents(base, _embedded(base, batch))
            watch(len(batch))
            batch.clear()
        if rows:
            with understood(file, at):
                _restore(base, section, head.get("id", 0), rows)
            rows.clear()
        waiting = 0

    for at, (data, line) in enumerate(lines(file, limits), start=1):
        if line.get("section", "") != section or len(rows) >= SECTION_ROWS or waiting >= BATCH_BYTES:
            flush()
            section = line.get("section", "")
        waiting += len(data)
        with understood(file, at):
            if section:
                rows.append(line["row"])
            elif "document" in line:
                batch.append(_incoming(line, base, head["embedding_model"], numbers))
            elif "correction" in line:
                one = read_typed(Correction, line["correction"])
                numbers[one.id] = base.records.run(lambda tx: allocate(tx, "correction", 1).start)
                corrected.append(replace(one, id=numbers[one.id], knowledge_base_id=base.id))
            elif "alias" in line:
                alias = read_typed(Alias, line["alias"])
                with base.records.writing() as tx:
                    graph.add_alias(tx, base.id, alias)
        if len(corrected) > MOST_CORRECTIONS:
            raise Refused(f"{file.name} 里的更正超过 {MOST_CORRECTIONS} 条", hint="拆成几个知识库")
        if len(batch) >= BATCH:
            flush()
    flush()
    with base.records.writing() as tx:  # now: the documents above have them in them
        corrections.add(tx, base.id, corrected)
        corrections.link_chunks(tx, base.id)


def _restore(base: OpenBase, section: str, there: int, rows: Sequence[Any]) -> None:
    """Raises KeyError for a section that is not known, and what `sections` raise for rows that they cannot read."""
    chosen = {one.name: one for one in SECTIONS}[section]
    base.records.run(lambda tx: chosen.restore(tx, base.about, there, rows))


def _store_documents(base: OpenBase, batch: Sequence[_Incoming]) -> None:
    """With what models read in them, in one transaction: no model reads a chunk before it has its facts."""
    with base.records.writing() as tx:
        accepted = documents.accept(tx, base.id, [one.submission for one in batch])
        found = [fact for one, own in zip(batch, accepted, strict=True) for fact in _read_facts(one, own)]
        graph.write_facts(tx, base.id, found)


def _read_facts(one: _Incoming, accepted: Accepted) -> Iterator[graph.ExtractedFacts]:
    """Of chunks that are what the model read; others are read again."""
    pieces = one.prepared.pieces if one.prepared is not None else ()
    for place, origin, digest, facts in one.facts:
        piece, key = pieces[place], accepted.chunk_keys[place]
        about = (piece.text, piece.kind, piece.headings, one.submission.document.name)
        if graph.ReadableChunk(key, accepted.document_key, *about).digest == digest:
            yield graph.ExtractedFacts(key, accepted.document_key, origin, digest, read_typed(Facts, facts))


def _embedded(base: OpenBase, batch: Sequence[_Incoming]) -> list[_Incoming]:
    """Each with vectors of the base's model; those that came with such vectors as they are. Raises ModelError."""
    found = list(batch)
    others = [at for at, one in enumerate(batch) if one.prepared is not None and one.prepared.model != base.model_name]
    cut = [(one.pieces, one.questions) for at in others if (one := batch[at].prepared) is not None]
    bare = [Prepared(pieces, None, questions=questions) for pieces, questions in cut]
    for at, ready in zip(others, bare if base.model is None else embedded(cut, base.model), strict=True):
        found[at] = batch[at].with_vectors_of(ready)
    return found


def _incoming(line: Mapping[str, Any], base: OpenBase, model: str, numbers: Mapping[int, int]) -> _Incoming:
    """Cut as it was; one that was not served yet is for the indexer to cut. Raises what `understood` knows."""
    prepared = _prepared(line, base, model, numbers) if line["pieces"] is not None else None
    document = read_typed(Document, line["document"])
    documents.check(document)
    if not (fits(line["fingerprint"], str) and fits(line["generation"], int) and line["generation"] >= 0):
        raise TypeError("fingerprint and generation")
    return _Incoming(Submission(document, line["fingerprint"], line["generation"], prepared), line.get("facts", ()))


def _prepared(line: Mapping[str, Any], base: OpenBase, model: str, numbers: Mapping[int, int]) -> Prepared:
    """With the vectors of ``model`` if the file has all of them; else without any."""
    pieces = tuple(_renumbered(read_typed(Piece, piece), numbers) for piece in line["pieces"])
    if not all(0 <= piece.start <= piece.end for piece in pieces):
        raise ValueError("a piece ends before it starts")
    questions = tuple(
        Question(QAPair(question, answer), piece, _origin(origin, numbers))
        for question, answer, piece, origin in line["questions"]
    )
    places = range(len(pieces))
    if not all(fits((one.pair.question, one.pair.answer, one.origin), tuple[str, ...]) for one in questions):
        raise TypeError("questions are no texts")
    if not all(one.piece in places for one in questions) or not all(one[0] in places for one in line.get("facts", ())):
        raise ValueError("a question or a fact of no piece")
    rows = {int(position): tables.changes_of(own) for position, own in line.get("corrected_rows", {}).items()}
    dimension = base.about.dimension if model == base.model_name else None
    vectors = _read_vectors(line["vectors"], len(pieces), dimension)
    question_vectors = _read_vectors(line["question_vectors"], len(questions), dimension)
    if (pieces and vectors is None) or (questions and question_vectors is None):
        return Prepared(pieces, None, questions=questions, corrected_rows=rows)
    return Prepared(pieces, vectors, model, questions, question_vectors, corrected_rows=rows)


def _renumbered(piece: Piece, numbers: Mapping[int, int]) -> Piece:
    if piece.corrected is None:
        return piece
    ids = tuple(numbers[number] for number in piece.corrected.ids if number in numbers)
    return replace(piece, corrected=replace(piece.corrected, ids=ids))


def _origin(origin: str, numbers: Mapping[int, int]) -> str:
    """Of a question; one that a correction gave names it by its number."""
    kind, _, number = origin.partition(":")
    return f"{kind}:{numbers.get(int(number), 0)}" if kind == QUESTION_ORIGIN and number.isdigit() else origin


def _read_vectors(written: str | None, count: int, dimension: int | None) -> Vectors | None:
    """``dimension`` is that of the base, where its model made them. Raises ValueError for what are no vectors of it."""
    if written is None or not count:
        return None
    vectors = np.frombuffer(b64decode(written), dtype=SINGLE).reshape(count, -1)
    if dimension is not None and vectors.shape[1] != dimension:
        raise ValueError(f"vectors of {vectors.shape[1]} dimensions")
    if not np.isfinite(vectors).all():
        raise ValueError("a vector is not finite")
    return vectors
