"""By which names people mean a document: its id, its name, the same without its ending, and how these fold."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

from qianxun.text.chinese import fold


def by_name(documents: Iterable[tuple[str, str]]) -> dict[str, set[str]]:
    """(id, name) of documents by every name that means them."""
    called: dict[str, set[str]] = {}
    for doc_id, name in documents:
        own = {doc_id, name, name.rpartition(".")[0]} - {""}
        for known in own | {plain_name(one) for one in own}:
            called.setdefault(known, set()).add(doc_id)
    return called


def plain_name(name: str) -> str:
    """發票 is 发票, ＲＡＧ is rag."""
    return fold(unicodedata.normalize("NFKC", name))


def first_letters(name: str) -> set[str]:
    """With which a document that is meant by this name may begin."""
    plain = plain_name(name[:1])[:1]
    return {name[:1], unicodedata.normalize("NFKC", name[:1])[:1], plain, plain.upper()}


def document_title(name: str) -> str:
    """A document's name without the ending of its file."""
    stem, dot, ending = name.rpartition(".")
    return stem if dot and ending.isascii() and ending.isalnum() and len(ending) <= 5 else name
