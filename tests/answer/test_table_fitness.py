"""What is asked and what a table holds: neither a number for a why, nor one of several for a list."""

from __future__ import annotations

from functools import cache
from importlib.resources import as_file, files

import pytest

from qianxun.answer.tables.answer import answer_from_tables
from qianxun.core.layered_types import CitedCell, TableAnswer, TableInput
from qianxun.core.types import Table, TableBlock
from qianxun.ingest.parse import parse
from qianxun.ingest.sandbox.limits import ParseLimits
from qianxun.ingest.tables.grid import Cell, flow
from qianxun.ingest.tables.read_table import read_table

PRICES, OUTPATIENT, HOSPITAL, SALES = "办公用品价目表.csv", "门诊报销比例.csv", "云溪市医保问答.html", "分区销售.xlsx"


@cache
def sample(name: str) -> tuple[TableInput, ...]:
    """The tables of a document of the sample library, read as an import reads them."""
    with as_file(files("qianxun") / "samples" / "library" / name) as path:
        parsed = parse(path, ParseLimits())
    tables = [block.table for block in parsed.blocks if isinstance(block, TableBlock)]
    return tuple(TableInput(f"{name}#{n}", table, parsed.title or "") for n, table in enumerate(tables))


def ask(question: str, *names: str) -> TableAnswer:
    return answer_from_tables(question, [table for name in names for table in sample(name)])


def table(title: str, *lines: str) -> Table:
    rows = [[Cell(cell.strip()) for cell in line.split("|")] for line in lines]
    read = read_table(flow(rows, 10_000), title=title, header_rows=1)
    assert read is not None
    return read


def ask_one(question: str, held: Table) -> TableAnswer:
    return answer_from_tables(question, [TableInput("t", held)])


@pytest.mark.parametrize(
    ("question", "why"),
    [
        ("升降书桌的单价为什么涨", "为什么"),
        ("升降书桌的单价怎么涨了", "为什么"),
        ("升降书桌的单价涨了多少", "涨"),
        ("请问升降书桌的单价合理吗", "好不好"),
        ("升降书桌的单价会不会变", "好不好"),
        ("升降书桌的单价能不能再低点", "好不好"),
        ("升降书桌是否有库存", "好不好"),
        ("升降书桌的单价怎么样", "怎么样"),
        ("升降书桌的单价如何", "怎么样"),
        ("人体工学椅贵不贵", ""),
        ("人体工学椅贵吗", "对不对"),
        ("升降书桌的单价谁定的", "谁"),
        ("碎纸机的供货商电话", "问题最后问的"),
        ("碎纸机的供货商的地址在哪里", "在哪里"),
        ("碎纸机的供货商什么时候换", "时间"),
    ],
)
def test_what_is_no_lookup_is_declined(question: str, why: str) -> None:
    answer = ask(question, PRICES)
    assert not answer.sure
    assert why in answer.reason


def test_a_reason_that_a_table_holds_is_given() -> None:
    held = table("离任情况", "姓名|职务|离任原因", "王明|董事|个人原因", "李华|监事|任期届满")
    assert ask_one("李华为什么离任", held).text == "任期届满"


def test_whether_is_answered_by_cells_that_say_so() -> None:
    held = table("图书馆", "名称|是否开放|级别", "东馆|是|一级", "西馆|否|二级")
    assert ask_one("西馆是否开放", held).text == "否"
    assert ask_one("能不能告诉我西馆的级别", held).text == "二级"
    assert not ask_one("西馆的级别是否合理", held).sure


# ── several tables ───────────────────────────────────────────────────────────────────────────────


def test_two_tables_that_explain_a_question_equally_well_and_differ_are_no_answer() -> None:
    answer = ask("三级医院在职职工的支付比例", HOSPITAL, OUTPATIENT)
    assert not answer.sure
    assert "不止一张表" in answer.reason


@pytest.mark.parametrize(
    ("question", "text", "name"),
    [("住院三级医院在职职工的支付比例", "84%", HOSPITAL), ("门诊三级医院在职职工的支付比例", "55%", OUTPATIENT)],
)
def test_the_table_whose_title_the_question_says_answers(question: str, text: str, name: str) -> None:
    for names in ((HOSPITAL, OUTPATIENT), (OUTPATIENT, HOSPITAL)):
        answer = ask(question, *names)
        assert (answer.text, answer.table) == (text, f"{name}#0")


def test_a_table_about_another_place_does_not_answer() -> None:
    lines = "专业名称|最高分|最低分", "外国语言文学类|583|580", "法学|590|588"
    shanghai, tianjin = (table(f"2022年{place}录取分数线", *lines) for place in ("上海市", "天津市"))
    liaoning = table(
        "2022年辽宁省录取分数线", "专业名称|文史/历史类最高|理工/物理类最高", "外国语言文学类|641|660", "法学|655|"
    )
    question = "辽宁省2022年的文史专业中，外国语言文学类专业的最高分是多少"
    assert not ask_one(question, shanghai).sure
    tables = [TableInput(name, held) for name, held in (("s", shanghai), ("t", tianjin), ("l", liaoning))]
    assert (answer_from_tables(question, tables).table, answer_from_tables(question, tables).text) == ("l", "641")


# ── lists ────────────────────────────────────────────────────────────────────────────────────────


