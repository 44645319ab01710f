"""Extraction of facts by a language model: several short chunks per call, each checked against its own text.

Only chunks of one document share a call: the text of one document, or instructions in it, cannot affect the facts of
another.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeVar

from qianxun.core.errors import BadModelReply, ModelUnavailable
from qianxun.core.graph_types import LlmCost
from qianxun.core.ports import ChatModel
from qianxun.core.types import Message
from qianxun.graph.extract.lexicon import system_prompt
from qianxun.graph.extract.llm_reply import CheckedReply, Extracted, check_reply
from qianxun.text.tokens import tokens

CALL_CHUNKS: Final = 6
CALL_TOKENS: Final = 2_000  # of text; a longer chunk gets a call of its own
TEXT_LIMIT: Final = 12_000  # characters of one chunk that are shown
TITLE_LIMIT: Final = 300
FAULT_LIMIT: Final = 300
REPLY_SHARE: Final = 1.5  # reply tokens per text token: prose full of names takes 1.4
REPLY_FRAME: Final = 40  # and per chunk

_MARK: Final = re.compile(r"[<＜](?=\s{0,4}[/／]?\s{0,4}资料)")


class TextChunk(Protocol):
    """A chunk with all that extraction uses."""

    @property
    def document_key(self) -> int: ...
    @property
    def text(self) -> str: ...
    @property
    def headings(self) -> tuple[str, ...]: ...
    @property
    def doc_name(self) -> str: ...


Chunk = TypeVar("Chunk", bound=TextChunk)


@dataclass(frozen=True, slots=True)
class BatchResult:
    """The place of a chunk in its batch → what was extracted, or why it could not be.

    ``outage``: the model was unavailable; chunks without an entry were not read for that reason.
    """

    extracted: Mapping[int, Extracted] = field(default_factory=dict)
    faults: Mapping[int, str] = field(default_factory=dict)
    outage: ModelUnavailable | None = None
    calls: int = 0


def batches(chunks: Iterable[Chunk]) -> Iterator[tuple[Chunk, ...]]:
    """Groups neighbouring short chunks of one document. Deterministic."""
    batch: list[Chunk] = []
    size = 0
    for chunk in chunks:
        cost = tokens(_shown(chunk))
        is_other = bool(batch) and batch[0].document_key != chunk.document_key
        if batch and (is_other or len(batch) == CALL_CHUNKS or size + cost > CALL_TOKENS):
            yield tuple(batch)
            batch, size = [], 0
        batch.append(chunk)
        size += cost
    if batch:
        yield tuple(batch)


def estimate(chunks: Iterable[TextChunk]) -> LlmCost:
    """The cost of extracting from these chunks, before any call."""
    frame = tokens(system_prompt("extract"))
    total = LlmCost()
    for batch in batches(chunks):
        texts = sum(tokens(chunk.text[:TEXT_LIMIT]) for chunk in batch)
        reply = int(REPLY_SHARE * texts) + REPLY_FRAME * len(batch)
        total += LlmCost(1, frame + tokens(_prompt(batch)), reply, len(batch))
    return total


def extract_batch(model: ChatModel, batch: Sequence[TextChunk]) -> BatchResult:
    """Extracts from a batch; chunks with an unusable reply are tried again once, with the fault in the prompt.

    If all of them failed, they are split in two halves: a truncated reply was too long. At most three calls.
    """
    try:
        first = _call(model, batch, "")
    except ModelUnavailable as error:
        return BatchResult(outage=error, calls=1)
    extracted = dict(first.extracted)
    faults: dict[int, str] = {}
    missing = [at for at in range(len(batch)) if at not in extracted]
    calls = 1
    for group in _groups(missing, len(batch)):
        calls += 1
        try:
            again = _call(model, [batch[at] for at in group], first.fault)
        except ModelUnavailable as error:
            return BatchResult(extracted, faults, error, calls)
        extracted |= {group[place]: found for place, found in again.extracted.items()}
        faults |= {at: again.fault for place, at in enumerate(group) if place not in again.extracted}
    return BatchResult(extracted, faults, calls=calls)


def _groups(missing: Sequence[int], count: int) -> list[Sequence[int]]:
    if len(missing) < 2 or len(missing) < count:
        return [missing] if missing else []
    middle = len(missing) // 2
    return [missing[:middle], missing[middle:]]


def _call(model: ChatModel, batch: Sequence[TextChunk], fault: str) -> CheckedReply:
    """On the second try, usable parts of a reply are enough."""
    again = f"\n\n上一次的回复不能用：{quoted(fault)[:FAULT_LIMIT]}。请改正，只输出那个 JSON 对象。" if fault else ""
    try:
        reply = model.complete((Message("system", system_prompt("extract")), Message("user", _prompt(batch) + again)))
    except BadModelReply as error:
        return CheckedReply({}, error.message)
    return check_reply(reply, [chunk.text for chunk in batch], list(map(_title, batch)), strict=not fault)


def _prompt(batch: Sequence[TextChunk]) -> str:
    shown = (f'<资料 n="{at}">\n{_shown(chunk)}\n</资料>' for at, chunk in enumerate(batch, 1))
    return "\n".join((*shown, f"以上共 {len(batch)} 段。"))


def _shown(chunk: TextChunk) -> str:
    """A chunk as data: it cannot close its quotation, nor open another."""
    title = _title(chunk)
    return quoted(f"出处：{title}\n{chunk.text[:TEXT_LIMIT]}" if title else chunk.text[:TEXT_LIMIT])


def _title(chunk: TextChunk) -> str:
    """Document name and headings in one line."""
    return " ".join(" > ".join(filter(None, (chunk.doc_name, *chunk.headings))).split())[:TITLE_LIMIT]


def quoted(text: str) -> str:
    """The text with its quotation marks (<资料>) disarmed, however they are written."""
    return _MARK.sub(lambda found: found.group().replace("<", "〈").replace("＜", "〈"), text)
