"""Results to rank, made by hand."""

from __future__ import annotations

from qianxun.core.types import Attributes, Chunk, Found, Metadata


def found(key: int, score: float, text: str = "", metadata: Metadata | None = None) -> Found:
    chunk = Chunk(
        key=key,
        chunk_id=f"c_1_文档_{key}",
        doc_id="文档",
        doc_name="手册",
        index=key,
        text=text or f"第 {key} 段",
        start=0,
        end=len(text),
        kind="text",
        headings=(),
        page=None,
        generation=1,
        attributes=Attributes("文档", metadata=metadata or {}),
    )
    return Found(chunk, score, "hybrid", {}, fused=score)
