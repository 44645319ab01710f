"""Answers kept for a while under everything they depend on: a key that a write has made old is never asked again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from qianxun.core.ports import Cache
from qianxun.core.types import Generation, Recall
from qianxun.retrieve.replay import is_replaying

VERSION = 1  # of the ranking and of the written form: answers of another version are not ours

_canonical = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode


def cache_key(knowledge_base: int, query: str, params: Mapping[str, Any], generation: Generation) -> str:
    """``rag:retrieval:{kb_id}:{md5(query)}:{params_hash}:{generation}``.

    ``generation`` must have been read *before* the search: read afterwards, it could name a write that the answer
    does not know of.
    """
    asked = hashlib.md5(query.encode("utf-8", "surrogatepass"), usedforsecurity=False).hexdigest()
    told = _canonical({"version": VERSION, "params": params}).encode("utf-8", "surrogatepass")
    return f"rag:retrieval:{knowledge_base}:{asked}:{hashlib.sha256(told).hexdigest()[:32]}:{generation}"


async def get_cached(cache: Cache, key: str, query: str) -> Recall | None:
    """The answer kept under a key; another query's (md5 can be made to collide) is none."""
    found = None if is_replaying() else await cache.get(key)
    return found if found is not None and found.query == query else None


async def put_cached(cache: Cache, key: str, recall: Recall, seconds: float) -> None:
    """Keeps an answer. A degraded one is not kept: the next search may be whole again."""
    if not recall.degraded and not recall.from_cache and not is_replaying():
        await cache.put(key, recall, seconds)
