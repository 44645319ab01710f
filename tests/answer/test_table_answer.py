"""Questions over small tables whose answers anybody can check by eye."""

from __future__ import annotations

import pytest

from qianxun.answer.table_answer import answer_from_tables
from qianxun.answer.table_shapes import AskedTable, CitedCell, TableAnswer
from qianxun.ingest.tables import Cell, flow, read_table
from qianxun.types import Table


def table(title: str, *lines: str) -> Table:
    rows = [[Cell(cell.strip()) for cell in line.split("|")] for line in lines]
    read = read_table(flow(rows, 1_000_000), title=title)
    assert read is not None
    return read


INSURANCE = table("医保报销比例", "类别|起付线（元）|报销比例", "门诊|100|50%", "住院|500|85%", "大病|2000|90%")
SALES = table(
    "2023年客户销售情况",
    "序号|客户|销售金额（万元）|年度销售占比%",
    "1|甲公司|4,969.5|26.18%",
    "2|乙公司|300|10%",
    "3|丙公司|1200|30.5%",
    "合计||6469.5|66.68%",
)
HOSPITALS = table(
    "定点医院名单",
    "医院名称|级别|地址|床位数",
    "市一医院|三级甲等|北京路1号|1000",
    "市二医院|三级乙等|南京路2号|800",
    "市三医院|二级甲等|上海路|300",
)
MEDICINES = table(
    "药品价目表",
    "药品名称|单价（元）|生产日期|产地",
    "阿莫西林|12.5|2023-01-05|北京",
    "头孢|120|2022-05-01|上海",
    "紫杉醇|1500|2023-06-30|北京",
)


def ask(question: str, held: Table) -> TableAnswer:
    return answer_from_tables(question, [AskedTable("t", held)])


ANSWERED = [
    (INSURANCE, "住院的报销比例", "lookup", "85%"),
    (INSURANCE, "请问住院的报销比例是多少？", "lookup", "85%"),
    (INSURANCE, "住院的報銷比例是多少", "lookup", "85%"),
    (INSURANCE, "門診和住院的報銷比例分別是多少？", "lookup", "50%、85%"),
    (INSURANCE, "门诊和住院的报销比例差多少", "difference", "35个百分点"),
    (INSURANCE, "大病的起付线比门诊高多少", "difference", "1900元"),
    (INSURANCE, "门诊的起付线比大病低多少", "difference", "1900元"),
    (INSURANCE, "起付线最高的类别", "max", "大病"),
    (INSURANCE, "报销比例超过百分之六十的有哪些", "filter", "住院、大病"),
    (INSURANCE, "报销比例不是50%的类别有哪些", "filter", "住院、大病"),
    (INSURANCE, "不是住院的类别有哪些", "filter", "门诊、大病"),
    (INSURANCE, "除了大病以外报销比例最高的类别", "max", "住院"),
    (SALES, "2023年销售占比最高的客户", "max", "丙公司"),
    (SALES, "销售金额一共是多少", "sum", "6469.5万元"),
    (SALES, "销售金额超过1000万元的客户", "filter", "甲公司、丙公司"),
    (SALES, "销售金额超过１０００万的客户有几家", "count", "2"),
    (SALES, "销售金额低于五百万元的客户有哪些", "filter", "乙公司"),
    (SALES, "销售金额最高的前两名客户", "top", "甲公司、丙公司"),
    (SALES, "销售金额第二高的客户", "max", "丙公司"),
    (SALES, "平均销售金额是多少", "average", "2156.5万元"),
    (SALES, "甲公司的销售金额是乙公司的多少倍", "ratio", "16.565倍"),
    (HOSPITALS, "有几家三级医院", "count", "2"),
    (HOSPITALS, "有几家医院", "count", "3"),
    (HOSPITALS, "不是三级的医院有几家", "count", "1"),
    (HOSPITALS, "床位数最多的医院在哪里", "max", "北京路1号"),
    (HOSPITALS, "床位数在500到900之间的医院", "filter", "市二医院"),
    (HOSPITALS, "三级医院一共有多少床位数", "sum", "1800"),
    (MEDICINES, "单价超过100元的药品有哪些", "filter", "头孢、紫杉醇"),
    (MEDICINES, "单价不超过一百二十元的药品有哪些", "filter", "阿莫西林、头孢"),
    (MEDICINES, "单价120元以上的药品有几种", "count", "2"),
    (MEDICINES, "2023年1月以后生产的药品有几种", "count", "1"),
    (MEDICINES, "北京产的药品平均单价", "average", "756.25元"),
    (MEDICINES, "产地不是北京的药品有哪些", "filter", "头孢"),
    (MEDICINES, "生产日期最早的药品", "min", "头孢"),
    (MEDICINES, "头孢或紫杉醇的单价", "lookup", "120、1500"),
]


