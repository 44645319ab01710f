"""A receipt of a deletion: what was removed from where, as read afterwards; signed, and checked without any service.

It names what was deleted by salted digests: who knows the id of a document can see that the receipt is about it, and
who does not learns nothing from it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal, TypeAlias

from qianxun.core.codec.plain import plain, read
from qianxun.core.errors import BadInput

FORMAT: Final = "qianxun deletion receipt"
VERSION: Final = 1
ReceiptKind: TypeAlias = Literal["documents", "subject", "knowledge_base"]


@dataclass(frozen=True, slots=True)
class Removed:
    """One place of what was deleted: how much was there, and how much was read there afterwards."""

    store: str  # records.chunks, index.vectors, cache.answers …
    removed: int
    left: int  # read after the deletion; -1: it cannot be read, and the note says why
    note: str = ""


@dataclass(frozen=True, slots=True)
class Scanned:
    """The files of the data folder, read byte by byte for passages of the deleted texts."""

    files: int
    bytes: int
    passages: int  # that were searched for, in every encoding
    encodings: tuple[str, ...]
    found: tuple[str, ...] = ()  # files with a passage that no living document has
    shared: int = 0  # passages that living documents, or logged searches, have, too: they may be found


@dataclass(frozen=True, slots=True)
class KnownCopy:
    """An export or copy of what was deleted, made before: it is out of our hands."""

    made_at: str
    kind: str  # base.export, database.copy
    place: str


@dataclass(frozen=True, slots=True)
class Receipt:
    """What a deletion did. ``is_purged``: the bytes were rewritten, too, and `scan` says what was found of them."""

    id: str
    kind: ReceiptKind
    tenant: str
    knowledge_base_id: int  # 0: of several
    created_at: datetime
    who: str
    documents: int
    salt: str
    names: tuple[str, ...]  # `name_digest` of the ids of documents, or of the user
    is_purged: bool
    removed: tuple[Removed, ...]
    scan: Scanned | None = None
    copies: tuple[KnownCopy, ...] = ()
    notes: tuple[str, ...] = ()  # what was not, or cannot be, proved
    algorithm: str = ""  # ed25519, or hmac-sha256 where no other is installed
    public_key: str = ""  # hexadecimal; "" of hmac-sha256
    signature: str = ""

    @property
    def is_complete(self) -> bool:
        """Whether nothing that can be read was found to be left, and the files of a purge were read."""
        is_clean = not self.scan.found if self.scan is not None else not self.is_purged
        return is_clean and all(removed.left <= 0 for removed in self.removed)


@dataclass(frozen=True, slots=True)
class ReceiptVerdict:
    """What is known of a receipt without asking anybody."""

    id: str
    is_signed: bool  # by the key that it names: not a byte was changed since
    is_trusted: bool | None  # by the key that was expected; None: no key was given to compare with
    is_complete: bool
    key: str
    names: Mapping[str, bool]  # of the ids that were asked about: whether the receipt is about them


def name_digest(salt: str, name: str) -> str:
    return hashlib.sha256(f"{salt}\0{name}".encode("utf-8", "surrogatepass")).hexdigest()


def matched(receipt: Receipt, names: Sequence[str]) -> dict[str, bool]:
    return {name: name_digest(receipt.salt, name) in receipt.names for name in names}


def signed_bytes(receipt: Receipt) -> bytes:
    """What the signature covers: all but itself, in one way of writing it."""
    written = {"format": FORMAT, "version": VERSION, **plain(receipt)}
    del written["signature"]
    return json.dumps(written, ensure_ascii=True, separators=(",", ":"), sort_keys=True).encode()


def written_receipt(receipt: Receipt) -> dict[str, Any]:
    """As it is stored, sent and written to a file."""
    return {"format": FORMAT, "version": VERSION, **plain(receipt), "is_complete": receipt.is_complete}


def read_receipt(text: str) -> Receipt:
    """Raises BadInput for what is no receipt."""
    try:
        written = json.loads(text)
        if written.get("format") != FORMAT or written["version"] > VERSION:
            raise ValueError
        known = {name: value for name, value in written.items() if name in Receipt.__dataclass_fields__}
        return read(Receipt, known)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadInput("这不是删除凭证，或是更新的版本写的", hint="给出 qianxun receipts show 保存的文件") from error
