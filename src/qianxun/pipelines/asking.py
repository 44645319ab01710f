"""What a search asks for: the document it names, the ways its question can be put, each with its terms and vector."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from qianxun.errors import BadQuery, QianxunError
from qianxun.homophones import corrections
from qianxun.pipelines.base import OpenBase, Serving
from qianxun.pipelines.rewriting import rewritten
from qianxun.records import listing
from qianxun.types import Degraded, Filter, In, Query, all_of

QUERY_LIMIT: Final = 2048
_MENTION: Final = re.compile(r"(?:(?<=\s)|^)[@＠](?:《([^》\n]+)》|\"([^\"\n]+)\"|“([^”\n]+)”|(\S+))")


@dataclass(frozen=True, slots=True)
class Asked:
    """The queries of one search. The first is the user's own; ``corrected`` counts how many of the last are guesses."""

    queries: tuple[Query, ...]
    named: frozenset[str] = frozenset()  # documents that the user named
    corrected: int = 0
    degraded: tuple[Degraded, ...] = ()

    @property
    def own(self) -> tuple[Query, ...]:
        """Without guessed corrections: by these a result is judged."""
        return self.queries[: len(self.queries) - self.corrected]

    @property
    def texts(self) -> tuple[str, ...]:
        return tuple(query.text for query in self.queries)


def check_text(text: str) -> None:
    if not text.strip():
        raise BadQuery("查询为空", hint="写出要找的内容")
    if len(text) > QUERY_LIMIT:
        raise BadQuery(f"查询有 {len(text)} 个字符，超过上限 {QUERY_LIMIT}", hint="缩短查询")


async def ask(
    base: OpenBase,
    serving: Serving,
    text: str,
    where: Filter,
    doc_ids: Sequence[str],
    *,
    fuzzy: bool,
    rewrite_seconds: float,
) -> Asked:
    """The queries of a search, without their vectors: the arms that want those wait for them."""
    text, named, unknown = await _mentions(base, text)
    if not text:
        raise BadQuery("只写了文档名，没有问题", hint="在 @文档名 之后写出要找的内容")
    named |= frozenset(doc_ids)
    if named:
        where = all_of(where, In("doc_id", tuple(sorted(named))))
    degraded = [Degraded("document", f"没有名为“{name}”的文档，已按普通文字检索") for name in unknown]
    texts = [text]
    if name := str(base.about.config.get("rewrite_model") or ""):
        others, failed = await _rewritten(base, name, text, rewrite_seconds)
        texts += others
        degraded += failed
    queries = [Query(each, base.analyser.analyse_query(each), None, where) for each in texts]
    guess = await corrections(text, base.analyser, serving.index.count) if fuzzy else None
    if guess is not None:
        queries.append(Query(guess, base.analyser.analyse_query(guess), None, where))
    return Asked(tuple(queries), named, 1 if guess is not None else 0, tuple(degraded))


async def _mentions(base: OpenBase, text: str) -> tuple[str, frozenset[str], list[str]]:
    """The text without its @文档名, the documents they name, and the names that no document has."""
    if "@" not in text and "＠" not in text:
        return text, frozenset(), []
    named: set[str] = set()
    unknown: list[str] = []
    for found in list(_MENTION.finditer(text)):
        name = next(part for part in found.groups() if part)
        held = await asyncio.to_thread(_documents, base, name)
        if held:
            named |= held
            text = text.replace(found.group(), " ", 1)
        else:
            unknown.append(name)
    return text.strip(), frozenset(named), unknown


def _documents(base: OpenBase, name: str) -> set[str]:
    with base.records.reading() as tx:
        return listing.named(tx, base.id, name)


async def _rewritten(base: OpenBase, name: str, text: str, seconds: float) -> tuple[list[str], list[Degraded]]:
    """Other ways to put the question, by the base's model, which is looked up for this very request."""
    try:
        if base.models is None:
            raise QianxunError(f"没有名为“{name}”的改写模型", hint="在设置中登记它，或去掉知识库的 rewrite_model")
        model = await in_model_thread(base, base.models.chat, name)
        found = await asyncio.wait_for(in_model_thread(base, rewritten, model, text), seconds)
    except TimeoutError:
        return [], [Degraded("rewrite", f"{seconds:g} 秒内没有答复，用原来的问题检索")]
    except QianxunError as error:
        return [], [Degraded("rewrite", str(error))]
    return list(found), []


async def in_model_thread(base: OpenBase, work: Callable[..., Any], *arguments: Any) -> Any:
    """Models have threads of their own: one that hangs takes none from the index or the records."""
    return await asyncio.get_running_loop().run_in_executor(base.model_threads, work, *arguments)
