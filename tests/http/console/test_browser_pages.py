"""Evaluation, logs, graph, tables and health in a real browser: runs that are followed, names, phones, axe."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from qianxun.core.types import Document
from qianxun.engine.admin.evaluation_sets import Evaluations
from tests.http.console.chrome import Running, needs_browser, running, visiting

pytestmark = needs_browser

EVIL = '<img src=x onerror="alert(1)">'
TABLE = "# 门诊费用\n\n| 项目 | 费用（元） |\n| --- | --- |\n| 血常规 | 25 |\n| 核磁共振 | 850 |\n"
QUESTIONS = {"住院能报多少": "住院", "起付线是多少": "住院", f"{EVIL}弟弟": "人物"}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("pages")) as found:
        yield found


@pytest.fixture(scope="module")
def base(service: Running) -> int:
    return service.base(
        f"医保{EVIL}",
        Document("住院", "住院报销比例为百分之八十五。起付线为八百元。", name="住院.txt"),
        Document("费用", TABLE, name=f"费用{EVIL}.md", format="markdown"),
        Document("人物", "鲁迅原名周树人，出生于浙江绍兴。周作人是鲁迅的弟弟。", name="人物.txt"),
    )


@pytest.fixture(scope="module")
def cases(service: Running, base: int) -> int:
    async def saved() -> int:
        for question, document in QUESTIONS.items():
            right = [f"c_{base}_{document}_0"]
            own, _ = await Evaluations(service.engine).save_case(base, question, chunk_ids=right, expected=EVIL)
            await service.engine.retrieve(base, question)
        return own.id

    return service.run(saved())


def test_two_ways_are_measured_followed_and_compared_by_clicking(page: Page, cases: int) -> None:
    page.goto("/console/evaluation")
    page.get_by_role("link", name="常用问题").click()
    page.get_by_label("fulltext", exact=True).check()
    page.get_by_role("button", name="开始").click()
    expect(page.locator("#runs .state.done")).to_have_count(2)  # the list follows the runs by itself
    page.get_by_role("button", name="比较选中的两次").click()
    expect(page.get_by_text("不显著")).to_be_visible()
    page.get_by_role("link", name="起付线是多少").click()
    expect(page).to_have_url(re.compile(r"/console/bench\?base=\d+&q="))
    assert cases


def test_an_index_is_rebuilt_and_followed(page: Page, base: int) -> None:
    page.goto("/console/health")
    page.locator("summary", has_text="重建").first.click()
    page.locator("details[open] button", has_text="重建").click()
    expect(page.locator("#operations .state.done").first).to_be_visible()
    assert base


def test_a_name_leads_to_its_neighbours_and_cells_are_lit(page: Page, base: int) -> None:
    page.goto(f"/console/graph?base={base}&name=鲁迅")
    page.locator("svg.ego a", has_text="周作人").click()
    expect(page.locator("h2", has_text="周作人")).to_be_visible()
    page.goto("/console/tables")
    page.get_by_label("问题").fill("核磁共振的费用是多少")
    page.get_by_role("button", name="问", exact=True).click()
    expect(page.locator("td.lit")).to_have_text("850")


def test_no_page_has_a_serious_fault_or_is_wider_than_a_phone(
    browser: Browser, service: Running, base: int, cases: int
) -> None:
    async def measured() -> list[int]:
        return [(await Evaluations(service.engine).measure(cases, mode)).id for mode in ("fulltext", "hybrid")]

    first, second = service.run(measured())
    paths = (
        f"evaluation/set?id={cases}", f"evaluation/run?id={first}", f"graph?base={base}&name=鲁迅",
        f"evaluation/compare?before={first}&after={second}", f"tables?base={base}&q=核磁共振的费用",
        "health?doctor=1",
    )  # fmt: skip
    phone = {"viewport": {"width": 390, "height": 800}, "color_scheme": "dark"}
    with visiting(browser, service.url, **phone) as visit:
        for path in paths:
            visit.page.goto(f"/console/{path}")
            assert visit.page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
            found = Axe().run(visit.page).response["violations"]
            assert [one["id"] for one in found if one["impact"] in ("serious", "critical")] == [], path
        assert visit.complaints == []


def test_a_wide_table_of_a_document_scrolls_by_itself_on_a_phone(browser: Browser, service: Running) -> None:
    names = [f"第{number}季度的销售金额" for number in range(12)]
    rows = (names, ["---"] * 12, [str(number) for number in range(12)], ["9"] * 12)
    wide = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    base = service.base("宽表", Document("宽", wide, name="宽.md", format="markdown"))
    with visiting(browser, service.url, viewport={"width": 390, "height": 800}) as visit:
        visit.page.goto(f"/console/bases/{base}/document?doc=宽")
        expect(visit.page.locator("td").first).to_be_visible()
        assert visit.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
