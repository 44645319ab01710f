"""A labelled set of queries over a corpus, in the layout of BEIR.

``corpus.jsonl`` (``_id``, ``title``, ``text``), ``queries.jsonl`` (``_id``, ``text``) and ``qrels.tsv`` (``query-id``,
``corpus-id``, ``score``; in the original layout ``qrels/test.tsv``).
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from qianxun.core.errors import BadInput
from qianxun.core.types import Document

CORPUS, QUERIES = "corpus.jsonl", "queries.jsonl"
QRELS = ("qrels.tsv", "qrels/test.tsv")
SEED = 20260101  # of the order in which a limited run takes queries
LAYOUT = "目录里要有 corpus.jsonl、queries.jsonl 与 qrels.tsv（或 qrels/test.tsv），格式见 docs/evaluation.md"

T = TypeVar("T")
Qrels = Mapping[str, Mapping[str, int]]  # query → document → grade; 0 and below: judged, not relevant


@dataclass(frozen=True, slots=True)
class Dataset:
    """``queries`` are those that are searched for: they have words and at least one relevant document."""

    name: str
    documents: tuple[Document, ...]
    queries: Mapping[str, str]
    qrels: Qrels
    labelled: int  # queries, before a limit
    notes: tuple[str, ...] = ()  # what was left out and why, for people to read


@dataclass(frozen=True, slots=True)
class LabelledQueries:
    """The queries of a folder with words and a relevant document, whatever its corpus is."""

    queries: Mapping[str, str]
    qrels: Qrels
    metadata: Mapping[str, Mapping[str, Any]]  # of those that have some
    notes: tuple[str, ...]


def load_labels(folder: Path) -> LabelledQueries:
    """As `load`, without the corpus, which need not be there."""
    _check_folder(folder, (QUERIES,))
    notes: list[str] = []
    texts = _queries(folder / QUERIES, notes)
    qrels = _with_query(_grades(_qrels_file(folder), notes), texts, notes)
    queries = _searchable(texts, qrels, notes)
    metadata = {
        query: read["metadata"]
        for _, query, read in _objects(folder / QUERIES)
        if query in queries and isinstance(read.get("metadata"), dict)
    }
    return LabelledQueries(queries, {query: qrels[query] for query in queries}, metadata, tuple(notes))


def load_documents(folder: Path) -> tuple[Document, ...]:
    """The corpus alone."""
    _check_folder(folder, (CORPUS,), has_labels=False)
    return _documents(folder / CORPUS, [])


def load(folder: Path) -> Dataset:
    """Raises BadInput with file and line for what cannot be read or contradicts itself."""
    _check_folder(folder)
    notes: list[str] = []
    documents = _documents(folder / CORPUS, notes)
    texts = _queries(folder / QUERIES, notes)
    qrels = _with_query(_grades(_qrels_file(folder), notes), texts, notes)
    _check_known(qrels, {document.id for document in documents}, notes)
    queries = _searchable(texts, qrels, notes)
    labels = {query: qrels[query] for query in queries}
    return Dataset(folder.resolve().name, documents, queries, labels, len(queries), tuple(notes))


def limited(dataset: Dataset, limit: int | None) -> Dataset:
    """The first ``limit`` queries of a shuffle that is the same every time; the corpus stays whole.

    A smaller limit takes a part of what a larger one takes.
    """
    if limit is None:
        return dataset
    if limit < 1:
        raise BadInput(f"--limit 为 {limit}，至少应为 1", hint="去掉它就用全部查询")
    order = sorted(dataset.queries)
    random.Random(SEED).shuffle(order)
    chosen = set(order[:limit])
    queries = {query: text for query, text in dataset.queries.items() if query in chosen}
    return replace(dataset, queries=queries, qrels={query: dataset.qrels[query] for query in queries})


def corpus_fingerprint(dataset: Dataset) -> str:
    """Equal only for the same documents in the same order; queries do not change an index."""
    digest = hashlib.blake2b(digest_size=20)
    for document in dataset.documents:
        for text in (document.id, document.name, document.content):
            encoded = text.encode("utf-8", "surrogatepass")
            digest.update(len(encoded).to_bytes(8, "big") + encoded)
    return digest.hexdigest()


# ── files ────────────────────────────────────────────────────────────────────────────────────────


def _check_folder(folder: Path, needed: Sequence[str] = (CORPUS, QUERIES), *, has_labels: bool = True) -> None:
    if not folder.is_dir():
        raise BadInput(f"{folder} 不是一个目录", hint=LAYOUT)
    absent = [name for name in needed if not (folder / name).is_file()]
    if has_labels and not any((folder / name).is_file() for name in QRELS):
        absent.append("qrels.tsv")
    if absent:
        raise BadInput(f"评测集 {folder} 里缺少 {'、'.join(absent)}", hint=LAYOUT)


def _qrels_file(folder: Path) -> Path:
    return next(folder / name for name in QRELS if (folder / name).is_file())


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Lines with something on them, numbered from 1; a BOM, CRLF and blank lines are no content."""
    try:
        with path.open("rb") as file:
            for number, raw in enumerate(file, 1):
                line = raw.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
                if line.strip():
                    yield number, line
    except UnicodeDecodeError as error:
        raise BadInput(f"{path} 第 {number} 行不是 UTF-8", hint="把文件转成 UTF-8 再试") from error
    except OSError as error:
        raise BadInput(f"读不了 {path}：{error.strerror}", hint="检查文件与权限") from error


