"""Evaluation, logs, graph, tables, examples, models, keys and health, as a browser without script uses them."""

from __future__ import annotations

import asyncio
import io
import json
import re
import zipfile
from collections.abc import Awaitable, Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from qianxun import samples
from qianxun.core.governance.quotas import Quota
from qianxun.core.log_types import Feedback
from qianxun.core.types import LOCAL_TENANT, Document
from qianxun.doors.http.console.ego import SHOWN, Neighbour, ego_graph
from qianxun.engine.admin.evaluation_sets import Evaluations
from qianxun.engine.governance.quotas import set_quota
from tests.http.console.browsing import Browser, browsing, text_of, token_of
from tests.http.served import MODEL, issue

EVIL = '<img src=x onerror="alert(1)">\u202e<script>alert(2)</script>'
TABLE = "# 门诊费用\n\n| 项目 | 费用（元） |\n| --- | --- |\n| 血常规 | 25 |\n| 核磁共振 | 850 |\n"
LIBRARY = (
    Document("住院", "住院报销比例为百分之八十五。起付线为八百元。", name="住院.txt"),
    Document("费用", TABLE, name="费用.md", format="markdown"),
    Document("人物", "鲁迅原名周树人，出生于浙江绍兴。周作人是鲁迅的弟弟。", name="人物.txt"),
)
WRITING = re.compile(r'<form[^>]*method="post"[^>]*action="([^"]*)"')


def run(folder: Path, story: Callable[[Browser, int], Awaitable[None]], name: str = "医保") -> None:
    async def run_story() -> None:
        async with browsing(folder) as browser:
            await story(browser, await browser.service.base(*LIBRARY, name=name))

    asyncio.run(run_story())


async def ended(browser: Browser) -> None:
    """Waits for what runs in the background."""
    engine = browser.service.engine
    for _ in range(10_000):
        if not any(one.is_active for one in engine.operations.list(engine.tenant)):
            return
        await asyncio.sleep(0.01)


async def own_set(browser: Browser, base: int, *questions: str) -> int:
    engine = browser.service.engine
    for question in questions or ("住院能报多少", "起付线"):
        own, _ = await Evaluations(engine).save_case(base, question, chunk_ids=[f"c_{base}_住院_0"])
    return own.id


def test_a_set_is_imported_measured_compared_and_exported(tmp_path: Path) -> None:
    async def story(browser: Browser, base: int) -> None:
        token = token_of((await browser.open("/console/evaluation")).text)
        corpus = json.dumps({"_id": "新", "title": "", "text": "生育津贴按照月平均工资计发。"})
        lines = [{"_id": "1", "text": "住院能报多少"}, {"_id": "2", "text": "生育津贴怎样计发"}]
        files = {
            "queries": ("queries.jsonl", "\n".join(map(json.dumps, lines))),
            "qrels": ("qrels.tsv", "1\t住院\t1\n2\t新\t1\n"),
            "corpus": ("corpus.jsonl", corpus),
        }
        sent = {"token": token, "base": str(base), "name": "常用"}
        page = await browser.http.post("/console/evaluation/import", data=sent, files=files)
        assert "导入了 2 题" in page.text, text_of(page.text)
        at = f"/console/evaluation/set?id={page.url.params['id']}"
        modes = {"id": page.url.params["id"], "mode": ["fulltext", "hybrid"], "fusion": "rrf"}
        await browser.submit(at, "/console/evaluation/run", modes)
        await ended(browser)
        page = await browser.open(at)
        assert page.text.count('name="before"') == 2
        assert text_of(page.text).count("完成") == 2
        assert '<svg class="plot"' in page.text
        second, first = re.findall(r'name="after" value="(\d+)"', page.text)
        shown = await browser.open(f"/console/evaluation/compare?before={first}&after={second}")
        assert "不显著" in shown.text
        assert "生育津贴怎样计发" in shown.text
        worst = await browser.open(f"/console/evaluation/run?id={first}")
        assert f"bench?base={base}&amp;q=" in worst.text
        packed = await browser.open(f"/console/evaluation/export?id={modes['id']}")
        names = zipfile.ZipFile(io.BytesIO(packed.content)).namelist()
        assert names == ["queries.jsonl", "qrels.tsv"]
        gone = await browser.submit(at, "/console/evaluation/delete", {"id": modes["id"]})
        assert gone.url.path == "/console/evaluation"
        assert await Evaluations(browser.service.engine).sets() == []

    run(tmp_path, story)


