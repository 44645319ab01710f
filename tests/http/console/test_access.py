"""Who may see a document, on its page: the labels are shown, set, and taken away again."""

from __future__ import annotations

import asyncio
from pathlib import Path

from qianxun.core.types import Document
from tests.http.console.browsing import browsing, text_of


def test_labels_are_shown_and_set_where_the_document_is(tmp_path: Path) -> None:
    async def story() -> None:
        async with browsing(tmp_path) as browser:
            base = await browser.service.base(Document("薪酬", "薪酬保密。", name="薪酬.txt"))
            page, path = f"/console/bases/{base}/document?doc=薪酬", f"/console/bases/{base}/access"
            assert "人人可见" in text_of((await browser.open(page)).text)
            shown = await browser.submit(page, path, {"doc": "薪酬", "labels": "group:人事，user:alice"})
            assert shown.status_code == 200
            engine = browser.service.engine
            assert (await engine.document(base, "薪酬")).access == ("group:人事", "user:alice")
            assert await engine.as_principal("user:bob").documents(base) == []
            assert "group:人事" in text_of(shown.text)
            refused = await browser.submit(page, path, {"doc": "薪酬", "labels": "<b>"})
            assert refused.status_code == 400
            await browser.submit(page, path, {"doc": "薪酬", "labels": "", "inherit": "yes"})
            assert (await engine.document(base, "薪酬")).access == ()

    asyncio.run(story())
