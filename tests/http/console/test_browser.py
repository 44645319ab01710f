"""The console in a real browser: what people do with it, from an empty folder on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any, Final

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from qianxun.core.ports import never
from qianxun.core.types import Document, Message
from qianxun.doors.http.console.routes import PAGES
from qianxun.testing.scripted import Gate, ScriptedStreamingChat
from tests.http.console.chrome import Running, needs_browser, running, visiting
from tests.http.served import issue, revoke
from tests.sampling import sampled
from tests.shared import DATA, needs_data

pytestmark = needs_browser

HANDBOOK = """# 医保手册

## 住院

在职职工在三级医院住院，报销比例为 85%。退休人员为 90%。

## 门诊

在职职工在三级医院看门诊，报销比例为 55%，年度限额 6000 元。
"""
READABLE = (".md", ".txt", ".csv", ".xlsx", ".docx", ".pptx", ".pdf", ".html")
SMALLEST, LARGEST = 400, 300_000  # bytes: one has no text, the others take long


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Without keys; what a test needs in it, it adds under a name of its own."""
    with running(tmp_path_factory.mktemp("console")) as found:
        yield found


@pytest.fixture(scope="module")
def library(service: Running) -> int:
    """A base that tests only look at."""
    return service.base(
        "手册",
        Document("handbook", HANDBOOK, name="医保手册.md", format="markdown", metadata={"年份": 2025}, tags=("公开",)),
        Document("travel", "出差住宿标准：一线城市每晚不超过 550 元。", name="差旅.txt", metadata={"年份": 2026}),
        Document(
            "table",
            "| 医院 | 比例 |\n| --- | --- |\n| 三级 | 55% |\n| 二级 | 65% |\n",
            name="比例.md",
            format="markdown",
        ),
    )


def ask(page: Page, question: str) -> None:
    page.locator("textarea[name=q]").fill(question)
    page.get_by_role("button", name="提问").click()


# ── what a newcomer does ─────────────────────────────────────────────────────────────────────────


def test_a_newcomer_comes_from_an_empty_folder_to_a_cited_answer_and_a_saved_case(
    browser: Browser, tmp_path: Path
) -> None:
    file = tmp_path / "医保手册.md"
    file.write_text(HANDBOOK, "utf-8")
    with running(tmp_path / "data") as empty, visiting(browser, empty.url) as visit:
        page = visit.page
        page.goto("/")
        page.get_by_role("link", name="新建知识库").click()
        page.get_by_label("名称").fill("我的手册")
        page.get_by_role("button", name="建库").click()
        expect(page.get_by_role("status").first).to_contain_text("建好了知识库")
        page.wait_for_load_state()  # a file that is chosen before the script runs is sent by no script
        page.get_by_label("要放入的文件", exact=True).set_input_files(file)
        expect(page.locator("[data-transfers] li")).to_contain_text("已收下")
        expect(page.locator("#documents tbody tr")).to_contain_text("可检索")
        page.get_by_role("link", name="检索台").last.click()
        page.get_by_role("searchbox", name="问题").fill("住院报销比例")
        page.get_by_role("button", name="检索", exact=True).click()
        hit = page.locator(".hit").first
        expect(hit).to_contain_text("85%")
        assert hit.locator("mark").first.inner_text() in "住院报销比例"
        hit.get_by_role("checkbox").check()
        page.get_by_role("button", name="存为评测题").click()
        expect(page.get_by_role("status").first).to_contain_text("现在有 1 题")
        page.get_by_role("link", name="问答").first.click()
        ask(page, "在职职工住院的报销比例是多少？")
        answer = page.locator(".answer").last
        expect(answer.locator(".sources")).to_contain_text("医保手册")
        expect(answer.locator(".figure").first).to_have_text("85%")
        answer.locator("a.cite").first.click()
        expect(page.locator("mark.cited")).to_contain_text("85%")
        assert visit.complaints == []
        assert visit.hosts == {empty.url.removeprefix("http://")}


