"""Sheets as offices keep them: numbers of their own for each row, headers in two lines, lists with dates, totals."""

from __future__ import annotations

import pytest

from qianxun.answer.tables.answer import answer_from_tables
from qianxun.core.layered_types import TableAnswer, TableInput
from qianxun.core.types import Table
from qianxun.ingest.tables.grid import Cell, flow
from qianxun.ingest.tables.read_table import read_table


def table(title: str, *rows: str, header_rows: int = 1) -> Table:
    cells = [[Cell(cell.strip()) for cell in row.split("|")] for row in rows]
    read = read_table(flow(cells, 10_000), title=title, header_rows=header_rows)
    assert read is not None
    return read


def ask(question: str, *tables: Table) -> TableAnswer:
    return answer_from_tables(question, [TableInput(f"t{at}", one) for at, one in enumerate(tables)])


def said(question: str, *tables: Table) -> str:
    """The answer, or nothing."""
    answer = ask(question, *tables)
    return answer.text if answer.sure else ""


LEDGER = table(
    "合同台账",
    "合同编号|供应商|合同金额(万元)|签订日期",
    "H-01|宏远建材|126.5|2024-02-20",
    "H-02|明达五金|88|2024-04-11",
    "H-03|东升玻璃|360|2024-04-28",
)
MACHINES = table(
    "设备",
    "资产编号|设备名称|使用部门|原值|状态",
    "S-1|铣床|一车间|52000|在用",
    "S-2|铣床|二车间|61000|报废",
    "S-3|磨床|一车间|48000|报废",
    "S-4|铣床|二车间|30500|报废",
    "S-5|叉车|仓库|75000|在用",
)


def test_a_time_is_not_answered_by_the_amount_that_is_named_in_passing() -> None:
    assert said("明达五金的合同什么时候签的", LEDGER) == "2024-04-11"
    assert said("明达五金的合同金额什么时候付", LEDGER) == ""
    assert said("明达五金的合同金额是多少", LEDGER) == "88万元"


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("报废的设备有多少台", "3"),  # and not two names
        ("有多少种设备", "3"),
        ("报废的设备有几个", ""),  # rows, or names
        ("原值最高的设备是哪台", "S-5、叉车"),
    ],
)
def test_pieces_are_rows_where_each_row_has_a_number_of_its_own(question: str, answer: str) -> None:
    assert said(question, MACHINES) == answer


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("江苏3月的销售额", "410万元"),
        ("江苏3月份的销售额", "410万元"),
        ("浙江上半年卖了多少", "1039万元"),
        ("哪个省上半年销售额最高", "江苏"),
        ("江苏和浙江上半年相差多少", "16万元"),
        ("江苏7月的销售额", ""),
    ],
)
def test_a_month_is_named_without_the_quarter_above_it_and_a_total_by_its_part_of_the_year(
    question: str, answer: str
) -> None:
    sales = table(
        "2024年上半年各省销售额（单位：万元）",
        "省份|一季度|一季度|二季度|上半年合计",
        "省份|2月|3月|4月|上半年合计",
        "江苏|255|410|390|1055",
        "浙江|302|377|360|1039",
        header_rows=2,
    )
    assert said(question, sales) == answer


def test_what_stands_above_all_columns_need_not_be_named() -> None:
    tests = table(
        "水质检测结果",
        "检测项目|标准限值|检测值|检测值",
        "检测项目|标准限值|7月|8月",
        "浑浊度|≤1|0.35|0.52",
        "总硬度|≤450|186|192",
        header_rows=2,
    )
    assert said("浑浊度8月份是多少", tests) == "0.52"
    groups = table("人数统计", "年级|男|女", "年级|人数|占比", "初一|31|48%", "初二|29|50%", header_rows=2)
    assert said("初一女生的人数", groups) == ""  # the number is that of the boys


