"""Bench, bases, documents and questions as a browser asks for them: what they show, and what they refuse."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path

from qianxun.core.types import Document
from qianxun.engine.admin.evaluation_sets import Evaluations
from tests.http.console.browsing import Browser, browsing, text_of, token_of
from tests.http.served import issue

POLICY = Document(
    "policy",
    "# 报销\n\n在职职工住院报销 85%。\n\n| 医院 | 比例 |\n| --- | --- |\n| 三级 | 55% |\n| 二级 | 65% |\n",
    name="报销办法.md",
    format="markdown",
    metadata={"年份": 2025},
)
TRAVEL = Document("travel", "出差住宿每晚不超过 550 元。", name="差旅.txt", metadata={"年份": 2026})


def run(folder: Path, story: Callable[[Browser, int], Awaitable[None]]) -> None:
    async def run_story() -> None:
        async with browsing(folder) as browser:
            await story(browser, await browser.service.base(POLICY, TRAVEL))

    asyncio.run(run_story())


def test_every_page_of_a_new_folder_leads_to_the_first_base(tmp_path: Path) -> None:
    async def story() -> None:
        async with browsing(tmp_path) as browser:
            for name in ("bench", "ask", "evaluation", "graph", "tables"):
                shown = (await browser.open(f"/console/{name}")).text
                assert "还没有知识库。" in shown, name
                assert '<a class="button primary" href="../console/bases">新建知识库</a>' in shown, name

    asyncio.run(story())


def test_a_search_shows_scores_words_and_the_place_and_is_logged(tmp_path: Path) -> None:
    async def story(browser: Browser, base: int) -> None:
        shown = await browser.open("/console/bench", base=base, q="住院报销", f=json.dumps(["metadata.年份", 2025]))
        assert shown.status_code == 200
        assert "<mark>住院报销</mark>" in shown.text
        assert f"console/bases/{base}/document?doc=policy&amp;at=0#c0" in shown.text
        assert "doc=travel" not in shown.text
        again = await browser.open("/console/bench", base=base)
        assert "最近的检索" in again.text
        assert "住院报销" in text_of(again.text)
        (entry,) = await browser.service.engine.logs.list(limit=1)
        replayed = await browser.open("/console/replay", log=entry.id)
        assert "与当时逐字节相同" in replayed.text

    run(tmp_path, story)


def test_what_was_in_force_on_a_day_is_shown_as_such(tmp_path: Path) -> None:
    before = Document(
        "before", "出差住宿每晚不超过 400 元。", name="旧差旅.txt", metadata={"valid_until": "2020-12-31"}
    )

    async def story(browser: Browser, base: int) -> None:
        await browser.service.engine.add_documents(base, [before])
        now = await browser.open("/console/bench", base=base, q="出差住宿")
        assert "doc=before" not in now.text
        then = await browser.open("/console/bench", base=base, q="出差住宿", as_of="2020-06-01")
        assert "doc=before" in then.text
        assert "按 2020-06-01 有效的文档" in text_of(then.text)
        assert "2020-12-31 之后失效" in text_of(then.text)
        wrong = await browser.open("/console/bench", base=base, q="出差住宿", as_of="去年")
        assert "as_of 不是日期" in text_of(wrong.text)

    run(tmp_path, story)


def test_a_setting_that_cannot_be_is_said_on_its_side_and_the_other_searches(tmp_path: Path) -> None:
    async def story(browser: Browser, base: int) -> None:
        shown = await browser.open("/console/bench", base=base, q="报销", ab="1", b_top_k="-3")
        assert shown.status_code == 200
        assert "top_k 为 -3" in text_of(shown.text)
        assert "住院" in shown.text
        for field, value in (("top_k", "x"), ("f", "[1]"), ("where", "{"), ("where", '{"nope": 1}')):
            told = await browser.open("/console/bench", base=base, q="报销", **{field: value})
            assert 'role="alert"' in told.text, (field, value)

    run(tmp_path, story)


def test_why_not_gives_the_change_that_brings_the_chunk(tmp_path: Path) -> None:
    async def story(browser: Browser, base: int) -> None:
        asked = {"base": base, "q": "住院报销", "top_k": "1", "chunk": f"c_{base}_travel_0"}
        told = await browser.open("/console/why", **asked)
        assert "最小的改动" in told.text
        part = await browser.http.get("/console/why", params=asked, headers={"hx-request": "true"})
        assert "<html" not in part.text
        assert (await browser.open("/console/why", base=base, q="报销", chunk="c_1_none_0")).status_code in (200, 404)

    run(tmp_path, story)


def test_right_results_become_a_case(tmp_path: Path) -> None:
    async def story(browser: Browser, base: int) -> None:
        page = f"/console/bench?base={base}&q=住院报销"
        fields = {"base": base, "q": "住院报销", "right": [f"c_{base}_policy_0"], "set": "回归"}
        saved = await browser.submit(page, "/console/case", fields)
        assert "现在有 1 题" in saved.text
        evaluations = Evaluations(browser.service.engine)
        (one,) = await evaluations.sets(base)
        (case,) = await evaluations.cases(one.id)
        assert (one.name, case.question) == ("回归", "住院报销")
        assert "85%" in case.relevant[0].text
        nothing = await browser.submit(page, "/console/case", {"base": base, "q": "住院报销"})
        assert nothing.status_code == 400

    run(tmp_path, story)


def test_a_document_is_shown_at_the_cited_sentence(tmp_path: Path) -> None:
    async def story(browser: Browser, base: int) -> None:
        content = (await browser.service.engine.contents.document(base, "policy")).text.content
        start = content.index("在职职工")
        shown = await browser.open(f"/console/bases/{base}/document", doc="policy", start=start, end=start + 4)
        assert '<mark class="cited">在职职工</mark>' in shown.text
        assert "<td>65%</td>" in shown.text
        assert (await browser.open(f"/console/bases/{base}/document", doc="none")).status_code == 404

    run(tmp_path, story)


def test_a_table_right_below_its_heading_is_a_table(tmp_path: Path) -> None:
    travel = Document(
        "table", "## 差旅标准\n\n| 职级 | 住宿 |\n| --- | --- |\n| 经理 | 600 |\n| 员工 | 450 |\n", format="markdown"
    )

    async def story(browser: Browser, base: int) -> None:
        await browser.service.engine.add_documents(base, [travel])
        shown = (await browser.open(f"/console/bases/{base}/document", doc="table")).text
        assert "<td>450</td>" in shown
        assert "| 员工" not in shown.partition("<textarea")[0]
        assert '<div class="prose" dir="auto">差旅标准</div>' in shown

    run(tmp_path, story)


def test_a_file_is_taken_or_refused_with_its_reason(tmp_path: Path) -> None:
    async def story(browser: Browser, base: int) -> None:
        page = f"/console/bases/{base}"
        headers = {"accept": "application/json", "x-form-token": token_of((await browser.open(page)).text)}
        sent = {"data": {"relative_path": "制度/新.txt"}, "files": {"file": ("新.txt", "新的一篇。".encode())}}
        taken = await browser.http.post(f"{page}/documents", headers=headers, **sent)
        assert taken.json()["outcome"] == "created"
        assert taken.json()["warnings"] == []
        odd = {"files": {"file": ("库存.xls", "物料,数量\n螺丝,12\n".encode())}}
        partly = await browser.http.post(f"{page}/documents", headers=headers, **odd)
        assert partly.json()["warnings"] == ["扩展名是 .xls，内容是文本表格，已按 CSV 解析"]
        bad = {"files": {"file": ("坏.pdf", b"%PDF-1.4 broken")}}
        refused = await browser.http.post(f"{page}/documents", headers=headers, **bad)
        assert refused.status_code == 422
        assert "坏.pdf" in refused.json()["msg"]
        back = await browser.submit(page, f"{page}/selected", {"doc": ["travel"], "action": "delete"})
        assert "删除了 1 篇" in back.text
        assert (await browser.submit(page, f"{page}/selected", {"action": "delete"})).status_code == 400

    run(tmp_path, story)


def test_settings_change_all_or_nothing(tmp_path: Path) -> None:
    async def story(browser: Browser, base: int) -> None:
        page = f"/console/bases/{base}/settings"
        refused = await browser.submit(page, page, {"chunk_size": "300", "search.fusion": "none"})
        assert refused.status_code in (400, 422)
        about = await browser.service.engine.knowledge_base(base)
        assert about.config["chunk_size"] == 500
        await browser.submit(page, page, {"chunk_size": "300", "synonyms": "报销=报账", "base_name": "改了名"})
        about = await browser.service.engine.knowledge_base(base)
        assert (about.name, about.config["chunk_size"], about.config["synonyms"]) == ("改了名", 300, [["报销", "报账"]])

    run(tmp_path, story)


def test_an_answer_streams_with_its_page_and_without(tmp_path: Path) -> None:
    async def story(browser: Browser, base: int) -> None:
        token = token_of((await browser.open("/console/ask", base=base)).text)
        fields = {"token": token, "base": base, "q": "在职职工住院报销多少？", "history": "[]"}
        whole = await browser.http.post("/console/answer", data=fields)
        assert 'class="cite" href="../console/bases/' in whole.text
        assert '<span class="figure"' in whole.text
        streamed = await browser.http.post("/console/answer-stream", data=fields)
        events = [line.removeprefix("event: ") for line in streamed.text.splitlines() if line.startswith("event: ")]
        assert events[0] == "sources"
        assert events[-1] == "done"
        for wrong in ({"mode": "none"}, {"history": "{"}, {"q": ""}):
            assert (await browser.http.post("/console/answer", data={**fields, **wrong})).status_code == 400

    run(tmp_path, story)


def test_a_read_key_asks_and_changes_nothing(tmp_path: Path) -> None:
    async def story(browser: Browser, base: int) -> None:
        _, key = issue(browser.service.engine, scope="read")
        await browser.sign_in(key)
        token = token_of((await browser.open(f"/console/bases/{base}")).text)
        asked = await browser.http.post("/console/answer", data={"token": token, "base": base, "q": "住院报销多少？"})
        assert asked.status_code == 200
        for path in (
            f"/console/bases/{base}/delete",
            f"/console/bases/{base}/paste",
            "/console/bases",
            "/console/case",
        ):
            assert (await browser.http.post(path, data={"token": token})).status_code == 403, path
        settings = await browser.open(f"/console/bases/{base}/settings")
        assert "保存" not in text_of(settings.text)

    run(tmp_path, story)
