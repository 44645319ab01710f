"""Corrections on the pages: a chunk edited where it is shown, its original one click away; proposals decided."""

from __future__ import annotations

import asyncio
from pathlib import Path

from qianxun.core.log_types import Feedback
from qianxun.core.types import Document
from tests.http.console.browsing import browsing, text_of
from tests.http.served import issue

LIBRARY = (
    Document("住院", "住院报销比例为百分之八十五。起付线为八百元。", name="住院.txt"),
    Document("门诊", "门诊报销比例为百分之六十。", name="门诊.txt"),
)


def test_a_chunk_is_edited_on_its_page_and_its_original_is_one_click_away(tmp_path: Path) -> None:
    async def story() -> None:
        async with browsing(tmp_path) as browser:
            base = await browser.service.base(*LIBRARY)
            page = f"/console/bases/{base}/document?doc=住院"
            path = f"/console/bases/{base}/corrections"
            chunk = f"c_{base}_住院_0"
            fields = {"kind": "edit", "chunk": chunk, "doc": "住院", "text": "住院报销<b>九成</b>。"}
            shown = await browser.submit(page, path, fields)
            assert shown.status_code == 200
            assert "住院报销&lt;b&gt;九成&lt;/b&gt;。" in shown.text
            assert "<b>九成" not in shown.text
            assert "已改写" in text_of(shown.text)
            assert "住院报销比例为百分之八十五。起付线为八百元。" in text_of(shown.text)  # in the details below it
            listed = await browser.open(path)
            assert "改写" in text_of(listed.text)
            (one,) = await browser.service.engine.governance.corrections.page(base)
            assert (one.state, one.author) == ("applied", "local")
            found = await browser.open("/console/bench", base=base, q="住院报销")
            assert "已改写，看原文" in text_of(found.text)
            assert 'name="question" value="住院报销"' in found.text
            rule = {"kind": "pin", "chunk": f"c_{base}_门诊_0", "question": "住院报销"}
            await browser.submit(path, path, rule)
            again = await browser.open("/console/bench", base=base, q="住院报销")
            assert "先给" in text_of(again.text)
            undone = await browser.submit(page, f"{path}/{one.id}/undo", {"doc": "住院"})
            assert "已改写" not in text_of(undone.text)
            parts = "住院报销比例为百分之八十五。\r\n\r\n起付线为八百元。"
            divided = await browser.submit(page, path, {"kind": "split", "chunk": chunk, "doc": "住院", "text": parts})
            assert [one.text for one in await browser.service.engine.chunks(base, "住院")] == parts.split("\r\n\r\n")
            assert f'name="chunk" value="{chunk[:-1]}1"' in divided.text  # to be joined with
            corrections = browser.service.engine.governance.corrections
            split = (await corrections.page(base))[-1]
            both = {"kind": "join", "chunk": [chunk, f"{chunk[:-1]}1"], "doc": "住院"}
            await browser.submit(page, path, both)
            assert len(await browser.service.engine.chunks(base, "住院")) == 1
            for made in ((await corrections.page(base))[-1], split):
                await browser.submit(page, f"{path}/{made.id}/undo", {"doc": "住院"})
            given = {"kind": "metadata", "doc": "住院", "lines": "年份=2026\r\n部门=医保"}
            await browser.submit(page, path, given)
            state = await browser.service.engine.document(base, "住院")
            assert (state.metadata["年份"], state.metadata["部门"]) == (2026, "医保")
            # What has lost its words is given the chunk that it is about now.
            noted = await corrections.add(base, "note", chunk_id=chunk, note="以医院为准")
            await browser.service.engine.add_documents(base, [Document("住院", "住院报销七成。", name="住院.txt")])
            waiting = await browser.open(page)
            assert "换到现在的片段" in text_of(waiting.text)
            await browser.submit(page, f"{path}/{noted.id}/move", {"doc": "住院", "chunk": chunk})
            assert (await corrections.get(base, noted.id)).state == "applied"
            hidden = await browser.submit(page, path, {"kind": "disable", "chunk": chunk, "doc": "住院"})
            assert "停用片段" in text_of(hidden.text)
            renamed = await browser.submit(page, path, {"kind": "rename", "doc": "住院", "name": "住院办法"})
            assert "住院办法" in text_of(renamed.text)
            refused = await browser.submit(page, path, {"kind": "erase", "doc": "住院"})
            assert refused.status_code == 400

    asyncio.run(story())


def test_what_a_rating_proposes_is_decided_on_the_list(tmp_path: Path) -> None:
    async def story() -> None:
        async with browsing(tmp_path) as browser:
            engine = browser.service.engine
            base = await browser.service.base(*LIBRARY)
            path = f"/console/bases/{base}/corrections"
            await engine.retrieve(base, "报多少")
            (entry,) = await engine.logs.list()
            await engine.logs.rate(entry.id, Feedback("good", (f"c_{base}_门诊_0", f"c_{base}_住院_0")))
            first, second = await engine.governance.corrections.page(base)
            assert "提议 2" in text_of((await browser.open(path)).text)
            await browser.submit(path, f"{path}/{first.id}/apply")
            await browser.submit(path, f"{path}/{second.id}/case")
            states = [one.state for one in await engine.governance.corrections.page(base)]
            assert states == ["applied", "undone"]
            assert (await engine.retrieve(base, "报多少")).results[0].chunk.doc_id == "门诊"

    asyncio.run(story())


def test_a_read_key_sees_corrections_and_no_form(tmp_path: Path) -> None:
    async def story() -> None:
        async with browsing(tmp_path) as browser:
            base = await browser.service.base(*LIBRARY)
            path = f"/console/bases/{base}/corrections"
            await browser.service.engine.governance.corrections.add(base, "disable_document", doc_id="门诊")
            _, key = issue(browser.service.engine, "local", "read")
            await browser.sign_in(key)
            shown = (await browser.open(path)).text
            assert "停用文档" in text_of(shown)
            assert "/undo" not in shown
            document = (await browser.open(f"/console/bases/{base}/document?doc=住院")).text
            assert not [form for form in document.split("<form")[1:] if "corrections" in form.partition(">")[0]]

    asyncio.run(story())