def test_two_settings_side_by_side_and_why_a_chunk_is_on_one_side_alone(page: Page, library: int) -> None:
    page.goto(f"/console/bench?base={library}")
    page.get_by_role("searchbox", name="问题").fill("三级医院报销比例")
    page.get_by_text("与另一套设置并排比").click()
    page.get_by_label("并排比较").check()
    page.locator("[name=b_top_k]").fill("1")
    page.get_by_role("button", name="检索", exact=True).click()
    sides = page.locator(".side-results")
    expect(sides).to_have_count(2)
    expect(sides.nth(1).locator(".hit")).to_have_count(1)
    only_a = sides.nth(0).locator(".hit", has_text="另一边没有").first
    only_a.get_by_role("link", name="那边为什么没有").click()
    why = only_a.locator(".why.no")
    expect(why).to_contain_text("至少要 2 条")
    why.get_by_role("link", name="照这样再找").click()
    expect(page.locator(".hit")).to_have_count(2)
    page.locator(".hit").first.get_by_role("link", name="为什么有它").click()
    expect(page.locator(".why.yes")).to_contain_text("=")


def test_filters_are_clicked_from_the_metadata_and_a_search_is_taken_along(page: Page, library: int) -> None:
    page.goto(f"/console/bench?base={library}&q=标准")
    page.get_by_text("过滤", exact=True).click()
    page.get_by_text("2026 1").click()
    page.get_by_role("button", name="检索", exact=True).click()
    expect(page.locator(".hit")).to_have_count(1)
    expect(page.locator(".hit")).to_contain_text("550")
    page.get_by_text("复制这次检索").click()
    assert '"metadata.年份": 2026' in page.locator("#copy-A-curl").inner_text().replace('\\"', '"')
    assert "qianxun search 标准" in page.locator("#copy-A-qianxun").inner_text()
    page.get_by_role("group").filter(has_text="最近的检索").locator("summary").click()
    page.get_by_role("link", name="重放").first.click()
    expect(page.get_by_role("status")).to_contain_text("与当时逐字节相同")


def test_a_chunk_that_was_not_found_is_asked_about_from_its_document(page: Page, library: int) -> None:
    page.goto(f"/console/bases/{library}/document?doc=travel")
    page.get_by_role("link", name="为什么没找到它").click()
    page.get_by_role("searchbox", name="问题").fill("住院报销")
    page.locator("[name=top_k]").fill("1")
    page.get_by_role("button", name="检索", exact=True).click()
    expect(page.get_by_label("片段的编号")).to_have_value(f"c_{library}_travel_0")
    page.get_by_role("button", name="问", exact=True).click()
    expect(page.locator("#why-other .why.no")).to_be_visible()


# ── documents ────────────────────────────────────────────────────────────────────────────────────


def test_a_document_shows_its_chunks_and_how_other_sizes_would_cut_it(page: Page, library: int) -> None:
    page.goto(f"/console/bases/{library}/document?doc=handbook")
    assert page.locator(".chunk").count() == 2
    page.get_by_label("块长").fill("20")
    page.get_by_label("重叠").fill("0")
    page.get_by_role("button", name="预览").click()
    expect(page.locator("#preview")).to_contain_text("什么都没有改")
    assert page.locator(".chunk").count() > 2
    page.goto(f"/console/bases/{library}/document?doc=table")
    expect(page.get_by_role("cell", name="65%")).to_be_visible()


def test_files_are_sent_one_by_one_and_a_bad_one_says_why(page: Page, service: Running, tmp_path: Path) -> None:
    base = service.base("上传")
    names = ["甲.md", "乙.txt", "丙.csv", "坏.pdf"]
    for name, content in zip(names, ("# 甲\n\n正文", "乙的正文", "列,值\n一,1", "%PDF-1.4 not a pdf"), strict=True):
        (tmp_path / name).write_text(content, "utf-8")
    page.goto(f"/console/bases/{base}")
    page.get_by_label("要放入的文件", exact=True).set_input_files([tmp_path / name for name in names])
    items = page.locator("[data-transfers] li")
    expect(items.filter(has_text="已收下")).to_have_count(3)
    bad = items.filter(has_text="坏.pdf").locator(".state.bad")
    expect(bad).to_be_visible()
    assert len(bad.inner_text()) > 5
    expect(page.locator("#documents .state.done")).to_have_count(3)
    page.locator("#documents tbody tr").filter(has_text="甲.md").get_by_role("checkbox").check()
    page.get_by_text("删除选中的", exact=True).click()
    page.get_by_role("button", name="删除", exact=True).first.click()
    expect(page.get_by_role("status").first).to_contain_text("删除了 1 篇")