def _objects(path: Path) -> Iterator[tuple[int, str, Mapping[str, Any]]]:
    """(line, id, object) of a JSON Lines file."""
    for number, line in _lines(path):
        try:
            read = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise BadInput(f"{path} 第 {number} 行不是合法的 JSON：{error}", hint="改正这一行，或把它删掉") from error
        if not isinstance(read, dict):
            raise BadInput(f"{path} 第 {number} 行不是 JSON 对象", hint='每行应形如 {"_id": "1", "text": "…"}')
        yield number, _id_of(read, path, number), read


def _id_of(read: Mapping[str, Any], path: Path, number: int) -> str:
    found = read.get("_id")
    if isinstance(found, bool) or not isinstance(found, str | int) or found == "":
        raise BadInput(f"{path} 第 {number} 行没有 _id", hint="为它写上不重复的编号（文字或整数）")
    return str(found)


def _text_of(read: Mapping[str, Any], key: str, path: Path, number: int) -> str:
    found = read.get(key)
    if found is None:
        return ""
    if not isinstance(found, str):
        raise BadInput(f"{path} 第 {number} 行的 {key} 不是文字", hint=f"{key} 应为字符串")
    return found


def _once(seen: dict[str, tuple[int, T]], key: str, value: T, path: Path, number: int) -> bool:
    """Whether this id is new. The same line twice is harmless; the same id for two things is not."""
    if key not in seen:
        seen[key] = (number, value)
        return True
    first, earlier = seen[key]
    if earlier != value:
        raise BadInput(
            f"{path} 第 {first} 行与第 {number} 行的 _id 都是“{key}”，内容却不同", hint="给其中一行换一个编号"
        )
    return False


# ── documents ────────────────────────────────────────────────────────────────────────────────────


def _documents(path: Path, notes: list[str]) -> tuple[Document, ...]:
    seen: dict[str, tuple[int, Document]] = {}
    repeated = 0
    for number, doc_id, read in _objects(path):
        title, text = (_text_of(read, key, path, number) for key in ("title", "text"))
        document = Document(doc_id, content_of(title, text), name=title.strip()[:200])
        repeated += not _once(seen, doc_id, document, path, number)
    if not seen:
        raise BadInput(f"{path} 里没有文档", hint=LAYOUT)
    if repeated:
        notes.append(f"语料里有 {repeated} 行与前面的完全重复，只取一次")
    blank = [doc_id for doc_id, (_, document) in seen.items() if not document.content.strip()]
    if blank:
        notes.append(f"{len(blank)} 个文档没有文字（如 {blank[0]}），无法被检索到；若有标注指向它们，按未命中计")
    return tuple(document for _, document in seen.values())