ORDERS = table(
    "订单明细",
    "订单号|下单日期|客户|金额|状态",
    "D1|2024-01-15|海润电器|100|已发货",
    "D2|2024-03-02|迈拓科技|250|已取消",
    "D3|2024-03-28|海润电器|400|已发货",
    "D4|2024-08-09|光联通信|80|已取消",
)


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("3月份订单总金额是多少", "650"),
        ("2024年3月订单总金额是多少", "650"),
        ("一季度订单金额合计", "750"),
        ("上半年有多少笔订单", "3"),
        ("1到3月海润电器的订单金额合计", "500"),
        ("3月海润电器的金额是多少", "400"),
        ("一季度海润电器的金额是多少", "500"),  # several rows, one number
        ("2023年3月订单总金额是多少", ""),
        ("3月以后的订单总金额", ""),
        ("3月5日的订单总金额", ""),
        ("已取消的订单有多少", "2"),
    ],
)
def test_a_month_is_one_of_the_year_that_all_dates_are_of(question: str, answer: str) -> None:
    assert said(question, ORDERS) == answer


def test_a_month_of_dates_of_several_years_could_be_any() -> None:
    several = table("订单", "订单号|下单日期|金额", "D1|2023-03-15|100", "D2|2024-03-02|250", "D3|2024-05-02|70")
    assert said("3月的订单总金额", several) == ""
    assert said("2024年3月的订单总金额", several) == "250"


def test_numbers_of_a_part_of_a_year_are_no_years() -> None:
    sales = table(
        "各店业绩（单位：万元）", "门店|2021年|年度目标|上半年合计", "东店|1820|1900|1055", "西店|2105|2000|1039"
    )
    assert said("2021年最高的门店", sales) == "西店"
    assert said("上半年合计最高的门店", sales) == "东店"
    assert said("西店的年度目标", sales) == "2000万元"
    built = table("校舍", "楼名|建成年份|面积", "东楼|1998|1200", "西楼|2010|900")
    assert said("2010年建成的楼面积多少", built) == "900"


STAFF = table(
    "员工花名册",
    "工号|姓名|部门|岗位|工资",
    "A1|陈建国|生产部|主任|9800",
    "A2|李秀英|研发部|工程师|7600",
    "A3|王海涛|研发部|工程师|15800",
)


def test_people_are_counted_in_the_list_of_the_staff_and_customers_where_each_is_a_row() -> None:
    expenses = table("报销明细", "日期|报销人|部门|金额", "2024-09-03|王海涛|研发部|326", "2024-09-10|陈建国|生产部|88")
    assert said("研发部有几个人", expenses, STAFF) == "2"
    customers = table("客户名录", "客户名称|所在城市|额度", "海润电器|青岛|200", "帆远船舶|青岛|120", "光联|武汉|90")
    orders = table("订单", "订单号|客户|城市|金额", "D1|海润电器|青岛|5", "D2|海润电器|青岛|6", "D3|海润电器|青岛|7")
    assert said("青岛的客户有几家", orders, customers) == "2"


def test_a_number_on_the_left_of_the_names_is_looked_up_by_the_name() -> None:
    assert said("王海涛的工号是多少", STAFF) == "A3"


def test_who_asks_for_the_people_in_whose_rows_a_column_says_so() -> None:
    shifts = table(
        "排班表",
        "姓名|周一|周二|周三",
        "林晓|早班|早班|休息",
        "黄磊|晚班|休息|早班",
        "何芳|休息|晚班|晚班",
        "罗斌|早班|早班|晚班",
    )
    assert said("周三谁休息", shifts) == "林晓"
    assert said("谁周一休息", shifts) == "何芳"


def test_rows_are_called_by_everyday_nouns() -> None:
    marks = table("期末成绩单", "学号|姓名|数学|总分", "1|安然|132|554", "2|范冰|79|388", "3|曹颖|96|487")
    assert said("数学低于100分的同学", marks) == "范冰、曹颖"
    goods = table("报价单", "品名|品牌|零售价", "复印纸|得力|22.5", "中性笔|晨光|2.5", "订书机|得力|18")
    assert said("得力有哪些产品", goods) == "复印纸、订书机"