@needs_data
@pytest.mark.parametrize("count", [5, pytest.param(30, marks=pytest.mark.long)])
def test_real_files_are_taken_in_with_one_bad_among_them(
    page: Page, service: Running, tmp_path: Path, count: int
) -> None:
    """Of every kind that people have; the bad one says why, and keeps none of the others back."""
    base = service.base(f"真实的文件 {count}")
    bad = tmp_path / "坏.docx"
    bad.write_bytes(b"PK\x03\x04 broken")
    page.goto(f"/console/bases/{base}")
    page.get_by_label("要放入的文件", exact=True).set_input_files([*real_files(count - 1), bad])
    items = page.locator("[data-transfers] li")
    expect(items.filter(has_text="已收下")).to_have_count(count - 1)
    expect(items.filter(has_text="坏.docx").locator(".state.bad")).to_be_visible()
    expect(page.locator("#documents .state.done")).to_have_count(count - 1)


def real_files(count: int) -> list[Path]:
    """Small ones of many formats, the same ones each time."""
    files = sorted((DATA / "ingest").rglob("*.*"), key=lambda path: (-path.stat().st_size, path.name))
    by_suffix: dict[str, list[Path]] = {}
    for path in ({path.name: path for path in reversed(files)}).values():
        if path.suffix not in READABLE or not SMALLEST < path.stat().st_size < LARGEST:
            continue
        by_suffix.setdefault(path.suffix, []).append(path)
    rounds = (path for row in zip_longest(*by_suffix.values()) for path in row if path is not None)
    return list(islice(rounds, count))


def test_text_is_pasted_and_settings_say_what_they_cost(page: Page, service: Running) -> None:
    base = service.base("粘贴")
    page.goto(f"/console/bases/{base}")
    page.get_by_text("粘贴文字").click()
    page.get_by_label("正文").fill("年假十五天。")
    page.get_by_role("button", name="放入", exact=True).click()
    expect(page.locator("#documents tbody tr")).to_contain_text("年假十五天")
    page.get_by_role("link", name="设置", exact=True).click()
    expect(page.locator(".setting", has_text="块长")).to_contain_text("只影响以后放入的文档")
    page.locator("[name=chunk_size]").fill("0")
    page.get_by_role("button", name="保存").click()
    expect(page.get_by_role("alert")).to_contain_text("chunk_size")
    page.go_back()
    page.locator("[name=chunk_size]").fill("300")
    page.get_by_role("button", name="保存").click()
    expect(page.get_by_role("status").first).to_contain_text("改了 1 项")
    assert service.run(service.engine.knowledge_base(base)).config["chunk_size"] == 300


# ── questions ────────────────────────────────────────────────────────────────────────────────────


def test_no_answer_is_told_as_such_and_feedback_is_kept(page: Page, service: Running, library: int) -> None:
    page.goto(f"/console/ask?base={library}")
    ask(page, "飞船的燃料是什么？")
    answer = page.locator(".answer").last
    expect(answer.locator(".declined")).to_contain_text("资料里没有答案")
    answer.get_by_label("这个答案怎么样").fill("本来就没有")
    answer.get_by_role("button", name="好", exact=True).click()
    expect(answer.locator(".state.done")).to_contain_text("记下了")
    (entry, *_) = service.run(service.engine.logs.list(knowledge_base=library, limit=1))
    assert entry.feedback is not None
    assert (entry.feedback.rating, entry.feedback.comment) == ("good", "本来就没有")


def test_a_follow_up_knows_what_came_before(page: Page, library: int) -> None:
    page.goto(f"/console/ask?base={library}")
    ask(page, "在职职工住院的报销比例是多少？")
    expect(page.locator(".answer .sources")).to_have_count(1)
    ask(page, "退休人员呢？")
    expect(page.locator(".answer").last).to_contain_text("90%")


