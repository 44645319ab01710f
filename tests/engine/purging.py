"""What is corrected and purged over an index or a cache on a server: the same story for each of them."""

from __future__ import annotations

from qianxun.core.types import Document
from qianxun.engine.engine import Engine
from qianxun.records.governance.signing import is_signed

SECRET = "王小明住在梧桐路八十八号三单元，病历号为九零七七一二。"


async def correct_and_purge(engine: Engine, base: int) -> None:
    """Corrections change what is found, and are undone; everything of a user goes, and a signed receipt says so."""
    await engine.add_documents(base, [Document("病历", SECRET, user_id="u_9"), Document("须知", "挂号要带身份证。")])
    corrections, receipts = engine.governance.corrections, engine.governance.receipts

    async def texts(query: str) -> list[str]:
        return [found.chunk.text for found in (await engine.retrieve(base, query, top_k=20)).results]

    edited = await corrections.add(base, "edit", chunk_id=f"c_{base}_须知_0", text="挂号要带社保卡。")
    hidden = await corrections.add(base, "disable", chunk_id=f"c_{base}_病历_0")
    found = await texts("王小明挂号")
    assert "挂号要带社保卡。" in found
    assert not {SECRET, "挂号要带身份证。"} & {*found}
    for made in (edited, hidden):
        await corrections.undo(base, made.id)
    assert {SECRET, "挂号要带身份证。"} <= {*await texts("王小明挂号")}
    assert (await engine.admin.verify(base)).is_clean

    receipt = await receipts.purge_subject("u_9")
    left = {one.store: (one.removed, one.left) for one in receipt.removed}
    assert (receipt.is_complete, left["index.keywords"], left["index.vectors"]) == (True, (1, 0), (1, 0))
    assert is_signed(receipt)
    assert SECRET not in await texts("王小明挂号")
    assert (await engine.admin.verify(base)).is_clean
    await engine.delete_document(base, "须知")
