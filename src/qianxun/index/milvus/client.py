"""A Milvus collection of one's own in the place of a knowledge base: the client that `KnowledgeBaseManager` and
`HybridSearchEngine` take.

Collection ``qingyu_kb`` with nine fields, searched by HNSW and cosine. What a filter compares with is bound, or written
as a literal where a server has no templates; every hit is compared with the filter once more. Milvus counts the bytes
of a text: what does not fit is refused, and nothing of the same call is stored.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np

from qianxun.core.documents import VectorDocument
from qianxun.core.errors import BadFilter, BadInput, BadModelReply
from qianxun.index.milvus.server import MOST_HITS, Address, Milvus

COLLECTION: Final = "qingyu_kb"
DIMENSION: Final = 1024
# In bytes. A chunk of 10,000 bytes has 3,333 Chinese characters: texts and metadata get all that Milvus has.
TEXTS: Final = {
    "id": 100,
    "document_id": 100,
    "chunk_text": 65_535,
    "user_id": 100,
    "project_id": 100,
    "content_type": 50,
    "metadata_json": 65_535,
}
GRAPH: Final = {"index_type": "HNSW", "metric_type": "COSINE", "params": {"M": 16, "efConstruction": 128}}
SEARCH_WIDTH: Final = 64  # ef
OUTPUT: Final = ("document_id", "chunk_text", "user_id", "project_id", "content_type", "metadata_json")
FILTERED: Final = ("id", "document_id", "chunk_index", "user_id", "project_id", "content_type")
ESCAPES: Final = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"})
ROWS_AT_ONCE: Final = 500

Wanted: TypeAlias = tuple[str | int | float, ...]
Hit: TypeAlias = tuple[str, float, dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Equal:
    """Each field has one of its values."""

    wanted: Mapping[str, Wanted]

    def bound(self) -> tuple[str, dict[str, Any]]:
        names = {name: f"v{number}" for number, name in enumerate(self.wanted)}
        text = " and ".join(f"{name} in {{{value}}}" for name, value in names.items())
        return text, {names[name]: list(values) for name, values in self.wanted.items()}

    def written(self) -> str:
        literals = {name: ", ".join(map(_literal, values)) for name, values in self.wanted.items()}
        return " and ".join(f"{name} in [{values}]" for name, values in literals.items())

    def holds(self, row: Mapping[str, Any]) -> bool:
        return all(row[name] in values for name, values in self.wanted.items())


def _literal(value: str | int | float) -> str:
    return f'"{value.translate(ESCAPES)}"' if isinstance(value, str) else repr(value)


class MilvusClient:
    """The vectors of chunks in one collection. Blocking; may be used from any thread."""

    COLLECTION_NAME = COLLECTION
    VECTOR_DIM = DIMENSION

    def __init__(
        self,
        host: str = "localhost",
        port: int = 19530,
        user: str = "",
        password: str = "",
        *,
        collection: str = COLLECTION,
        dimension: int = DIMENSION,
    ) -> None:
        """Connects, and creates the collection where it is missing. Raises RetrieverUnavailable or MissingExtra."""
        uri = f"{host if '://' in host else f'http://{host}'}:{port}"
        self._milvus = Milvus(Address(uri, user, password))
        self._name = collection
        if self._milvus.describe(collection) is None:
            self._milvus.create(collection, _fields(dimension), {"embedding": GRAPH}, {})
        self._milvus.load(collection)
        self._limits, self._dimension = _limits(self._milvus.schema(collection))

    def insert(self, vector_docs: Sequence[VectorDocument]) -> list[str]:
        """The ids of what is stored; one that is there already is replaced. Raises BadInput: then nothing is stored."""
        rows = [doc.to_milvus_entity() for doc in vector_docs]
        for row in rows:
            self._require_fitting(row)
        rows = list({row["id"]: row for row in rows}.values())
        for start in range(0, len(rows), ROWS_AT_ONCE):
            self._milvus.upsert(self._name, rows[start : start + ROWS_AT_ONCE])
        return [doc.id for doc in vector_docs]

    def search(
        self, query_vector: Sequence[float], top_k: int = 10, filters: Mapping[str, Any] | None = None
    ) -> list[Hit]:
        """(chunk id, cosine, metadata) of the nearest, best first. What was inserted before is found."""
        if not 1 <= top_k <= MOST_HITS:
            raise BadInput(f"top_k 应在 1 与 {MOST_HITS} 之间，实为 {top_k}", hint="Milvus 一次最多给这么多")
        vector = np.asarray(query_vector, dtype=np.float32)
        self._require_vector(vector, "查询")
        where = Equal({name: _wanted(name, value) for name, value in (filters or {}).items()})
        if any(not values for values in where.wanted.values()):
            return []
        found = self._milvus.search_rows(
            self._name,
            "embedding",
            vector,
            top_k,
            where if where.wanted else None,
            (*OUTPUT, "chunk_index"),
            params={"ef": max(SEARCH_WIDTH, top_k)},
        )
        return [_hit(row) for row in found if where.holds(row)]

    def delete_by_document_id(self, document_id: str) -> None:
        """All chunks of a document; they are not found any more when it returns."""
        self._milvus.delete(self._name, Equal({"document_id": (_text("document_id", document_id),)}))

    def close(self) -> None:
        self._milvus.close()

    def _require_fitting(self, row: Mapping[str, Any]) -> None:
        for name, most in self._limits.items():
            size = len(str(row[name]).encode("utf-8", "surrogatepass"))
            if size > most:
                raise BadInput(
                    f"分块 {row['id']} 的 {name} 有 {size} 字节，集合 {self._name} 里最多 {most}（一个汉字三字节）",
                    hint="把分块切短些；没有任何内容被截断或写入",
                )
        self._require_vector(np.asarray(row["embedding"], dtype=np.float32), row["id"])

    def _require_vector(self, vector: np.ndarray[Any, Any], whose: str) -> None:
        if vector.shape != (self._dimension,) or not np.isfinite(vector).all():
            raise BadModelReply(
                f"{whose} 的向量应为 {self._dimension} 维的数，实为 {vector.shape}",
                hint=f"嵌入模型须与集合 {self._name} 一致，或用 MilvusClient(dimension=…) 另建一个",
            )


def _fields(dimension: int) -> list[dict[str, Any]]:
    fields: list[dict[str, Any]] = [
        {"name": name, "type": "VARCHAR", "max_length": length} for name, length in TEXTS.items()
    ]
    fields[0] |= {"is_primary": True, "auto_id": False}
    fields.insert(2, {"name": "chunk_index", "type": "INT64"})
    fields.insert(4, {"name": "embedding", "type": "FLOAT_VECTOR", "dim": dimension})
    return fields


def _limits(schema: Sequence[Mapping[str, Any]]) -> tuple[dict[str, int], int]:
    """How many bytes each text may have, and the dimension, of a collection that may have been there already."""
    found = {field["name"]: field["params"] for field in schema}
    missing = [name for name in (*TEXTS, "chunk_index", "embedding") if name not in found]
    if missing:
        raise BadInput(f"集合里没有字段：{'、'.join(missing)}", hint="换一个集合名：MilvusClient(collection=…)")
    return {name: int(found[name]["max_length"]) for name in TEXTS}, int(found["embedding"]["dim"])


def _wanted(name: str, value: Any) -> Wanted:
    if name not in FILTERED:
        raise BadFilter(f"没有可过滤的字段：{name!r}", hint=f"可用字段：{'、'.join(FILTERED)}")
    values = list(value) if isinstance(value, (list, tuple, set, frozenset)) else [value]
    return tuple(_text(name, one) if name != "chunk_index" else _whole(name, one) for one in values)


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise BadFilter(f"{name} 是字符串，不能与 {value!r} 比较", hint="写成字符串，或字符串的列表")
    return value


def _whole(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value != int(value):
        raise BadFilter(f"{name} 是整数，不能与 {value!r} 比较", hint="写成整数，或整数的列表")
    return int(value)


def _hit(row: Mapping[str, Any]) -> Hit:
    plain = {name: row[name] for name in OUTPUT if name != "metadata_json"}
    return row["id"], float(row["distance"]), {**plain, "metadata": json.loads(row["metadata_json"] or "{}")}
