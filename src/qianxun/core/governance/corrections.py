"""What people correct: a chunk, a document, the results of a question. Each correction is a record of its own.

A correction of a chunk is anchored by content: by the chunk's own words (`Anchor`), not by its number or place. So it
is found again when the document is parsed, cut or embedded anew, and set aside (``needs_a_look``) when its words are
gone. `Correction` is the record, `NewCorrection` what people give, `Corrected` what a chunk says of itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, TypedDict

from qianxun.core.errors import BadInput
from qianxun.core.filters import Metadata, MetadataValue, read_scalar
from qianxun.core.limits import QUERY_LIMIT
from qianxun.core.unicode import is_storable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

CorrectionKind: TypeAlias = Literal[
    "edit", "disable", "split", "join", "keywords", "questions", "note",
    "disable_document", "rename", "metadata",
    "pin", "exclude",
]  # fmt: skip
OF_CHUNKS: Final = ("edit", "disable", "split", "join", "keywords", "questions", "note")
OF_DOCUMENTS: Final = ("disable_document", "rename", "metadata")
OF_QUESTIONS: Final = ("pin", "exclude")
KINDS: Final[tuple[str, ...]] = (*OF_CHUNKS, *OF_DOCUMENTS, *OF_QUESTIONS)

CorrectionState: TypeAlias = Literal["proposed", "applied", "needs_a_look", "undone"]
STATES: Final = ("proposed", "applied", "needs_a_look", "undone")
ACTIVE: Final = ("applied", "needs_a_look")  # those that are looked for in every new version of their document

TEXT_LIMIT: Final = 20_000  # characters of an edited chunk
NOTE_LIMIT: Final = 2_000
KEYWORDS_LIMIT: Final = 50  # keywords, or questions, of one correction
KEYWORD_LIMIT: Final = 100  # characters
PARTS_LIMIT: Final = 50  # that a chunk is split into
AUTHOR_LIMIT: Final = 128
NAME_LIMIT: Final = 512  # characters of a document's name
METADATA_LIMIT: Final = 50  # names that one correction gives values

QUESTION_ORIGIN: Final = "correction"  # correction:<id> is where a question of a chunk comes from
LIKE: Final = 0.93
"""The cosine from which a question counts as one like a rule's own, where the rule names none."""


@dataclass(frozen=True, slots=True)
class Anchor:
    """The words that a correction is about, with what stood around them: `ingest.anchors` finds them again.

    Space does not count: another parser breaks lines elsewhere.
    """

    quote: str  # the chunk's own text in its document, without a repeated table header
    before: str = ""  # the characters before it, without space
    after: str = ""
    headings: tuple[str, ...] = ()
    place: int = 0  # how many characters stand before it in the document, without space
    copies: int = 1  # how often the document had these words
    digest: str = ""  # of the document's text: as long as it is the same, the place is exact
    chunk_id: str = ""  # as it was called then, for people


@dataclass(frozen=True, slots=True)
class Change:
    """What a correction changes; every kind uses the fields that are its own."""

    text: str = ""  # edit: in the place of the chunk's text
    parts: tuple[str, ...] = ()  # split: what the chunk becomes, in order
    keywords: tuple[str, ...] = ()
    questions: tuple[str, ...] = ()  # that the chunk answers
    note: str = ""
    name: str = ""  # rename
    metadata: Metadata = field(default_factory=dict)
    removed: tuple[str, ...] = ()  # metadata: names that have no value any more
    question: str = ""  # pin, exclude
    like: float = LIKE  # pin, exclude: the least cosine of a question that counts as the same; 1: only the same words


class ChangeFields(TypedDict, total=False):
    """`Change` as keyword arguments."""

    text: str
    parts: tuple[str, ...]
    keywords: tuple[str, ...]
    questions: tuple[str, ...]
    note: str
    name: str
    metadata: Metadata
    removed: tuple[str, ...]
    question: str
    like: float