@pytest.mark.parametrize(("held", "question", "operation", "text"), ANSWERED)
def test_answers_exactly(held: Table, question: str, operation: str, text: str) -> None:
    answer = ask(question, held)
    assert (answer.sure, answer.operation, answer.text) == (True, operation, text), answer


DECLINED = [
    (INSURANCE, "2022年住院的报销比例"),  # the table says nothing of 2022
    (INSURANCE, "手术的报销比例"),
    (INSURANCE, "住院的封顶线"),
    (SALES, "2022年销售占比最高的客户"),
    (SALES, "上年销售金额最高的客户"),
    (SALES, "销售金额超过平均值的客户"),
    (HOSPITALS, "没有床位的医院有哪些"),
    (HOSPITALS, "每个级别的医院平均有多少床位"),
    (HOSPITALS, "按床位数从高到低列出医院"),
    (MEDICINES, "单价比头孢高的药品"),
    (MEDICINES, "单价超过100元或者产地是北京的药品"),
    (MEDICINES, "今天天气怎么样"),
    (MEDICINES, ""),
]


@pytest.mark.parametrize(("held", "question"), DECLINED)
def test_declines_rather_than_guess(held: Table, question: str) -> None:
    answer = ask(question, held)
    assert not answer.sure
    assert answer.text == ""
    assert answer.reason


def test_cites_the_cells_an_answer_rests_on() -> None:
    assert ask("住院的报销比例", INSURANCE).cells == (CitedCell("t", 1, 2),)
    assert ask("起付线最高的类别", INSURANCE).cells == (CitedCell("t", 2, 0), CitedCell("t", 2, 1))
    assert ask("销售金额一共是多少", SALES).cells == tuple(CitedCell("t", row, 2) for row in range(3))
    assert ask("有几家三级医院", HOSPITALS).cells == (CitedCell("t", 0, 0), CitedCell("t", 1, 0))


def test_says_how_it_understood() -> None:
    reading = ask("单价超过100元的药品有哪些", MEDICINES).reading
    assert reading == "在《药品价目表》中，找“单价（元）”超过100元的行，列出“药品名称”"


def test_declined_questions_come_with_the_nearest_rows() -> None:
    answer = ask("2022年住院的报销比例", INSURANCE)
    assert answer.rows == (1,)
    assert "2022年" in answer.reason


def test_the_table_that_explains_the_question_answers() -> None:
    tables = [AskedTable("a", INSURANCE), AskedTable("b", HOSPITALS), AskedTable("c", SALES)]
    answer = answer_from_tables("市一医院的地址", tables)
    assert (answer.table, answer.text) == ("b", "北京路1号")


def test_two_tables_that_answer_differently_are_no_answer() -> None:
    other = table("医保报销比例", "类别|报销比例", "住院|70%", "门诊|40%")
    answer = answer_from_tables("住院的报销比例", [AskedTable("a", INSURANCE), AskedTable("b", other)])
    assert not answer.sure
    assert "不止一张表" in answer.reason


def test_without_tables_there_is_no_answer() -> None:
    assert not answer_from_tables("住院的报销比例", []).sure
