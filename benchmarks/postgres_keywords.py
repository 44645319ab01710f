"""Other ways to search words in PostgreSQL, to set beside packed postings that numpy adds up.

    rows      one row per posting under a covering index, BM25 as a sum that the server groups
    arrays    one row per term with arrays, which the server unnests, weighs and groups
    tsvector  the server's own full text: GIN finds, ts_rank orders (it knows no idf and no average length)

Extensions that know BM25 (pg_search, pg_textsearch, vchord_bm25) are not in the server's wheel and not measured.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from qianxun.core.types import BM25, Terms
from qianxun.index.bm25 import NORMS, norm_codes
from qianxun.index.postgres.postings import GRAMS, WORDS, counted, term_hash
from qianxun.index.postgres.server import Server, Tx, bigints
from qianxun.text.chinese import index_grams, index_words

SCHEMA = "bench_others"
GRAM_WEIGHT = 0.5
FREQUENT_SHARE = 0.1


async def alternatives(
    url: str, texts: Sequence[str], terms: Sequence[Terms], limit: int, cpu_since: Callable[[], Callable[[], float]]
) -> dict[str, Any]:
    """``cpu_since`` begins to count CPU seconds, of client and server; what it answers says how many there were."""
    server = Server(url)
    server.hold()
    report: dict[str, Any] = {}
    frequencies, averages = await server.write(lambda tx: _loaded(tx, texts, report))
    searches: dict[str, Callable[[Tx, Terms], int]] = {
        "rows": lambda tx, asked: _sum(tx, _ROWS, asked, limit, frequencies, averages, len(texts)),
        "arrays": lambda tx, asked: _sum(tx, _ARRAYS, asked, limit, frequencies, averages, len(texts)),
        "tsvector": lambda tx, asked: _full_text(tx, asked, limit),
    }
    for name, search in searches.items():
        took, spent = [], cpu_since()
        for asked in terms:
            start = time.perf_counter()
            await server.read(lambda tx, search=search, asked=asked: search(tx, asked))
            took.append(time.perf_counter() - start)
        times = {"p50_ms": float(np.median(took)) * 1000, "cpu_ms": spent() / len(terms) * 1000}
        report.setdefault(name, {}).update({kind: round(value, 2) for kind, value in times.items()})
    await server.release_soon()
    return report


def _loaded(tx: Tx, texts: Sequence[str], report: dict[str, Any]) -> tuple[dict[int, int], dict[str, float]]:
    tx.run(f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE")
    tx.run(f"CREATE SCHEMA {SCHEMA}")
    tx.run(f"CREATE TABLE {SCHEMA}.postings (term bigint, row integer, times integer, norm integer)")
    tx.run(f"CREATE TABLE {SCHEMA}.texts (row integer, held tsvector)")
    frequencies: dict[int, int] = {}
    lengths = {WORDS: 0, GRAMS: 0}
    start = time.perf_counter()
    for first in range(0, len(texts), 2_000):
        part = texts[first : first + 2_000]
        for name, cut in ((WORDS, index_words), (GRAMS, index_grams)):
            held = counted([cut(text) for text in part])
            lengths[name] += int(held.lengths.sum())
            norms = norm_codes(held.lengths)
            hashes = np.array([term_hash(name, term) for term in held.terms] or [0], dtype=np.int64)
            columns = (hashes[held.term], held.place + first, held.times, norms[held.place])
            lines = ("\t".join(map(str, row)) for row in zip(*(column.tolist() for column in columns), strict=True))
            tx.copy_lines(f"{SCHEMA}.postings", "term, row, times, norm", "\n".join(lines))
            for term, number in zip(
                hashes.tolist(), np.bincount(held.term, minlength=len(hashes)).tolist(), strict=True
            ):
                frequencies[term] = frequencies.get(term, 0) + number
    report["cut_and_copied_seconds"] = round(time.perf_counter() - start, 1)
    _indexed(tx, report)
    _full_texts(tx, texts, report)
    return frequencies, {name: total / len(texts) for name, total in lengths.items()}


def _indexed(tx: Tx, report: dict[str, Any]) -> None:
    start = time.perf_counter()
    tx.run(f"CREATE INDEX by_term ON {SCHEMA}.postings (term) INCLUDE (row, times, norm)")
    report["rows"] = {"index_seconds": round(time.perf_counter() - start, 1), "megabytes": _size(tx, "postings")}
    start = time.perf_counter()
    tx.run(
        f"""CREATE TABLE {SCHEMA}.arrays AS SELECT term, array_agg(row) AS rows, array_agg(times) AS times,
            array_agg(norm) AS norms FROM {SCHEMA}.postings GROUP BY term"""
    )
    tx.run(f"CREATE UNIQUE INDEX ON {SCHEMA}.arrays (term)")
    report["arrays"] = {"made_seconds": round(time.perf_counter() - start, 1), "megabytes": _size(tx, "arrays")}
    tx.run(f"ANALYZE {SCHEMA}.postings, {SCHEMA}.arrays")


def _full_texts(tx: Tx, texts: Sequence[str], report: dict[str, Any]) -> None:
    start = time.perf_counter()
    for first in range(0, len(texts), 2_000):
        held = [" ".join((index_words(text), index_grams(text))) for text in texts[first : first + 2_000]]
        lines = "\n".join(f"{first + at}\t{_lexemes(text)}" for at, text in enumerate(held))
        tx.copy_lines(f"{SCHEMA}.texts", "row, held", lines)
    tx.run(f"CREATE INDEX ON {SCHEMA}.texts USING gin (held)")
    report["tsvector"] = {"seconds": round(time.perf_counter() - start, 1), "megabytes": _size(tx, "texts")}


def _lexemes(text: str) -> str:
    """As a tsvector is written: quoted, each with the places it stands at, as far as it counts them (16,383)."""
    places: dict[str, list[int]] = {}
    for place, word in enumerate(text.split(), 1):
        places.setdefault(word.replace("'", "").replace("\\", ""), []).append(min(place, 16_383))
    shown = (f"'{word}':{','.join(map(str, held[:200]))}" for word, held in places.items() if word)
    return " ".join(shown)


def _size(tx: Tx, table: str) -> float:
    return round(tx.rows(f"SELECT pg_total_relation_size('{SCHEMA}.{table}')")[0][0] / 2**20, 1)


_WEIGHED = """
    WITH asked AS (SELECT * FROM
        unnest(%(terms)s::bigint[], %(weights)s::float8[], %(fields)s::int[]) AS u(term, weight, field))