NO_CHANGE: Final = Change()


@dataclass(frozen=True, slots=True)
class NewCorrection:
    """A correction as people give it: of the chunks ``chunk_ids``, or of the document ``doc_id``."""

    kind: CorrectionKind
    chunk_ids: tuple[str, ...] = ()
    doc_id: str = ""
    change: Change = NO_CHANGE
    author: str = ""
    origin: str = "given"  # or log:<id>, the search whose rating proposed it


@dataclass(frozen=True, slots=True)
class Correction:
    """One correction of record. ``reason`` says why it needs a look, or what became of it."""

    id: int
    knowledge_base_id: int
    doc_id: str
    kind: CorrectionKind
    change: Change
    anchor: Anchor | None = None  # None: of a whole document
    state: CorrectionState = "applied"
    reason: str = ""
    author: str = ""
    origin: str = "given"
    created_at: datetime = datetime(1970, 1, 1, tzinfo=UTC)
    undone_by: str = ""
    undone_at: datetime | None = None
    original: Mapping[str, MetadataValue | None] = field(default_factory=dict)  # what a rename or metadata replaced
    chunk_ids: tuple[str, ...] = ()  # the chunks that have it now; filled in where corrections are shown

    @property
    def is_active(self) -> bool:
        return self.state in ACTIVE


@dataclass(frozen=True, slots=True)
class Corrected:
    """What corrections did to one chunk, as it says itself wherever it is shown."""

    ids: tuple[int, ...]
    original: str | None = None  # the document's own text, where the chunk's was edited
    keywords: tuple[str, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True)
class CorrectionOutcome:
    """What became of a correction in one version of its document."""

    id: int
    state: CorrectionState
    reason: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class QuestionRule:
    """A pin or an exclusion that is applied, as searches use it."""

    id: int
    kind: CorrectionKind
    question: str
    like: float
    chunk_keys: tuple[int, ...]
    model: str = ""  # of the vector
    vector: NDArray[np.float32] | None = None  # of unit length
    plain: str = ""  # the question by its letters and figures alone


@dataclass(frozen=True, slots=True)
class CorrectionQuery:
    """Which corrections to list; what is empty does not narrow."""

    state: str = ""
    kind: str = ""
    doc_id: str = ""
    chunk_id: str = ""


def read_metadata_lines(lines: Iterable[str]) -> ChangeFields:
    """``键=值`` as people type it: numbers and truths as such, all else as written; ``键`` alone takes it away."""
    pairs = [line.partition("=") for line in lines]
    given: Metadata = {key.strip(): read_scalar(value.strip()) for key, sign, value in pairs if sign}
    return {"metadata": given, "removed": tuple(key.strip() for key, sign, _ in pairs if not sign)}


def checked_correction(new: NewCorrection) -> NewCorrection:
    """The same, with its texts trimmed. Raises BadInput for what is no correction of its kind."""
    if new.kind not in KINDS:
        raise BadInput(f"没有“{str(new.kind)[:40]}”这种更正", hint=f"可用：{'、'.join(KINDS)}")
    _check_target(new)
    change = _trimmed(new.change)
    if not all(map(is_storable, (new.author, *_texts(change)))):
        raise BadInput("更正里有空字符（NUL）或不成对的代理字符", hint="先去除这些字符再提交")
    if new.kind in OF_QUESTIONS:
        _require(change.question, "question", QUERY_LIMIT, "写出这条规则管的是哪个问题")
        if not 0.0 < change.like <= 1.0:
            raise BadInput(f"like 为 {change.like}", hint="在 0 与 1 之间；1 表示只管一字不差的问题")
    else:
        _CHECKS.get(new.kind, _no_check)(change)
    if len(new.author) > AUTHOR_LIMIT:
        raise BadInput(f"author 不得超过 {AUTHOR_LIMIT} 个字符", hint="写人的名字或编号")
    return NewCorrection(new.kind, new.chunk_ids, new.doc_id, change, new.author.strip(), new.origin)


