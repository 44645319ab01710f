"""What every backend does alike: refusals, stamps, filter fields and their hashes, checks of vectors, BM25."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from qianxun.core.errors import BadFilter, BadModelReply, IndexUnusable, RetrieverUnavailable
from qianxun.core.system.shortages import shortage
from qianxun.core.types import (
    And,
    Attributes,
    Eq,
    Filter,
    In,
    IndexEntry,
    IndexStamp,
    Not,
    Or,
    Range,
    Scalar,
    Spelled,
    Vector,
    VectorField,
    Vectors,
)

REBUILD: Final = "会自动从记录重建，稍后重试；也可以运行 qianxun rebuild"
LANES: Final[Mapping[VectorField, int]] = {"content": 0, "question": 1}
CACHED_FILTERS: Final = 32  # filters whose results are cached: tenants send the same again and again
SAMPLE: Final = 2_000  # rows from which the likeness of a base is estimated

Require = Literal["all", "any"]


def unusable(reason: str) -> IndexUnusable:
    return IndexUnusable(f"索引不可用：{reason}", hint=REBUILD)


def damage(reason: str, error: Exception) -> Exception:
    """What to raise for an error on the way to a file of the index: damage, unless the system ran out of something."""
    return shortage(error) or unusable(reason)


def closed() -> IndexUnusable:
    return IndexUnusable("索引已经关闭", hint="请重新打开知识库")


def require_stamp(found: IndexStamp, expected: IndexStamp) -> None:
    """Raises IndexUnusable that names the difference."""
    names = {"model": "嵌入模型", "dimension": "维度", "analysis": "分词版本"}
    differing = [
        f"{label} {getattr(found, name)!r} ≠ {getattr(expected, name)!r}"
        for name, label in names.items()
        if getattr(found, name) != getattr(expected, name)
    ]
    if differing:
        raise IndexUnusable(f"索引由另一套设置建成：{'；'.join(differing)}", hint=REBUILD)
    if found.origin and expected.origin and found.origin != expected.origin:
        raise unusable("由别的知识库的记录建成")


def latest(entries: Iterable[IndexEntry]) -> list[IndexEntry]:
    """The entries of a batch; of several with one key the last."""
    return list({(entry.field, entry.key): entry for entry in entries}.values())


def owners_of(entries: Sequence[IndexEntry], first: int) -> tuple[dict[int, Attributes], list[int]]:
    """Attributes by owner number from ``first`` on, and the owner of each entry: one Attributes object, one owner."""
    known: dict[int, int] = {}
    owners: dict[int, Attributes] = {}
    for entry in entries:
        if id(entry.attributes) not in known:
            known[id(entry.attributes)] = first + len(owners)
            owners[first + len(owners)] = entry.attributes
    return owners, [known[id(entry.attributes)] for entry in entries]


# ── filters ──────────────────────────────────────────────────────────────────────────────────────

PLAIN: Final = ("doc_id", "user_id", "project_id", "content_type", "kind")


def check_filter(where: Filter) -> None:
    """Raises BadFilter for a field that does not exist, anywhere in the tree."""
    match where:
        case Eq(name) | In(name) | Range(name) | Spelled(name):
            if name not in PLAIN and name != "tags" and not name.startswith("metadata."):
                known = "、".join((*PLAIN, "tags", "metadata.<字段>"))
                raise BadFilter(f"没有可过滤的字段：{name!r}", hint=f"可用字段：{known}")
        case And(parts) | Or(parts):
            for part in parts:
                check_filter(part)
        case Not(part):
            check_filter(part)
        case _:
            pass


def pairs(attributes: Attributes) -> Iterator[tuple[str, Scalar]]:
    """Field and value of everything a filter can test."""
    for name in PLAIN:
        yield name, getattr(attributes, name)
    for tag in attributes.tags:
        yield "tags", tag
    for name in attributes.metadata:
        for value in attributes.values(f"metadata.{name}"):
            yield f"metadata.{name}", value


@lru_cache(maxsize=1_024)
def hash_name(name: str) -> int:
    """`hash_text` of a field's name, of which there are few."""
    return hash_text(name)


def hash_text(text: str) -> int:
    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little")


def hash_fact(name: str, value: Scalar) -> int:
    return hash_text(f"{len(name)}:{name}{_canonical(value)}")


def _canonical(value: Scalar) -> str:
    """One spelling for values that are equal in JSON: 1 and 1.0, but neither True nor "1"."""
    if isinstance(value, bool):
        return f"b{value}"
    if isinstance(value, str):
        return f"s{value}"
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return f"n{value!r}"


# ── vectors ──────────────────────────────────────────────────────────────────────────────────────

COSINE_DECIMALS: Final = 6  # beyond this, float32 sums depend on the order of adding
USUAL_LIKENESS: Final = 0.4  # in a base of mixed topics, under the models we know
FEW_ROWS: Final = 50


def require_model(stamp: IndexStamp) -> None:
    if stamp.dimension == 0:
        raise RetrieverUnavailable("这个知识库没有向量（零模型模式）", hint="请指定嵌入模型并重建索引，或改用全文检索")


def require_vectors(vectors: Sequence[Vector], dimension: int) -> Vectors:
    """One matrix. Raises BadModelReply on a wrong dimension or a value that is not a number."""
    for vector in vectors:
        if np.shape(vector) != (dimension,):
            raise BadModelReply(f"向量应为 {dimension} 维，实为 {np.shape(vector)}", hint="请检查嵌入模型，或重建索引")
    matrix = np.array(vectors, dtype=np.float32, order="C").reshape(len(vectors), dimension)
    if not np.isfinite(matrix).all():
        raise BadModelReply("向量里有 NaN 或无穷大", hint="请检查嵌入模型的输出")
    return matrix


def row_sums(rows: Vectors) -> NDArray[np.uint64]:
    """A checksum that any flipped bit in the row changes, at the speed of memory."""
    sums: NDArray[np.uint64] = np.ascontiguousarray(rows).view(np.uint32).sum(axis=1, dtype=np.uint64)
    return sums


def mean_cosine(rows: NDArray[np.float64]) -> float:
    """Between two different rows; few of them are pulled towards what is usual."""
    count = len(rows)
    total = rows.sum(axis=0)
    between = (float(total @ total) - count) / (count - 1) if count > 1 else 0.0  # without each row and itself
    return round((between + FEW_ROWS * USUAL_LIKENESS) / (count + FEW_ROWS), COSINE_DECIMALS)


# ── keywords ─────────────────────────────────────────────────────────────────────────────────────

SCORE_DECIMALS: Final = 4  # beyond this, tantivy's float32 sums depend on how its segments lie
# A character in more entries than either carries next to no information; nor does one in so many of a large base, whose
# lists would make up most of a search (docs/decisions/0032-a-million-chunks.md).
FREQUENT_SHARE, FREQUENT_LEAST = 0.1, 2_000
FREQUENT_MOST = 50_000


def most_frequent(entries: int) -> float:
    """In how many of so many entries a character may occur that is searched for beside words."""
    return max(FREQUENT_LEAST, min(FREQUENT_SHARE * entries, FREQUENT_MOST))


def writable(text: str) -> str:
    """Without halves of surrogate pairs, which no index can store."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode("utf-8")
    return text


def distinct(terms: Sequence[str]) -> tuple[str, ...]:
    together = "".join(terms)
    return tuple(dict.fromkeys(terms if writable(together) is together else map(writable, terms)))