def test_a_stream_that_is_cut_says_so_and_can_be_asked_again(browser: Browser, tmp_path: Path) -> None:
    chat = HalfReply()
    with running(tmp_path, models=(chat,)) as own, visiting(browser, own.url) as visit:  # type: ignore[arg-type]
        base = own.base("手册", Document("a", HANDBOOK), config={"chat_model": chat.name})
        visit.page.goto(f"/console/ask?base={base}")
        ask(visit.page, "在职职工住院的报销比例是多少？")
        expect(visit.page.locator(".streaming")).to_contain_text("报")
        own.loop.call_soon_threadsafe(_abort_connections, own)
        expect(visit.page.get_by_role("alert")).to_contain_text("答案没有写完")
        expect(visit.page.get_by_role("button", name="再问一次")).to_be_visible()
        chat.gate.opened.set()


class HalfReply(ScriptedStreamingChat):
    """Says the beginning, and no more until its gate is opened."""

    def __init__(self) -> None:
        super().__init__()
        self.gate: Gate = Gate()

    def stream(self, messages: Sequence[Message], stop: Callable[[], bool] = never) -> Iterator[str]:
        yield "报销比例为"
        self.gate.wait(stop)
        yield " 85%。[1]"


def _abort_connections(own: Running) -> None:
    for connection in list(own.served.server.server_state.connections):
        connection.transport.abort()  # type: ignore[union-attr]


# ── who may see what ─────────────────────────────────────────────────────────────────────────────


def test_tenants_and_read_keys_see_what_is_theirs(browser: Browser, tmp_path: Path) -> None:
    with running(tmp_path) as keyed:
        first = keyed.base("甲的库", Document("a", "甲的秘密。"), tenant="甲")
        keyed.base("乙的库", Document("b", "乙的文档。"), tenant="乙")
        _, writer = issue(keyed.engine, "甲")
        number, reader = issue(keyed.engine, "乙", "read")
        with visiting(browser, keyed.url) as visit:
            page = visit.page
            page.goto(f"/console/bench?base={first}&q=秘密")
            page.get_by_label("密钥").fill(writer)
            page.get_by_role("button", name="登录").click()
            expect(page.locator(".hit")).to_contain_text("甲的")
            page.get_by_role("button", name="退出").click()
            expect(page.get_by_label("密钥")).to_be_visible()
            page.get_by_label("密钥").fill(reader)
            page.get_by_role("button", name="登录").click()
            page.get_by_role("link", name="知识库").first.click()
            expect(page.locator("tbody")).to_contain_text("乙的库")
            assert "甲的库" not in page.content()
            assert page.get_by_role("button", name="建库").count() == 0
            page.get_by_role("link", name="乙的库").click()
            assert page.locator("form[method=post]:not([action$=sign-out]) button").count() == 0
            page.goto(f"/console/bases/{first}")
            expect(page.get_by_role("alert")).to_contain_text("404")
            page.goto("/console/ask")
            ask(page, "乙的文档是什么？")
            expect(page.locator(".answer .muted").first).to_be_visible()
            revoke(keyed.engine, number)
            page.goto("/console/bases")
            expect(page.get_by_label("密钥")).to_be_visible()
            assert visit.complaints == []


# ── for everybody ────────────────────────────────────────────────────────────────────────────────


def every_page(library: int) -> tuple[str, ...]:
    return (
        *(f"{page.path}?base={library}" for page in PAGES),
        f"/console/bench?base={library}&q=报销比例&ab=1&b_mode=fulltext",
        f"/console/why?base={library}&q=报销&chunk=c_{library}_travel_0",
        f"/console/bases/{library}",
        f"/console/bases/{library}/settings",
        f"/console/bases/{library}/document?doc=handbook",
        f"/console/bases/{library}/document?doc=table&size=20",
        "/console/nowhere",
    )


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_page_has_a_serious_fault_for_people_who_cannot_see_it(
    browser: Browser, service: Running, library: int, scheme: Any
) -> None:
    with visiting(browser, service.url, color_scheme=scheme) as visit:
        for path in sampled(every_page(library), 2, offset=scheme == "dark"):  # each in one of the two
            visit.page.goto(path)
            found = Axe().run(visit.page).response["violations"]
            serious = [one for one in found if one["impact"] in ("serious", "critical")]
            assert not serious, (path, [(one["id"], [node["html"] for node in one["nodes"]][:3]) for one in serious])
            assert _fits(visit.page, PHONE), path
            visit.page.set_viewport_size({"width": 1280, "height": 720})


