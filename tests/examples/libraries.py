"""Small example libraries for the tests, on either database."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import Engine, insert
from sqlalchemy.engine import make_url

from qianxun.core.ports import EmbeddingModel
from qianxun.core.types import Vector, Vectors
from qianxun.examples.library import PLAIN, ExampleLibrary, SearchSettings
from qianxun.examples.schema import embedded_text
from qianxun.examples.store import ExampleStore
from qianxun.records.database.open import connect, sqlite_url
from qianxun.testing.scripted import HashEmbedding, ScriptedEmbedding
from tests.servers.postgres import create_database, drop_database

MODEL = HashEmbedding(64)


@dataclass(frozen=True)
class Said:
    """One example."""

    user_input: str
    agent_response: str
    source: str = "qa_examples"
    tags: tuple[str, ...] = ()
    grade: str | None = None

    @property
    def text(self) -> str:
        return embedded_text(self.user_input, self.agent_response)


EXAMPLES = (
    Said("高血压能吃咸菜吗", "尽量少吃，盐会让血压升高。", tags=("饮食", "高血压"), grade="优秀"),
    Said("高血压能喝酒吗", "最好不喝，酒会影响降压药。", tags=("饮食", "高血压"), grade="良好"),
    Said("糖尿病能吃西瓜吗", "血糖平稳时可以少量吃。", tags=("饮食", "糖尿病"), grade="一般"),
    Said("头晕是怎么回事", "先测一次血压，休息后再看。", tags=("症状",)),
    Said("记一下今天的血压130/85", "好的，已记录血压130/85。", "record_examples", ("blood_pressure",), "优秀"),
    Said("早上吃了一片氨氯地平", "已记录：氨氯地平一片。", "record_examples", ("medication",), "良好"),
    Said("查一下我上周的血压", "上周您一共量了五次血压。", "query_examples", ("blood_pressure",), "优秀"),
    Said("我这个月吃了几次降压药", "这个月记录了十六次。", "query_examples", ("medication",)),
    Said("你好", "您好，我是您的健康助手。", "greeting_examples", ("开场白",), "优秀"),
    Said("谢谢你，再见", "不客气，祝您健康。", "greeting_examples", ("告别",), "一般"),
)


def broken_model(dimension: int = 64) -> ScriptedEmbedding:
    """The model the library was made by, of which nothing but the name is left."""
    return ScriptedEmbedding(dimension, error=RuntimeError("权重文件损坏"), on="queries")


def fill(store: ExampleStore, examples: Sequence[Said] = EXAMPLES) -> None:
    vectors = store.model.embed_passages([each.text for each in examples])
    insert_rows(store, [(each, vector) for each, vector in zip(examples, vectors, strict=True)])


def insert_rows(store: ExampleStore, rows: Sequence[tuple[Said, Vector]]) -> None:
    store.prepare()
    with store.writing() as connection:
        for source, table in store.tables.items():
            here = [_row(each, vector) for each, vector in rows if each.source == source]
            if here:
                connection.execute(insert(table), here)


def _row(said: Said, vector: Vector) -> Mapping[str, Any]:
    return {
        "user_input": said.user_input,
        "agent_response": said.agent_response,
        "tags": list(said.tags),
        "quality_grade": said.grade,
        "embedding": vector,
    }


def lying_at(cosine: float, dimension: int = 64) -> Vector:
    """A unit vector so near to the first axis."""
    vector = np.zeros(dimension, dtype=np.float32)
    vector[0], vector[1] = cosine, np.sqrt(1.0 - cosine**2)
    return vector


FIRST_AXIS = lying_at(1.0)


def clustered(count: int, dimension: int, clusters: int, seed: int) -> Vectors:
    """Unit vectors around so many centres, as texts on so many subjects would lie."""
    random = np.random.default_rng(seed)
    centres = random.normal(size=(clusters, dimension)).astype(np.float32)
    centres /= np.linalg.norm(centres, axis=1, keepdims=True)
    spread = random.normal(size=(count, dimension)).astype(np.float32) * (0.8 / np.sqrt(dimension))
    vectors = centres[random.integers(clusters, size=count)] + spread
    unit: Vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    return unit


def database_url(kind: str, folder: Path, request: pytest.FixtureRequest) -> str:
    """``kind`` is sqlite or postgres; the latter asks for the test's own database, which is empty."""
    if kind == "sqlite":
        return sqlite_url(folder / "examples.db")
    url: str = request.getfixturevalue("postgres_url")
    return url


def library_url(kind: str, folder: Path, request: pytest.FixtureRequest) -> str:
    """As `database_url`, with an empty library of `MODEL` in it: copied, for its tables take longest to make."""
    if kind == "sqlite":
        return database_url(kind, folder, request)
    server: str = request.getfixturevalue("postgres_maintenance_url")
    if server not in _TEMPLATES:
        _TEMPLATES[server] = template = create_database(server)
        request.session.addfinalizer(lambda: drop_database(server, _TEMPLATES.pop(server)))
        with opened(template) as library:
            library.store.prepare()
    url = create_database(server, str(make_url(_TEMPLATES[server]).database))
    request.addfinalizer(lambda: drop_database(server, url))
    return url


_TEMPLATES: dict[str, str] = {}  # by server


@contextmanager
def opened(
    url: str, model: EmbeddingModel = MODEL, settings: SearchSettings = PLAIN, prefix: str = "gd2502_"
) -> Iterator[ExampleLibrary]:
    engine: Engine = connect(url)
    library = ExampleLibrary(ExampleStore(engine, prefix, model), settings)
    try:
        yield library
    finally:
        library.close()
        engine.dispose()