def content_of(title: str, text: str) -> str:
    """The title above the text, unless the text begins with it or there is none."""
    title, text = title.strip(), text.strip()
    if not title or text.startswith(title):
        return text
    return f"{title}\n{text}" if text else title


# ── queries and judgements ───────────────────────────────────────────────────────────────────────


def _queries(path: Path, notes: list[str]) -> dict[str, str]:
    seen: dict[str, tuple[int, str]] = {}
    repeated = 0
    for number, query_id, read in _objects(path):
        repeated += not _once(seen, query_id, _text_of(read, "text", path, number), path, number)
    if not seen:
        raise BadInput(f"{path} 里没有查询", hint=LAYOUT)
    if repeated:
        notes.append(f"查询里有 {repeated} 行与前面的完全重复，只取一次")
    return {query_id: text for query_id, (_, text) in seen.items()}


def _grades(path: Path, notes: list[str]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    repeated = 0
    for at, (number, line) in enumerate(_lines(path)):
        parts = line.split("\t")
        if at == 0 and len(parts) == 3 and _grade(parts[2]) is None:
            continue  # the header
        grade = _grade(parts[2]) if len(parts) == 3 else None
        if grade is None or not parts[0] or not parts[1]:
            raise BadInput(f"{path} 第 {number} 行不是“查询编号⇥文档编号⇥整数分值”", hint="三列之间用制表符（Tab）隔开")
        grades = found.setdefault(parts[0], {})
        if grades.setdefault(parts[1], grade) != grade:
            raise BadInput(
                f"{path} 第 {number} 行给了查询 {parts[0]} 与文档 {parts[1]} 另一个分值", hint="同一对只留一行"
            )
        repeated += 1
    repeated -= sum(len(grades) for grades in found.values())
    if repeated:
        notes.append(f"标注里有 {repeated} 行与前面的完全重复，只取一次")
    return found


def _grade(text: str) -> int | None:
    """A whole number, also where it is written 1.0."""
    try:
        value = float(text)
        return int(value) if value == int(value) else None
    except (ValueError, OverflowError):
        return None


def _with_query(
    qrels: dict[str, dict[str, int]], queries: Mapping[str, str], notes: list[str]
) -> dict[str, dict[str, int]]:
    """Judgements of queries that exist."""
    unknown = [query for query in qrels if query not in queries]
    if unknown:
        notes.append(f"标注提到 {len(unknown)} 个不存在的查询（如 {unknown[0]}），略过；请核对 queries.jsonl")
    return {query: grades for query, grades in qrels.items() if query in queries}


def _check_known(qrels: Qrels, documents: set[str], notes: list[str]) -> None:
    """A relevant document that does not exist stays: it counts as never found."""
    relevant = {document for grades in qrels.values() for document, grade in grades.items() if grade > 0}
    missing = sorted(relevant - documents)
    if missing and len(missing) == len(relevant):
        raise BadInput(
            f"标注中的文档全都不在语料里（如 {missing[0]}）", hint="核对 qrels 的第二列与 corpus.jsonl 的 _id"
        )
    if missing:
        notes.append(
            f"标注提到 {len(missing)} 个语料里没有的文档（如 {missing[0]}），按永远找不到计；请核对 corpus.jsonl"
        )


def _searchable(texts: Mapping[str, str], qrels: Qrels, notes: list[str]) -> dict[str, str]:
    def is_answerable(query: str) -> bool:
        return any(grade > 0 for grade in qrels.get(query, {}).values())

    empty = [query for query, text in texts.items() if not text.strip()]
    unlabelled = [query for query, text in texts.items() if text.strip() and not is_answerable(query)]
    if empty:
        notes.append(f"{len(empty)} 个查询是空的（如 {empty[0]}），不参加评测")
    if unlabelled:
        notes.append(f"{len(unlabelled)} 个查询没有标注相关文档（如 {unlabelled[0]}），不参加评测")
    left_out = {*empty, *unlabelled}
    queries = {query: text for query, text in texts.items() if query not in left_out}
    if not queries:
        raise BadInput("没有一个查询有相关文档的标注", hint="核对 qrels 的第一列与 queries.jsonl 的 _id")
    return queries
