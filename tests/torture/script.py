"""What a writer does and says while it waits to be killed: operations, and the texts they carry."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from random import Random
from typing import Literal, TypeAlias

from qianxun.core.types import Document
from qianxun.testing.scripted import HashEmbedding

Kind: TypeAlias = Literal["put", "accept", "delete", "drain", "rebuild"]
BASE = "折磨"
MODELS = ("fake-64", "fake-32")
DOCUMENTS = 24  # per hand: few enough that updates and deletes meet what is there
LARGE = 15_000  # characters of the large document
MIXTURE: dict[Kind, int] = {"put": 8, "accept": 5, "delete": 3, "drain": 1, "rebuild": 0}
REBUILDING: dict[Kind, int] = {"put": 2, "accept": 2, "delete": 1, "drain": 0, "rebuild": 6}


def models() -> dict[str, HashEmbedding]:
    return {name: HashEmbedding(int(name.removeprefix("fake-"))) for name in MODELS}


@dataclass(frozen=True, slots=True)
class Operation:
    """``version`` makes its texts unlike all others; ``doc_ids`` are written in one call."""

    kind: Kind
    version: int
    doc_ids: tuple[str, ...] = ()
    model: str = ""

    def line(self, word: str) -> bytes:
        return json.dumps([word, asdict(self)], ensure_ascii=False).encode() + b"\n"

    @staticmethod
    def heard(line: bytes) -> tuple[str, Operation]:
        word, told = json.loads(line)
        return word, Operation(told["kind"], told["version"], tuple(told["doc_ids"]), told["model"])


def draw(chance: Random, hand: str, version: int, mixture: dict[Kind, int]) -> Operation:
    kind = chance.choices(list(mixture), list(mixture.values()))[0]
    if kind == "drain":
        return Operation(kind, version)
    if kind == "rebuild":
        return Operation(kind, version, model=chance.choice(MODELS))
    several = chance.choice([1, 1, 1, 2, 5, 15]) if kind != "delete" else 1
    numbers = chance.sample(range(DOCUMENTS), several)
    return Operation(kind, version, tuple(f"{hand}{number}" for number in numbers))


def token(version: int) -> str:
    return f"zq{version}k"


def content(doc_id: str, version: int) -> str:
    """Unlike every other version's; long for the document that is number 7 of its hand."""
    first = f"编号 {token(version)}，文档 {doc_id}。"
    size = LARGE if doc_id.endswith("7") and len(doc_id) == 2 else 100 + version % 900
    sentence = f"第{version % 97}条：参保人员住院发生的费用，按照规定的比例由统筹基金支付。"
    return first + sentence * (size // len(sentence))


def documents_of(operation: Operation) -> Sequence[Document]:
    return [Document(doc_id, content(doc_id, operation.version), name=doc_id) for doc_id in operation.doc_ids]
