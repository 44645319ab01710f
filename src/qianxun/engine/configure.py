"""The configuration of a base: its keys, and what is refused before anything is stored.

Keys are dotted (``search.weights.vector``). A key that is absent leaves the choice to the settings.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from sqlalchemy import Connection

from qianxun.bases.base import OpenBase
from qianxun.core import plugins
from qianxun.core.errors import BadInput
from qianxun.core.layered_options import CHOICES, kind_of
from qianxun.core.options import CHECK_MODES, SearchOptions, check
from qianxun.core.types import KnowledgeBase
from qianxun.engine.settings import TRUTH
from qianxun.indexing.maintenance import rebuild
from qianxun.ingest.chunk import ChunkSplitter
from qianxun.records import bases
from qianxun.text.chinese import Analyser
from qianxun.text.synonyms import SHAPE, groups_of, read_groups, write_groups

LONGEST_TEXT: Final = 4_000  # characters of a prompt
KINDS: Final[Mapping[str, str]] = {
    "chunk_size": "整数",
    "chunk_overlap": "整数",
    "by_meaning": "true 或 false",
    "graph": "true 或 false",
    "dictionary": "词的列表",
    "synonyms": SHAPE,
    "qa_model": "模型名",
    "rewrite_model": "模型名",
    "chat_model": "模型名",
    "graph_model": "模型名",
    "vision_model": "模型名",
    "prompt": f"至多 {LONGEST_TEXT} 字的文字",
    "check": "strict、flag 或 off",
    "user_id": "用户编号",
    "search.top_k": "整数",
    "search.fusion": "weighted、min_max 或 rrf",
    "search.weights.vector": "数字",
    "search.weights.keyword": "数字",
    "search.rerank": "模型名",
    "search.fuzzy": "true 或 false",
    "search.arms": "名字的列表",
    "search.bm25_k1": "数字",
    "search.bm25_b": "数字",
    **{name: kind_of(name) for name in CHOICES},
}
ALWAYS: Final = ("chunk_size", "chunk_overlap")  # a base cannot be without them
MODEL_KEYS: Final = ("search.rerank", "qa_model", "rewrite_model", "chat_model", "graph_model", "vision_model")
WORDS: Final = 100_000
LONGEST: Final = 200  # characters of a name or a word


# ── the values ───────────────────────────────────────────────────────────────────────────────────


def flat(config: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Dotted name → value."""
    found: dict[str, Any] = {}
    for name, value in config.items():
        dotted = f"{above}{name}"
        found |= flat(value, f"{dotted}.") if isinstance(value, Mapping) else {dotted: value}
    return found