def test_mistakes_are_explained_and_lose_nothing(tmp_path: Path) -> None:
    async def story(browser: Browser, base: int) -> None:
        number = await own_set(browser, base)
        at = f"/console/evaluation/set?id={number}"
        for action, fields, expected in (
            ("/console/evaluation/run", {"id": number}, "没有选检索方式"),
            ("/console/evaluation/run", {"id": number, "mode": "slow"}, "没有检索方式"),
            ("/console/evaluation/create", {"base": base, "name": "常用问题"}, "已存在"),
            ("/console/evaluation/delete-case", {"id": number, "case": 99}, "没有编号为 99 的问题"),
            ("/console/evaluation/save-logged", {"log": 99}, "没有编号为 99"),
            ("/console/graph/merge", {"base": base, "name": "鲁迅"}, "没有写两个名字"),
            ("/console/health/start", {"base": base, "kind": "polish"}, "没有这种工作"),
            ("/console/models", {"model_type": "chat", "base_url": "http://169.254.1.1/v1", "model_name": "m"}, "169"),
            ("/console/keys", {"scope": "all"}, "权限"),
            ("/console/examples/import", {}, "没有选文件"),
        ):
            page = await browser.submit(at, action, fields)
            assert page.status_code in (400, 404, 409), (action, page.status_code)
            assert expected in text_of(page.text), (action, text_of(page.text)[:300])
        assert (await Evaluations(browser.service.engine).get(number)).cases == 2

    run(tmp_path, story)


def test_logs_are_narrowed_counted_exported_and_saved(tmp_path: Path) -> None:
    async def story(browser: Browser, base: int) -> None:
        engine = browser.service.engine
        await engine.retrieve(base, "住院能报多少")
        await engine.retrieve(base, "xyzzy", mode="fulltext")
        entry = (await engine.logs.list())[-1]
        await engine.logs.rate(entry.id, Feedback("good", (), "很好"))
        every = await browser.open("/console/logs")
        assert "住院能报多少" in every.text
        assert '<svg class="plot"' in every.text
        zero = await browser.open("/console/logs", kind="zero", base=base)
        assert "xyzzy" in zero.text
        assert "住院能报多少" not in zero.text
        rated = await browser.open("/console/logs", kind="rated")
        assert "很好" in rated.text
        exported = await browser.open("/console/logs/export", format="csv", kind="zero")
        assert exported.text.count("xyzzy") == 1
        assert "frame-ancestors" in exported.headers["content-security-policy"]
        saved = await browser.submit("/console/logs?kind=rated", "/console/evaluation/save-logged", {"log": entry.id})
        assert "存入了“常用问题”" in saved.text

    run(tmp_path, story)


def test_names_of_the_graph_are_shown_made_one_and_parted(tmp_path: Path) -> None:
    async def story(browser: Browser, base: int) -> None:
        page = await browser.open("/console/graph", base=base, name="鲁迅")
        assert '<svg class="ego"' in page.text
        assert "周作人是鲁迅的弟弟" in page.text
        missing = await browser.open("/console/graph", base=base, name="不存在的人")
        assert "图谱里没有实体" in missing.text
        fields = {"base": base, "name": "鲁迅", "alias": "周作人"}
        merged = await browser.submit(f"/console/graph?base={base}", "/console/graph/merge", fields)
        assert "“周作人”现在是“鲁迅”的另一个名字" in text_of(merged.text)
        parted = await browser.submit(
            f"/console/graph?base={base}", "/console/graph/split", {"base": base, "name": "周作人"}
        )
        assert "分开了" in parted.text

    run(tmp_path, story)


def test_cells_of_an_answer_are_lit(tmp_path: Path) -> None:
    async def story(browser: Browser, base: int) -> None:
        page = await browser.open("/console/tables", base=base, q="核磁共振的费用是多少")
        assert re.findall(r'<td class="lit"><bdi>([^<]*)</bdi>', page.text) == ["850"]
        assert "850元" in text_of(page.text)

    run(tmp_path, story)