"""
_SCORE = """sum(a.weight * {0}.times / ({0}.times
    + CASE a.field WHEN 0 THEN (%(words)s::float8[])[{0}.norm + 1] ELSE (%(grams)s::float8[])[{0}.norm + 1] END))"""
_ROWS = f"""{_WEIGHED} SELECT p.row, {_SCORE.format("p")} AS score FROM asked a JOIN {SCHEMA}.postings p USING (term)
    GROUP BY p.row ORDER BY score DESC LIMIT %(limit)s"""
_ARRAYS = f"""{_WEIGHED} SELECT u.row, {_SCORE.format("u")} AS score FROM asked a JOIN {SCHEMA}.arrays p USING (term),
    unnest(p.rows, p.times, p.norms) AS u(row, times, norm) GROUP BY u.row ORDER BY score DESC LIMIT %(limit)s"""


def _sum(
    tx: Tx,
    statement: str,
    asked: Terms,
    limit: int,
    frequencies: dict[int, int],
    averages: dict[str, float],
    total: int,
) -> int:
    """The same terms as the index asks for: characters that stand in more than a tenth are left out."""
    terms: list[tuple[int, float, int]] = []
    for number, (name, held, weight) in enumerate(((WORDS, asked.words, 1.0), (GRAMS, asked.grams, GRAM_WEIGHT))):
        for term in dict.fromkeys(held):
            holding = frequencies.get(term_hash(name, term), 0)
            if name == WORDS or len(term) > 1 or holding <= max(2_000, FREQUENT_SHARE * total):
                idf = math.log(1 + (total - holding + 0.5) / (holding + 0.5))
                terms.append((term_hash(name, term), weight * idf * (BM25.k1 + 1), number))
    damping = {name: (BM25.k1 * (1 - BM25.b + BM25.b * NORMS / average)).tolist() for name, average in averages.items()}
    found = tx.rows(
        statement,
        terms=bigints([term for term, _, _ in terms]),
        weights=[weight for _, weight, _ in terms],
        fields=[number for _, _, number in terms],
        words=damping[WORDS],
        grams=damping[GRAMS],
        limit=limit,
    )
    return len(found)


def _full_text(tx: Tx, asked: Terms, limit: int) -> int:
    """All of a query's terms, any of which may stand in a text."""
    terms = [term.replace("'", "").replace("\\", "") for term in dict.fromkeys((*asked.words, *asked.grams))]
    query = " | ".join(f"'{term}'" for term in terms if term)
    found = tx.rows(
        f"""SELECT row, ts_rank(held, %(query)s::tsquery) AS score FROM {SCHEMA}.texts
            WHERE held @@ %(query)s::tsquery ORDER BY score DESC LIMIT %(limit)s""",
        query=query,
        limit=limit,
    )
    return len(found)