def test_a_list_of_one_is_declined_where_another_column_may_be_the_list() -> None:
    held = table(
        "人力资源管理（经管试验班）",
        "2022年招生专业|所属学院|教学环节专业",
        "人力资源管理|劳动人事学院|人力资源管理、劳动关系、劳动与社会保障、劳动经济学",
    )
    assert not ask_one("劳动人事学院在2022年招收了哪些专业", held).sure
    assert "劳动关系" in ask_one("劳动人事学院的教学环节专业有哪些", held).text


GROUPED = table("花名册", "部门|姓名|月薪（元）", "研发部|张三|100", "|李四|200", "市场部|王五|300", "|赵六|400")


@pytest.mark.parametrize(
    "question", ["研发部有哪些员工", "研发部有几个人", "研发部的月薪总和", "研发部的月薪", "研发部月薪最高的是谁"]
)
def test_rows_whose_group_is_written_once_are_not_left_out(question: str) -> None:
    assert not ask_one(question, GROUPED).sure


def test_rows_of_such_a_group_are_still_found_by_their_own_name() -> None:
    assert ask_one("张三的月薪", GROUPED).text == "100元"
    assert ask_one("月薪最高的是谁", GROUPED).text == "赵六"


def test_a_column_that_is_filled_for_some_rows_only_names_no_groups() -> None:
    held = table("单位", "名称|人数|评级", "甲厂|10|优秀", "乙厂|20|", "丙厂|30|优秀", "丁厂|40|")
    assert ask_one("评级是优秀的单位有哪些", held).text == "甲厂、丙厂"


# ── everyday words ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("question", "row", "text"),
    [
        ("升降书桌多少钱", 4, "2199元"),
        ("升降书桌的价格", 4, "2199元"),
        ("A4 复印纸怎么卖", 0, "22.5元"),
        ("硒鼓什么价", 5, "365元"),
        ("白板笔多少钱一套", 2, "12.8元"),
        ("白板笔一套多少钱", 2, "12.8元"),
        ("QH-2087多少钱", 4, "2199元"),
    ],
)
def test_asks_for_the_price_in_everyday_words(question: str, row: int, text: str) -> None:
    answer = ask(question, PRICES)
    assert (answer.text, answer.cells) == (text, (CitedCell(f"{PRICES}#0", row, 4),))


@pytest.mark.parametrize(
    "question",
    [
        "两张升降书桌多少钱",
        "10套白板笔多少钱",
        "中性笔一支多少钱",  # the price is that of a box
        "升降书桌打折后多少钱",
        "升降书桌安装多少钱",
        "A3 复印纸多少钱",
        "升降书桌在哪里",
        "升降书桌什么时候到货",
        "碎纸机找谁买",
    ],
)
def test_everyday_words_answer_nothing_else(question: str) -> None:
    assert not ask(question, PRICES).sure


OFFICES = table(
    "办事窗口",
    "事项|地址|联系电话|负责人|办理时限|受理时间",
    "户口迁移|北京路1号|0571-1001|王芳|5个工作日|9:00-17:00",
    "居住证办理|南京路2号|0571-1002|李强|15个工作日|8:30-11:30",
)


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("居住证办理在哪里", "南京路2号"),
        ("居住证办理怎么联系", "0571-1002"),
        ("居住证办理找谁", "李强"),
        ("居住证办理要多久", "15个工作日"),
        ("居住证办理几点", "8:30-11:30"),
    ],
)
def test_other_everyday_words_ask_for_the_one_column_that_fits(question: str, text: str) -> None:
    assert ask_one(question, OFFICES).text == text


@pytest.mark.parametrize(
    "question", ["居住证办理", "居住证办理需要什么材料", "居住证办理多少钱", "居住证办理的电话和传真"]
)
def test_the_column_beside_a_name_is_not_given_for_another(question: str) -> None:
    assert not ask_one(question, OFFICES).sure


def test_a_directory_of_words_is_read_by_row_and_column() -> None:
    answer = ask_one("户口迁移的联系电话", OFFICES)
    assert (answer.text, answer.cells) == ("0571-1001", (CitedCell("t", 0, 2),))


def test_two_columns_that_fit_are_no_answer() -> None:
    held = table("报价", "品名|单价（元）|金额（元）", "椅子|10|100", "桌子|20|400")
    assert not ask_one("椅子多少钱", held).sure
    stock = table("库存", "品名|库存", "椅子|10", "桌子|20")
    assert not ask_one("椅子多少钱", stock).sure
    assert ask_one("椅子的库存", stock).text == "10"


# ── columns in English ───────────────────────────────────────────────────────────────────────────


def test_a_business_license_is_no_permit() -> None:
    held = table(
        "加油站",
        "name|businessLicenseNumber|level",
        "东栅站|91330402089454841G|二级",
        "西栅站|91330212144546328A|一级",
    )
    assert ask_one("东栅站的工商营业执照编号是多少", held).text == "91330402089454841G"
    assert not ask_one("东栅站的经营许可证号是什么", held).sure


def test_the_level_of_something_else_is_not_given() -> None:
    held = table("旅游景点", "name|level", "草鱼塘森林公园|AA", "碗窑景区|AAA")
    assert not ask_one("草鱼塘森林公园是什么级别的公园", held).sure
    assert ask_one("草鱼塘森林公园的级别是什么", held).text == "AA"