def test_a_model_is_registered_and_its_key_never_comes_back(tmp_path: Path) -> None:
    async def story(browser: Browser, base: int) -> None:
        about = {
            "model_type": "chat",
            "base_url": "https://api.example.com/v1",
            "model_name": "m",
            "api_key": "sk-canary-77",
        }
        page = await browser.submit("/console/models", "/console/models", about)
        assert "user-model:1" in page.text
        assert "sk-canary-77" not in page.text
        which = {"user_id": "console", "id": "1"}
        page = await browser.submit("/console/models", "/console/models/change", {**which, "default": "1"})
        assert "默认" in text_of(page.text)
        page = await browser.submit("/console/models", "/console/models/change", {**which, "status": "0"})
        assert (await browser.service.engine.registry.get("console", 1)).status == 0
        page = await browser.submit("/console/models", "/console/models/delete", which)
        assert await browser.service.engine.registry.list() == []

    run(tmp_path, story)


def test_a_key_is_shown_once_and_revoked_at_once(tmp_path: Path) -> None:
    async def story(browser: Browser, base: int) -> None:
        page = await browser.submit(
            "/console/keys", "/console/keys", {"scope": "write", "name": "甲", "tenant": "local"}
        )
        (key,) = re.findall(r'<code id="issued">(qx_[\w-]{43})</code>', page.text)
        away = await browser.open("/console/keys")
        assert away.url.path == "/console/sign-in"
        await browser.sign_in(key)
        page = await browser.open("/console/keys")
        assert key not in page.text
        assert "现在用的" in page.text
        _, other = issue(browser.service.engine, "乙方", "write")
        assert "乙方" not in (await browser.open("/console/keys")).text
        foreign = await browser.submit("/console/keys", "/console/keys/revoke", {"id": "2"})
        assert foreign.status_code == 404
        await browser.submit("/console/keys", "/console/keys/revoke", {"id": "1"})
        assert (await browser.open("/console/keys")).url.path == "/console/sign-in"
        assert other

    run(tmp_path, story)


def test_a_base_is_verified_and_rebuilt_from_the_page(tmp_path: Path) -> None:
    async def story(browser: Browser, base: int) -> None:
        for kind, expected in (("verify", "一致"), ("rebuild", "个片段")):
            await browser.submit("/console/health", "/console/health/start", {"base": base, "kind": kind})
            await ended(browser)
            assert expected in (await browser.open("/console/health")).text
        part = await browser.http.get("/console/health", headers={"hx-request": "true", "hx-target": "operations"})
        assert part.text.lstrip().startswith('<div id="operations"')
        assert "/metrics" in (await browser.open("/console/health?doctor=1")).text

    run(tmp_path, story)


