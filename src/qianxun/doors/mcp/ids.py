"""Ids of what the tools name, and addresses at which people find it.

A document is ``{knowledge base}/{document}``. The base is a number, so that the first slash ends it, however many the
document's own id holds. A passage goes by the id of its chunk.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias
from urllib.parse import quote, unquote

from qianxun.core.errors import BadInput
from qianxun.core.types import Metadata

SCHEME: Final = "qianxun://"
SHOWN: Final = 80  # characters of an id in a message

# No longer than the records can hold.
_DOCUMENT: Final = re.compile(r"([0-9]{1,18})/(.+)", re.DOTALL)
_CHUNK: Final = re.compile(r"c_([0-9]{1,18})_(.+)_([0-9]{1,18})", re.DOTALL)

Address: TypeAlias = Callable[[int, str], str]  # of a document in a base


@dataclass(frozen=True, slots=True)
class PassageId:
    """A document, or one of its chunks."""

    knowledge_base: int
    doc_id: str
    chunk: int | None = None


def document_id(knowledge_base: int, doc_id: str) -> str:
    return f"{knowledge_base}/{doc_id}"


def read_id(written: str) -> PassageId:
    """Of a document, also as `local_address` writes it, or of a chunk. Raises BadInput for anything else."""
    text = written.lstrip()
    if text.startswith(SCHEME):
        text = unquote(text.removeprefix(SCHEME))
    if found := _DOCUMENT.fullmatch(text):
        return PassageId(int(found[1]), found[2])
    if found := _CHUNK.fullmatch(text):
        return PassageId(int(found[1]), found[2], int(found[3]))
    raise BadInput(
        f"看不懂编号“{written[:SHOWN]}”", hint="用 search 结果里的 id，例如 1001/手册.md；或 retrieve 结果里的 id"
    )


def local_address(knowledge_base: int, doc_id: str) -> str:
    """Where there is no service: a name for it, at which nothing answers."""
    return f"{SCHEME}{knowledge_base}/{quote(doc_id, safe='')}"


def service_address(url: str) -> Address:
    """At which a service tells of the document."""
    bases = f"{url.rstrip('/')}/v1/knowledge-bases"
    return lambda knowledge_base, doc_id: f"{bases}/{knowledge_base}/documents/{quote(doc_id, safe='')}"


def own_url(metadata: Metadata) -> str:
    """Where a document says itself that it is from; "" where it does not, or not in a way that a browser follows."""
    urls = (metadata.get(name) for name in ("url", "source_url"))
    return next((url for url in urls if isinstance(url, str) and _is_web(url)), "")


def _is_web(url: str) -> bool:
    return url.lower().startswith(("http://", "https://"))