def test_the_total_of_a_table_that_is_called_as_what_is_asked_for() -> None:
    ledger = table("采购合同台账（2024年）", "合同编号|供应商|合同金额(万元)", "H1|宏远|126.5", "H2|明达|88")
    answer = ask("2024年采购合同总金额是多少", ledger)
    assert (answer.text, answer.leftover) == ("214.5万元", "")
    assert ask("云帆服务合同总金额是多少", ledger).leftover or not ask("云帆服务合同总金额是多少", ledger).sure


STOCK = table(
    "库存盘点表",
    "物料名称|期初库存|期末库存|安全库存",
    "圆钢|1200|1050|600",
    "钢板|560|140|200",
    "防锈油|60|28|50",
    "合计|1820|1218|850",
)


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("哪些物料低于安全库存", "钢板、防锈油"),
        ("期末库存低于安全库存的物料有哪些", "钢板、防锈油"),
        ("期初库存低于安全库存的物料有哪些", ""),
        ("所有物料期末库存合计是多少", "1218"),
    ],
)
def test_one_column_is_compared_with_another(question: str, answer: str) -> None:
    assert said(question, STOCK) == answer


def test_what_is_over_the_budget_is_what_was_spent() -> None:
    budget = table("费用执行情况", "费用项目|预算数|实际数", "办公费|45|41.2", "车辆费|30|36.5", "差旅费|120|138.6")
    assert said("哪些费用超预算了", budget) == "车辆费、差旅费"


def test_an_empty_cell_among_several_is_named_so() -> None:
    stock = table("对外投资", "单位|期初|期末", "拓客|65|65", "车凡||200", "蔚铭|11|90")
    assert said("拓客和车凡的期初分别是多少", stock) == "65、（空）"


TICKETS = table(
    "报修工单",
    "工单号|报修时间|报修人|故障类型|处理人|状态",
    "W1|2024-10-02|袁方|水管漏水|老邱|已完成",
    "W2|2024-10-08|邵琪|空调不制冷|小章|已完成",
    "W3|2024-10-21|袁方|灯具损坏|老邱|处理中",
    "W4|2024-11-03|夏禾|门锁故障|老邱|处理中",
)


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("10月有几个报修", "3"),  # repairs, and not 报修人
        ("10月有几个人报修", "2"),
        ("一共有多少人报修", "3"),
        ("10月和11月有几个报修", ""),
        ("2024年10月和11月有几个报修", ""),
    ],
)
def test_what_was_reported_is_counted_apart_from_who_reported_it(question: str, answer: str) -> None:
    assert said(question, TICKETS) == answer


def test_the_first_of_a_list_of_entries_is_not_the_first_in_rank() -> None:
    contest = table("演讲比赛评分表", "序号|选手|单位|总分", "1|于洋|团委|81", "2|石头|工会|86", "3|米兰|宣传部|83")
    assert said("第一名是谁", contest) == ""
    ranked = table("演讲比赛评分表", "序号|选手|总分|名次", "1|于洋|81|3", "2|石头|86|1", "3|米兰|83|2")
    assert said("第一名是谁", ranked) == "石头"


def test_what_stands_above_a_header_need_not_be_named_unless_it_stands_above_another() -> None:
    food = table(
        "每100克",
        "食物|营养成分|营养成分|热量",
        "食物|蛋白质(g)|脂肪(g)|千卡",
        "鸡胸肉|24.6|1.9|118",
        "三文鱼|17.2|7.8|139",
        header_rows=2,
    )
    assert said("蛋白质最高的食物", food) == "鸡胸肉"
    assert said("三文鱼的脂肪含量", food) == "7.8g"
    stock = table(
        "往来余额",
        "单位|期初|期初|期末",
        "单位|数量|金额|余额",
        "海润电器有限公司|5|50|70",
        "光联有限公司|3|33|20",
        header_rows=2,
    )
    assert said("海润电器有限公司的期初余额", stock) == ""