def _check_target(new: NewCorrection) -> None:
    if new.kind in OF_DOCUMENTS:
        if not new.doc_id or new.chunk_ids:
            raise BadInput(f"{new.kind} 更正的是整个文档", hint="给出 doc_id，不要给出片段")
        return
    if new.doc_id:
        raise BadInput(f"{new.kind} 更正的是片段", hint="给出片段的编号（chunk_id），不要给出 doc_id")
    few, most = (2, PARTS_LIMIT) if new.kind == "join" else (1, 1)
    if not few <= len(new.chunk_ids) <= most:
        reason = "join 要两个以上相邻的片段" if new.kind == "join" else f"{new.kind} 一次更正一个片段"
        raise BadInput(reason, hint="检索结果与文档页里有片段的编号（chunk_id）")


def _trimmed(change: Change) -> Change:
    return Change(
        change.text.strip(),
        tuple(part.strip() for part in change.parts),
        tuple(dict.fromkeys(word.strip() for word in change.keywords if word.strip())),
        tuple(dict.fromkeys(question.strip() for question in change.questions if question.strip())),
        change.note.strip(),
        change.name.strip(),
        {name: value for name, value in change.metadata.items() if value is not None},
        tuple(dict.fromkeys((*change.removed, *(n for n, value in change.metadata.items() if value is None)))),
        change.question.strip(),
        change.like,
    )


def _texts(change: Change) -> Iterator[str]:
    yield from (change.text, change.note, change.name, change.question)
    yield from (*change.parts, *change.keywords, *change.questions, *change.removed)
    for name, value in change.metadata.items():
        yield name
        yield from (str(item) for item in (value if isinstance(value, tuple) else (value,)))


def _require(text: str, name: str, limit: int, hint: str) -> None:
    if not text:
        raise BadInput(f"没有写 {name}", hint=hint)
    if len(text) > limit:
        raise BadInput(f"{name} 有 {len(text)} 个字符，超过上限 {limit}", hint="缩短后再提交")


def _require_some(texts: tuple[str, ...], name: str, limit: int) -> None:
    if not 0 < len(texts) <= KEYWORDS_LIMIT:
        raise BadInput(f"{name} 要 1–{KEYWORDS_LIMIT} 个", hint="去掉空的；太多时分几次")
    if longest := max(map(len, texts)) > limit and max(texts, key=len):
        raise BadInput(f"{name} 里的“{longest[:20]}…”超过 {limit} 个字符", hint="缩短后再提交")


def _check_split(change: Change) -> None:
    if not 2 <= len(change.parts) <= PARTS_LIMIT or not all(change.parts):
        raise BadInput(f"split 要写出拆成的 2–{PARTS_LIMIT} 段文字，都不为空", hint="各段连起来须是原来的文字")


def _check_metadata(change: Change) -> None:
    if not 0 < len(change.metadata) + len(change.removed) <= METADATA_LIMIT:
        raise BadInput(f"metadata 要 1–{METADATA_LIMIT} 个键", hint="值为空（null）表示去掉这个键")


def _no_check(_: Change) -> None:
    """disable, join and disable_document say all with their kind."""


_CHECKS: Final = {
    "edit": lambda change: _require(change.text, "text", TEXT_LIMIT, "写出改后的全文；要去掉这一段，用 disable"),
    "split": _check_split,
    "keywords": lambda change: _require_some(change.keywords, "keywords", KEYWORD_LIMIT),
    "questions": lambda change: _require_some(change.questions, "questions", QUERY_LIMIT),
    "note": lambda change: _require(change.note, "note", NOTE_LIMIT, "写出备注"),
    "rename": lambda change: _require(change.name, "name", NAME_LIMIT, "写出新的名称"),
    "metadata": _check_metadata,
}