def changed(config: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration after the changes; None removes a key, or all below it. Raises BadInput."""
    values = flat(config)
    flat_changes = flat(changes)
    for name in (name for name, value in flat_changes.items() if value is None):
        below = [known for known in (*KINDS, *values) if known == name or known.startswith(f"{name}.")]
        if not below:
            raise _unknown(name)
        if name in ALWAYS:
            raise BadInput(f"{name} 不能去掉", hint="改成另一个整数")
        values = {known: value for known, value in values.items() if known not in below}
    for name, value in ((name, value) for name, value in flat_changes.items() if value is not None):
        values[name] = _checked(name, value)
    for name in (name for name in values if not _kind(name)):  # of a base that another version wrote
        raise _unknown(name)
    values |= _other_weight(values)
    nested = _nested(values)
    ChunkSplitter(nested["chunk_size"], nested["chunk_overlap"])
    search = nested.get("search", {})
    check(SearchOptions(**{**search, "arms": tuple(search.get("arms", ()))}))
    return nested


def read(name: str, text: str) -> Any:
    """A value as a person writes it; an empty text removes the key. Raises BadInput."""
    kind = _kind(name)
    text = text.strip()
    if not text:
        return None
    try:
        if kind == "整数":
            return int(text)
        if kind == "数字":
            return float(text)
        if kind == "true 或 false":
            return TRUTH[text.lower()]
    except (ValueError, KeyError) as error:
        raise _wrong(name, text) from error
    return _READ[name](text) if name in _READ else text


def write(name: str, value: Any) -> str:
    """A value as `read` takes it."""
    if isinstance(value, bool):
        return str(value).lower()
    if name == "synonyms":
        return write_groups(value)
    if isinstance(value, (list, tuple)):
        return ",".join(value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def _words(text: str) -> list[str]:
    return [word for word in text.replace("，", ",").replace("、", ",").split(",") if word]


_READ: Final[Mapping[str, Callable[[str], list[Any]]]] = {
    "dictionary": _words,
    "synonyms": read_groups,
    "search.arms": _words,
}
LISTS: Final = tuple(_READ)  # one can add to them and take from them


def _checked(name: str, value: Any) -> Any:
    kind = _kind(name)
    if not kind:
        raise _unknown(name)
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    bounds = CHOICES.get(name)
    if bounds is not None and is_number and not bounds.hold(value):
        raise BadInput(f"{name} 的值 {value!r} 不对", hint=f"应在 {bounds} 之间")
    if kind == "整数" and is_number and isinstance(value, int):
        return value
    if kind == "数字" and is_number:
        return float(value)
    if kind == "true 或 false" and isinstance(value, bool):
        return value
    if name == "dictionary":
        return _dictionary(value)
    if name == "synonyms":
        return groups_of(value)
    if (
        name == "search.arms"
        and isinstance(value, list)
        and all(isinstance(arm, str) and _is_name(arm) for arm in value)
    ):
        return value
    if name == "check" and value in CHECK_MODES:
        return value
    if kind == KINDS["prompt"] and isinstance(value, str) and _is_text(value):
        return value
    if kind in ("模型名", "用户编号", KINDS["search.fusion"]) and isinstance(value, str) and _is_name(value):
        return value
    raise _wrong(name, value)


def _kind(name: str) -> str:
    """What the value of a key is; "": there is no such key. Arms of other packages have weights of their own."""
    arm = name.removeprefix("search.weights.")
    return KINDS.get(name, KINDS["search.weights.vector"] if arm != name and arm in plugins.names("arm") else "")


def _dictionary(words: Any) -> list[str]:
    if isinstance(words, str) or not isinstance(words, Sequence) or not all(isinstance(word, str) for word in words):
        raise _wrong("dictionary", words)
    unique = list(dict.fromkeys(word.strip() for word in words))
    if len(unique) > WORDS or not all(_is_name(word) for word in unique):
        raise BadInput(f"词典里有空的、过长的或不可见的词，或超过 {WORDS} 个", hint=f"每个词 1–{LONGEST} 个字符")
    Analyser(unique)  # refuses what cannot be a word
    return unique


def _is_text(text: str) -> bool:
    return 0 < len(text.strip()) <= LONGEST_TEXT and "".join(text.split()).isprintable()


def _is_name(text: str) -> bool:
    return 0 < len(text.strip()) <= LONGEST and text.isprintable()


def _other_weight(values: Mapping[str, Any]) -> dict[str, float]:
    """With one weight alone the other makes it up to 1: a missing one would disable its arm."""
    names = ("search.weights.vector", "search.weights.keyword")
    given = [name for name in names if name in values]
    if len(given) != 1:
        return {}
    (other,) = set(names) - set(given)
    if not 0.0 <= values[given[0]] <= 1.0:
        raise BadInput(f"只给了 {given[0]}={values[given[0]]:g}，另一路补不足到 1", hint=f"把 {other} 也给出")
    return {other: round(1.0 - values[given[0]], 6)}


def _nested(values: Mapping[str, Any]) -> dict[str, Any]:
    config: dict[str, Any] = {}
    for name, value in values.items():
        *above, last = name.split(".")
        part = config
        for level in above:
            part = part.setdefault(level, {})
        part[last] = value
    return config


def _unknown(name: str) -> BadInput:
    return BadInput(f"知识库没有名为 {name} 的配置", hint=f"可用：{'、'.join(KINDS)}")


def _wrong(name: str, value: Any) -> BadInput:
    return BadInput(f"{name} 的值 {str(value)[:80]!r} 不对", hint=f"应为{_kind(name)}")


# ── an open base ─────────────────────────────────────────────────────────────────────────────────


async def rename(base: OpenBase, name: str) -> KnowledgeBase:
    """Raises AlreadyThere if another base of the tenant has the name."""

    def renamed(tx: Connection) -> KnowledgeBase:
        base.about = bases.rename(tx, base.id, name, tenant=base.about.tenant)
        return base.about

    async with base.configuring:
        return await base.records.write(renamed)


async def configure(base: OpenBase, changes: Mapping[str, Any], on_chunks: Callable[[int], None]) -> KnowledgeBase:
    """Stores the changes and applies them: to searches at once, to chunking with the next documents.

    A changed dictionary rebuilds the index; until that is done searches use the old one.
    """
    async with base.configuring:
        base.about = await asyncio.to_thread(_store, base, changes)
        config = base.about.config
        base.splitter = ChunkSplitter(config["chunk_size"], config["chunk_overlap"])
        base.by_meaning = bool(config.get("by_meaning")) and base.model is not None
        analyser = await asyncio.to_thread(Analyser, config.get("dictionary", ()))
        if analyser.version != base.index.stamp.analysis:
            base.analyser = analyser
            await rebuild(base, base.model, on_chunks)
        return base.about


def _store(base: OpenBase, changes: Mapping[str, Any]) -> KnowledgeBase:
    tenant = base.about.tenant
    with base.records.writing() as tx:
        config = changed(bases.get(tx, base.id, tenant=tenant).config, changes)
        bases.change_config(tx, base.id, config, tenant=tenant)
        return bases.get(tx, base.id, tenant=tenant)