def test_the_unit_may_stand_in_the_brackets_of_the_title() -> None:
    income = table("各店营业收入（万元）", "门店|2023年|2024年|坪效", "西湖店|210|225|3", "灵隐店|180|176|2")
    assert said("西湖店2024年的营业收入", income) == "225万元"
    assert said("西湖店2024年比2023年增加多少", income) == "15万元"
    assert said("灵隐店2024年比2023年减少多少", income) == "4万元"


def test_nothing_in_a_column_right_of_the_names_is_to_have_none() -> None:
    members = table(
        "会员",
        "会员卡号|姓名|到期日期|次数|私教",
        "V1|裴勇|2025-01-09|8|林教练",
        "V2|姜小雅|2024-09-04|6|",
        "V3|申志|2024-08-31|9|",
    )
    answer = ask("哪些会员没有私教", members)
    assert (answer.text, "没有填" in answer.reading) == ("姜小雅、申志", True)


def test_dates_of_what_a_row_records_are_those_of_its_amounts() -> None:
    paid = table(
        "物业费收缴台账",
        "房号|业主|实收金额(元)|缴费日期",
        "1-101|王一|2000|2024-03-05",
        "1-102|李二|1500|2024-03-22",
        "1-103|赵三|1800|2024-05-01",
    )
    assert said("3月实收金额一共多少", paid) == "3500元"
    shops = table("门店", "店名|城市|销售额|开业日期", "东店|上海|90|2024-03-05", "西店|杭州|70|2024-05-01")
    assert said("3月的销售额一共多少", shops) == ""


def test_books_are_counted_by_the_piece_and_the_verb_of_a_column_says_nothing_more() -> None:
    loans = table(
        "图书借阅记录",
        "借阅单号|借出日期|读者|书名",
        "J1|2024-04-02|秦朗|三体",
        "J2|2024-05-08|秦朗|三体",
        "J3|2024-08-01|陶然|活着",
    )
    assert said("二季度借出了多少本书", loans) == "2"
    assert said("有多少种书", loans) == "2"
    assert said("秦朗借了多少次三体", loans) == "2"


FLATS = table(
    "在租房源一览",
    "房源编号|小区|户型|月租金(元)|楼层|租客|租约到期日",
    "F01|翠湖苑|一室一厅|3200|5/18|江涛|2025-03-31",
    "F02|翠湖苑|两室一厅|4600|11/18||",
    "F03|金桂园|三室两厅|6800|2/6|费玲|2025-08-15",
    "F04|金桂园|一室一厅|2900|6/6||",
)


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("哪些房源没有租客", "F02、F04"),  # by their numbers, and not by the floor, which is another in each
        ("月租金最便宜的房源", "F04"),
        ("8月有哪些租约到期", "F03"),
    ],
)
def test_rows_without_a_name_are_told_by_their_numbers(question: str, answer: str) -> None:
    assert said(question, FLATS) == answer


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("布洛芬5月进了多少盒", "80"),
        ("布洛芬一共多少盒", "110"),
        ("5月国药的金额", "1130元"),  # of two rows, without a question word
        ("5月国药进了什么", ""),  # no numbers of receipts
    ],
)
def test_a_measure_may_be_asked_for_by_its_unit_and_by_its_name_alone(question: str, answer: str) -> None:
    received = table(
        "药品入库",
        "入库单号|入库日期|供应商|药品名称|数量(盒)|进价(元)|金额(元)",
        "R1|2024-04-03|华润|布洛芬|30|12|360",
        "R2|2024-05-06|国药|布洛芬|80|12|960",
        "R3|2024-05-20|国药|板蓝根|20|8.5|170",
        "R4|2024-06-11|国药|板蓝根|40|8.5|340",
    )
    assert said(question, received) == answer