class _Running(HTMLParser):
    """Collects what a browser would run: scripts with text of their own, handlers, images, links to scripts."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        is_foreign = tag in ("img", "iframe", "object", "embed", "style") or (
            tag == "script" and not dict(attrs).get("src")
        )
        handlers = [name for name, value in attrs if name.startswith("on") or (value or "").startswith("javascript:")]
        self.found += [f"<{tag} {' '.join(handlers)}>"] if is_foreign or handlers else []


def running(page: str) -> list[str]:
    parser = _Running()
    parser.feed(page)
    return parser.found


def test_what_would_run_is_found() -> None:
    assert running(EVIL) == ["<img onerror>", "<script >"]


PAGES = (
    "evaluation", "evaluation/set?id={set}", "evaluation/run?id=1", "evaluation/compare?before=1&after=2", "logs",
    "graph?base={base}", "graph?base={base}&name=鲁迅", "tables?base={base}&q=核磁共振的费用", "examples", "models",
    "health",
)  # fmt: skip


def test_a_read_key_sees_no_form_that_it_may_not_send_and_a_tenant_nothing_of_another(tmp_path: Path) -> None:
    async def story(browser: Browser, base: int) -> None:
        number = await own_set(browser, base)
        evaluations = Evaluations(browser.service.engine)
        for mode in ("fulltext", "hybrid"):
            await evaluations.measure(number, mode)
        await browser.service.engine.retrieve(base, "住院能报多少")
        _, reading = issue(browser.service.engine, "local", "read")
        await browser.sign_in(reading)
        for path in PAGES:
            page = await browser.open(f"/console/{path.format(set=number, base=base)}")
            assert page.status_code == 200, (path, text_of(page.text)[:300])
            assert {action.rsplit("/", 1)[-1] for action in WRITING.findall(page.text)} == {"sign-out"}, path
        assert (await browser.open("/console/keys")).status_code == 403
        _, foreign = issue(browser.service.engine, "乙方", "write")
        await browser.submit("/console/evaluation", "/console/sign-out")
        await browser.sign_in(foreign)
        for path in PAGES:
            page = await browser.open(f"/console/{path.format(set=number, base=base)}")
            assert "住院能报多少" not in page.text, path
            assert page.status_code == (404 if "=" in path else 200), path

    run(tmp_path, story)


def test_no_text_of_a_document_a_name_or_a_question_is_markup(tmp_path: Path) -> None:
    async def story(browser: Browser, base: int) -> None:
        engine = browser.service.engine
        evil = f"{EVIL}核磁共振"
        table = TABLE.replace("核磁共振", evil.replace("|", "")).replace("费用（元）", f"费用{EVIL}")
        await engine.add_documents(base, [Document(EVIL, table, name=EVIL, format="markdown")])
        own = await Evaluations(engine).create(base, "集<b>" + EVIL.replace("\u202e", ""))
        case = await Evaluations(engine).save_case(base, evil, doc_ids=[EVIL], set_name=own.name, expected=EVIL)
        for mode in ("fulltext", "hybrid"):
            await Evaluations(engine).measure(own.id, mode, name=EVIL)
        await engine.retrieve(base, evil)
        await engine.logs.rate((await engine.logs.list())[0].id, Feedback("bad", (), EVIL))
        await engine.admin.merge_entities(base, "鲁迅", EVIL.replace("\u202e", ""))
        for path in (*PAGES, f"tables?base={base}&q={EVIL}", f"graph?base={base}&name={EVIL}"):
            page = await browser.open(f"/console/{path.format(set=own.id, base=base)}")
            assert page.status_code == 200, (path, text_of(page.text)[:300])
            assert running(page.text) == [], path
        assert case

    run(tmp_path, story, name="医保<script>alert(3)</script>")


def test_a_drawing_escapes_names_and_has_room(tmp_path: Path) -> None:
    many = [Neighbour(f"e_{at}", f"{EVIL}{at}", EVIL, at % 2 == 0, at % 3 > 0) for at in range(SHOWN + 5)]
    drawn = ego_graph(EVIL, many, EVIL, lambda other: f"./graph?name={other}")
    assert drawn.count("<a href=") == SHOWN
    assert "<img" not in drawn
    assert "<script" not in drawn
    values: list[Any] = [float(x) for x in re.findall(r'c[xy]="([\d.-]+)"', drawn)]
    assert min(values) > 0


def test_examples_come_from_a_workbook_and_are_found(tmp_path: Path) -> None:
    async def story() -> None:
        async with browsing(tmp_path, {"vectorization.model": MODEL, "examples.similarity_threshold": 0.0}) as browser:
            page = await browser.open("/console/examples")
            assert "还没有示例库" in page.text
            workbook = next(Path(samples.__file__).parent.glob("*.xlsx"))
            sent = {"token": token_of(page.text)}
            files = {"file": (workbook.name, workbook.read_bytes())}
            page = await browser.http.post("/console/examples/import", data=sent, files=files)
            assert "新增 71 条" in text_of(page.text), text_of(page.text)[:500]
            set_quota(browser.service.engine.settings, LOCAL_TENANT, Quota(searches_per_minute=1))
            found = await browser.open("/console/examples", q="血压多少算高血压？")
            assert "连续量一周" in found.text
            wrong = await browser.http.post("/console/examples/import", data=sent, files={"file": ("a.exe", b"MZ")})
            assert (wrong.status_code, "不认识" in wrong.text) == (400, True)
            refused = await browser.http.get("/console/examples", params={"q": "血压多少算高血压？"})
            assert (refused.status_code, "连续量一周" in refused.text) == (429, False)

    asyncio.run(story())