PHONE: Final = 390  # pixels


def _fits(page: Page, width: int) -> bool:
    """Whether nothing of the page is wider than such a screen."""
    page.set_viewport_size({"width": width, "height": 844})
    return int(page.evaluate("document.documentElement.scrollWidth")) <= width


def test_the_whole_console_is_there_in_english_and_fits_a_phone(
    browser: Browser, service: Running, library: int
) -> None:
    with visiting(browser, service.url, viewport={"width": PHONE, "height": 844}) as visit:
        visit.page.goto(f"/console/bench?base={library}&q=标准")
        visit.page.get_by_role("link", name="English").click()
        expect(visit.page.get_by_role("heading", name="Retrieval bench")).to_be_visible()
        expect(visit.page.locator(".hit").first).to_contain_text("Why this one")
        for path in every_page(library)[:-1]:
            visit.page.goto(path)
            shown = visit.page.locator(
                "main .heading p, label > span, button, th[scope=col], legend"
            ).all_text_contents()
            chinese = [text for text in shown if any("\u4e00" <= sign <= "\u9fff" for sign in text)]
            chinese = [text for text in chinese if not text.startswith(("年份", "公开", "比例", "医院"))]
            assert chinese == [], path
            assert visit.page.evaluate("document.documentElement.scrollWidth") <= PHONE, path
        edges = visit.page.eval_on_selector_all("nav a", "all => all.map(one => one.getBoundingClientRect().right)")
        assert len(edges) > 8
        assert max(edges) <= PHONE  # every page can be seen, and which one this is
        visit.page.goto("/docs")
        visit.page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
        assert visit.page.evaluate("document.documentElement.scrollWidth") <= PHONE


def test_a_search_needs_no_mouse(page: Page, library: int) -> None:
    page.goto("/console/bench")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="跳到正文")).to_be_focused()
    page.keyboard.press("Enter")
    for _ in range(12):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.name") == "q":
            break
    page.keyboard.type("报销比例")
    page.keyboard.press("Enter")
    expect(page.locator(".hit").first).to_be_visible()
    for _ in range(80):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.textContent").strip() == "为什么有它":
            break
    page.keyboard.press("Enter")
    expect(page.locator(".why").first).to_be_visible()


def test_pages_work_without_scripts(browser: Browser, service: Running, library: int) -> None:
    with visiting(browser, service.url, java_script_enabled=False) as visit:
        page = visit.page
        page.goto(f"/console/bench?base={library}")
        page.get_by_role("searchbox", name="问题").fill("报销比例")
        page.get_by_role("button", name="检索", exact=True).click()
        page.get_by_role("link", name="为什么有它").first.click()
        expect(page.locator(".why.yes")).to_be_visible()
        page.goto(f"/console/ask?base={library}")
        ask(page, "在职职工住院的报销比例是多少？")
        expect(page.locator(".answer a.cite").first).to_be_visible()
        page.goto(f"/console/bases/{service.base('无脚本')}")
        page.get_by_label("要放入的文件", exact=True).set_input_files(
            {"name": "甲.txt", "mimeType": "text/plain", "buffer": "没有脚本也行。".encode()}
        )
        page.get_by_role("button", name="上传").click()
        expect(page.get_by_role("status").first).to_contain_text("收下了 甲.txt")


def test_the_first_page_is_small_and_comes_from_here_alone(browser: Browser, service: Running) -> None:
    with visiting(browser, service.url) as visit:
        sizes: list[int] = []
        visit.page.on("requestfinished", lambda request: sizes.append(sum(request.sizes().values())))
        visit.page.goto("/", wait_until="networkidle")
        assert len(sizes) >= 4
        assert 10_000 < sum(sizes) < 100_000
        assert visit.hosts == {service.url.removeprefix("http://")}
