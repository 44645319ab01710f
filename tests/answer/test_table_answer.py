"""Questions over small tables whose answers anybody can check by eye."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qianxun.answer.tables.answer import OutOfTime, answer_from_tables
from qianxun.core.layered_types import CitedCell, TableAnswer, TableInput
from qianxun.core.types import Table
from qianxun.ingest.assemble import read_structure
from qianxun.ingest.tables.grid import Cell, flow
from qianxun.ingest.tables.read_table import read_table


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

STAFF = table(
    "员工花名册",
    "姓名|性别|部门|职务|入职日期|月薪（元）|年龄",
    "张三|男|研发部|工程师|2020-03-01|15000|30",
    "李四|女|研发部|经理|2018-07-15|25000|38",
    "王五|男|市场部|专员|2022-11-20|9000|25",
    "赵六|女|财务部|会计|2019-01-10|12000|33",
    "钱七|男|市场部|经理|2017-05-05|22000|41",
)
SALARIES = table(
    "工资表",
    "工号|姓名|部门|基本工资(元)|绩效奖金(元)|入职日期",
    "1001|张伟|市场部|15000|3000|2019-03-01",
    "1002|李娜|市场部|8000|1200|2021-06-15",
    "1003|王强|技术部|28000|6000|2017-09-10",
    "1004|赵敏|技术部|20000|4000|2020-01-06",
)
PAYROLL = table("7月", "姓名|基本工资|绩效奖金|应发合计", "张伟|15000|3000|18000", "李娜|14000|9000|23000")
SUPPLIES = table("办公用品", "品名|单价（元）|库存数量", "复印纸|24.5|120", "硒鼓|320|12", "签字笔|2.8|560")
HALLS = table(
    "会议室", "会议室|容纳人数|投影仪|每小时费用（元）", "牡丹厅|30|有|200", "兰花厅|12|有|100", "竹苑|6|无|50"
)
PRICES = table(
    "产品价目表",
    "产品|型号|含税单价(元)|交货期(天)|2024年销量(台)",
    "净化器|KJ-300|1299|7|3200",
    "净化器|KJ-500|1999|10|1800",
    "加湿器|JS-20|399|5|5400",
)
ATTENDANCE = table("各班出勤", "班级|缺勤人数", "一班|3", "二班|5")
GRADES = table("薪酬", "姓名|基本工资|岗位工资", "张伟|5000|3000", "李娜|4000|9000")
VISITORS = table("访客登记", "姓名|来访次数", "张伟|5", "李娜|9")
FINANCE = table(
    "主要财务数据（单位：万元）",
    "项目|2023年|2022年|同比增减",
    "营业收入|12,345.67|10,000.00|23.46%",
    "净利润|1,234.50|1,500.00|-17.70%",
    "研发费用|800.00|600.00|33.33%",
)
PLAN = table(
    "2024年分省招生计划",
    "省份|科类|专业|计划数|学费（元/年）",
    "河北|物理类|计算机科学与技术|20|5500",
    "河北|历史类|法学|10|4800",
    "河南|物理类|计算机科学与技术|30|5500",
    "河南|历史类|法学|15|4800",
    "河南|物理类|法学|8|4800",
)
SPECIFICATION = table("产品规格", "参数|型号A|型号B", "额定功率|500W|800W", "重量（kg）|12|15.5", "颜色|黑色|白色")

ROOMS = table("会议室", "会议室|楼层|容纳人数|投影仪", "牡丹厅|3|20|有", "玉兰厅|3|8|无", "月季厅|5|50|有")
BUDGETS = table("部门预算", "部门|预算|已用", "研发部|120|86", "市场部|80|100", "财务部|30|13")
BRANCHES = table(
    "各分公司销售情况", "分公司|销售额|负责人", "北京分公司|1200|张伟", "上海分公司|1800|李娜", "广州分公司|900|王芳"
)
CONTRACTS = table(
    "合同台账",
    "合同编号|客户名称|签订日期|到期日|合同金额（万元）|销售经理",
    "HT-001|华为技术|2023.1.5|2024.1.4|320.5|张伟",
    "HT-002|中兴通讯|2023.3.18|2023.12.31|150|李娜",
    "HT-003|比亚迪|2022.11.11|2023.11.10|560|张伟",
)
PAY = table("工资表 编制单位：某某公司 单位：元", "姓名|部门|绩效", "张三|研发|3000", "李四|研发|5000", "王五|销售|900")
STOCK = table(
    "库存", "商品名称|单价|数量|金额", "打印机|1299|15|=C2*D2", "显示器|1150|#N/A|=C3*D3", "键盘|89|120|=SUM(A1:A2)"
)

EXPENSES = table(
    "费用明细",
    "部门|项目|金额",
    "研发部|差旅|100",
    "研发部|办公|50",
    "研发部小计||150",
    "市场部|差旅|200",
    "市场部小计||200",
    "总计||350",
)
FIRMS = table(
    "企业名录", "企业|性质|营业收入（万元）|员工人数", "甲厂|国有|1000|50", "乙厂|民营|500|20", "丙厂|国有|800|30"
)
VACANCIES = table("招聘计划", "岗位|部门|招聘人数", "会计|财务部|3", "统计|财务部|2", "审计|审计部|1")
DEVICES = table(
    "设备台账", "设备名称|数量|状态|使用部门", "服务器|12|正常|信息部", "交换机|8|维修|信息部", "打印机|5|正常|行政部"
)

PIECES = """
    张三 李四 研发部 经理 甲公司 净利润 型号A 颜色 合计 的 和 或 不是 没有 除了 以外 月薪 年龄 部门 入职日期 销售金额
    2023年 同比增减 最高 最低 第二高 前三名 最多3个 有几个 多少 哪些 谁 平均 总和 一共 超过 低于 不低于 以上 到 之间
    1万 三千 50% 30岁 2020年3月 之前 比 多多少 差多少 多少倍 每个 第 ， ？ ＡＢ 𠮷 女 （ /
"""


def ask(question: str, held: Table) -> TableAnswer:
    return answer_from_tables(question, [TableInput("t", held)])


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
    (MEDICINES, "头孢或紫杉醇的单价", "lookup", "120元、1500元"),
    (STAFF, "研发部有几个人", "count", "2"),
    (STAFF, "女员工有几名", "count", "2"),
    (STAFF, "月薪最高的员工是哪个部门的", "max", "研发部"),
    (STAFF, "李四的职务和年龄分别是什么", "lookup", "经理、38"),
    (STAFF, "2019年以前入职的员工有哪些", "filter", "李四、钱七"),
    (STAFF, "月薪在1万到2万之间的员工", "filter", "张三、赵六"),
    (STAFF, "除了研发部，月薪最高的是谁", "max", "钱七"),
    (STAFF, "非经理的员工有哪些", "filter", "张三、王五、赵六"),
    (STAFF, "研发部和市场部一共有多少人", "count", "4"),
    (STAFF, "有多少个部门", "count", "3"),
    (STAFF, "男员工的月薪总和", "sum", "46000元"),
    (STAFF, "入职最晚的三名员工", "top", "王五、张三、赵六"),
    (STAFF, "年龄大于30且月薪低于2万的员工", "filter", "赵六"),
    (STAFF, "30岁以上的员工有几个", "count", "4"),
    (STAFF, "研发部的员工有谁", "filter", "张三、李四"),
    (ROOMS, "有投影仪的会议室有哪些", "filter", "牡丹厅、月季厅"),
    (ROOMS, "哪些会议室有投影仪", "filter", "牡丹厅、月季厅"),
    (ROOMS, "没有投影仪的会议室有哪些", "filter", "玉兰厅"),
    (ROOMS, "带投影仪的会议室有几个", "count", "2"),
    (BUDGETS, "已用最多的部门", "max", "市场部"),
    (BUDGETS, "平均已用是多少", "average", "66.3333"),
    (STOCK, "数量有哪些", "list", "15、#N/A、120"),
    (EXPENSES, "有几个部门", "count", "2"),
    (EXPENSES, "平均金额是多少", "average", "116.6667"),
    (EXPENSES, "金额一共是多少", "sum", "350"),
    (DEVICES, "打印机在哪个部门", "lookup", "行政部"),
    (DEVICES, "信息部有几种设备", "count", "2"),
    (DEVICES, "行政部有几种设备", "count", "1"),  # of which it has five
    (CONTRACTS, "2023年签订的合同有几份", "count", "2"),
    (CONTRACTS, "2023年签订的合同金额一共多少", "sum", "470.5万元"),
    (CONTRACTS, "最晚到期的客户是哪个", "max", "华为技术"),
    (CONTRACTS, "签订最早的客户", "min", "比亚迪"),
    (CONTRACTS, "2023年到期的合同有哪些", "filter", "中兴通讯、比亚迪"),
    (CONTRACTS, "张伟的合同有哪些", "filter", "华为技术、比亚迪"),  # not their amounts
    (CONTRACTS, "张伟的合同金额有哪些", "filter", "320.5万元、560万元"),
    (CONTRACTS, "最大的合同", "max", "比亚迪"),
    (CONTRACTS, "合同一共多少钱", "sum", "1030.5万元"),
    (FIRMS, "国有企业的营业收入合计", "sum", "1800万元"),  # not those that have a firm
    (FIRMS, "民营企业有几家", "count", "1"),  # not how many work there
    (FIRMS, "民营企业有几个", "count", "1"),
    (FIRMS, "有几个民营企业", "count", "1"),
    (FIRMS, "乙厂有几个人", "lookup", "20"),
    (VACANCIES, "招几个会计", "lookup", "3"),
    (STAFF, "帮我查张三的月薪", "lookup", "15000元"),  # nobody is called 查张三
    (STAFF, "那张三的月薪呢", "lookup", "15000元"),
    (STAFF, "张三拿多少月薪", "lookup", "15000元"),
    (PAY, "研发的绩效总和", "sum", "8000元"),  # the company that made the table is no unit
    (SALARIES, "工资最高的是谁", "max", "王强"),  # the title has the word, too, and only one column ends in it
    (SALARIES, "工资最低的员工是谁", "min", "李娜"),
    (SALARIES, "最高工资是多少", "max", "28000元"),
    (SALARIES, "工资前三名", "top", "王强、赵敏、张伟"),
    (SALARIES, "工资最高的两个人是谁", "top", "王强、赵敏"),
    (SALARIES, "市场部平均工资", "average", "11500元"),
    (SALARIES, "市场部平均薪资是多少", "average", "11500元"),
    (SALARIES, "技术部工资合计", "sum", "48000元"),
    (SALARIES, "全公司工资总额", "sum", "71000元"),
    (SALARIES, "工资超过15000元的有谁", "filter", "王强、赵敏"),
    (SALARIES, "工资高于10000元的员工有几个", "count", "3"),
    (SALARIES, "张伟和李娜的工资差多少", "difference", "7000元"),
    (SALARIES, "奖金最高的是谁", "max", "王强"),
    (PRICES, "销量最高的型号", "max", "JS-20"),  # of the only year that the table has
    (PRICES, "总销量是多少", "sum", "10400台"),
    (PRICES, "KJ-500 的交货期是多久", "lookup", "10天"),
    (PRICES, "净化器的平均单价", "average", "1649元"),
    (PRICES, "单价低于1000元的产品", "filter", "加湿器"),
    (PRICES, "交货期最长的产品", "max", "净化器"),
    (HALLS, "费用最低的会议室", "min", "竹苑"),
    (HALLS, "牡丹厅每小时多少钱", "lookup", "200元"),  # 每 is a word of the column
    (HALLS, "没有投影仪的会议室是哪个", "filter", "竹苑"),
    (SUPPLIES, "硒鼓还有多少库存", "lookup", "12"),
    (SALARIES, "工资表里有几个部门", "count", "2"),  # the table is named, and no column
    (FINANCE, "2022年净利润", "lookup", "1,500.00万元"),
    (FINANCE, "2023年营业收入比2022年多多少", "difference", "2345.67万元"),
    (FINANCE, "研发费用2023年和2022年分别是多少", "lookup", "800.00万元、600.00万元"),
    (PLAN, "河北物理类计算机科学与技术的计划数", "lookup", "20"),
    (PLAN, "河南的计划数总和", "sum", "53"),
    (PLAN, "法学在几个省招生", "count", "2"),
    (PLAN, "有几个省份", "count", "2"),
    (PLAN, "学费最低的专业", "min", "法学"),
    (SPECIFICATION, "型号B的颜色", "lookup", "白色"),
    (SPECIFICATION, "型号A和型号B的额定功率分别是多少", "lookup", "500W、800W"),
]


def test_how_long_leaves_nothing_over() -> None:
    assert ask("KJ-500的交货期是多久", PRICES).leftover == ""


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
    (STAFF, "没有经理的部门有哪些"),  # said of departments, not of rows
    (STAFF, "月薪超过张三的员工"),
    (STAFF, "经理的月薪是多少"),  # two of them earn differently
    (STAFF, "张三的月薪是15000元吗"),
    (STAFF, "年龄大于30岁或者月薪低于1万的员工"),
    (STAFF, "张三的职务和学历分别是什么"),  # half an answer is none
    (STAFF, "男员工占比"),
    (FINANCE, "2021年的营业收入"),
    (FINANCE, "2023年净利润率"),
    (FINANCE, "营业收入"),
    (PLAN, "计划数最多的专业"),  # of one row, or of a subject's rows together
    (PLAN, "2023年河北法学的计划数"),
    (SPECIFICATION, "型号C的重量"),
    (SPECIFICATION, "哪个型号更重"),
    (ROOMS, "有会议室的楼层有哪些"),  # no column says which have any
    (ROOMS, "牡丹厅有没有投影仪的说明"),
    (BRANCHES, "南京分公司的销售额是多少"),  # nor is it 北京分公司
    (BRANCHES, "杭州分公司的负责人是谁"),
    (BRANCHES, "上海分公司二部的销售额"),
    (BRANCHES, "西北京分公司的销售额"),
    (BRANCHES, "李娜负责哪个分公司"),  # not whom it says
    (PAYROLL, "工资最高的是谁"),  # 基本工资 is a part of what is paid
    (GRADES, "工资最高的是谁"),
    (GRADES, "平均工资是多少"),
    (PRICES, "2023年销量最高的型号"),
    (PRICES, "不含税单价低于1000元的产品"),
    (ATTENDANCE, "人数最多的班级"),  # not of those who are absent
    (SALARIES, "税后工资最高的是谁"),
    (SALARIES, "加班工资合计"),
    (VISITORS, "来访次数最多的员工是谁"),  # nothing says that these are employees
    (STAFF, "李四光的月薪"),
    (STAFF, "欧阳张三的月薪"),
    (STAFF, "小张三的月薪"),
    (STAFF, "张三丰的入职日期是哪天"),
    (STAFF, "财务部张三的月薪"),  # who is of another department
    (DEVICES, "正常的设备有几台"),  # 17 of two kinds
    (BUDGETS, "哪个部门已用预算最多"),  # of 已用, or of 预算
    (MEDICINES, "最多100元的药品"),
    (MEDICINES, "头孢的单价" * 50),
    (MEDICINES, "今天天气怎么样"),
    (MEDICINES, ""),
]


@pytest.mark.parametrize("question", ["单价最高的会议室是哪个", "库存最少的会议室", "会议室的平均单价"])
def test_the_name_of_a_file_does_not_make_rows_of_what_another_of_its_tables_has(question: str) -> None:
    file = "办公用品与会议室"
    answer = answer_from_tables(question, [TableInput("a", SUPPLIES, file), TableInput("b", HALLS, file)])
    assert not answer.sure


def test_the_table_whose_rows_are_asked_for_answers() -> None:
    tables = [TableInput("a", SUPPLIES, "办公用品与会议室"), TableInput("b", HALLS, "办公用品与会议室")]
    answer = answer_from_tables("最便宜的会议室是哪个", tables)
    assert (answer.sure, answer.text) == (True, "竹苑")


@pytest.mark.parametrize(("held", "question"), DECLINED)
def test_declines_rather_than_guess(held: Table, question: str) -> None:
    answer = ask(question, held)
    assert not answer.sure
    assert answer.text == ""
    assert answer.reason


@pytest.mark.parametrize(
    ("question", "reason"),
    [
        ("显示器的数量是多少", "单元格是错误值（#N/A）"),
        ("打印机的金额是多少", "单元格是公式（=C2*D2），没有保存计算结果"),
        ("金额总和", "“金额”列的公式没有保存计算结果"),
        ("金额最大的商品", "“金额”列的公式没有保存计算结果"),
        ("金额超过1000的商品有哪些", "“金额”列的公式没有保存计算结果"),
    ],
)
def test_what_excel_writes_in_the_place_of_a_value_is_no_answer(question: str, reason: str) -> None:
    answer = ask(question, STOCK)
    assert not answer.sure
    assert answer.reason.startswith(reason)


def test_the_reading_tells_whether_a_year_itself_is_meant() -> None:
    assert "2019年以前（不含2019年）" in ask("2019年以前入职的员工有哪些", STAFF).reading
    assert "2019年及以后的行" in ask("2019年及以后入职的员工有哪些", STAFF).reading


def test_an_average_is_shown_as_people_read_it_and_given_exactly() -> None:
    answer = ask("平均已用是多少", BUDGETS)
    assert answer.values == (float((86 + 100 + 13) / 3),)
    small = table("含量", "样品|含量", "甲|0.000011", "乙|0.000012", "丙|0.000012")
    assert ask("平均含量是多少", small).text == "0.00001167"


@pytest.mark.parametrize("value", ["1E+30", "3E+307%"])
def test_an_average_of_values_that_have_no_decimals_is_given(value: str) -> None:
    """Decimal works out 28 digits, and rounding to the fourth place of such a number would need more."""
    answer = ask("平均读数是多少", table("读数表", "仪器|读数", f"甲|{value}", f"乙|{value}"))
    assert (answer.sure, answer.operation) == (True, "average")


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


def test_a_month_in_the_name_of_a_sheet_tells_which_is_meant() -> None:
    january, march = (replace(PAY, source=month) for month in ("1月", "3月"))
    both = [TableInput("january", january), TableInput("march", replace(march, rows=((*march.rows[0][:2], 7),)))]
    assert answer_from_tables("3月张三的绩效", both).table == "march"
    assert answer_from_tables("1月张三的绩效", both).table == "january"
    assert not answer_from_tables("11月张三的绩效", both).sure


def test_parts_of_other_rows_are_not_added_to_them() -> None:
    held = table("费用表", "项目|金额（元）", "管理费用|100", "其中：工资|60", "销售费用|50")
    assert not ask("金额总共是多少", held).sure
    assert ask("管理费用的金额", held).text == "100元"


def test_rows_of_totals_are_neither_summed_nor_the_highest() -> None:
    assert ask("销售金额最高的客户", SALES).text == "甲公司"
    assert ask("销售金额合计是多少", SALES).cells == (CitedCell("t", 3, 2),)
    wrong = table("费用表", "项目|金额（元）", "工资|60", "房租|50", "合计|999")
    assert "合计不一致" in ask("金额总共是多少", wrong).reason


def test_the_table_that_explains_the_question_answers() -> None:
    tables = [TableInput("a", INSURANCE), TableInput("b", HOSPITALS), TableInput("c", SALES)]
    answer = answer_from_tables("市一医院的地址", tables)
    assert (answer.table, answer.text) == ("b", "北京路1号")


def test_two_tables_that_answer_differently_are_no_answer() -> None:
    other = table("医保报销比例", "类别|报销比例", "住院|70%", "门诊|40%")
    answer = answer_from_tables("住院的报销比例", [TableInput("a", INSURANCE), TableInput("b", other)])
    assert not answer.sure
    assert "不止一张表" in answer.reason


@given(
    st.lists(st.sampled_from([*PIECES.split(), "\ud800"]), min_size=1, max_size=9).map("".join) | st.text(max_size=30)
)
def test_whatever_is_asked_gets_an_answer_or_a_reason(question: str) -> None:
    for held in (STAFF, SALES, FINANCE, SPECIFICATION):
        answer = ask(question, held)
        assert bool(answer.text and answer.reading and answer.cells) or not answer.sure or answer.text == "0"
        assert answer.sure or answer.reason
        for cell in answer.cells:
            assert cell.row < len(held.rows)
            assert cell.column < len(held.columns)


def test_time_is_over_between_two_tables() -> None:
    asked = [TableInput("a", INSURANCE), TableInput("b", SALES)]
    read: list[bool] = []

    def stop() -> bool:
        read.append(True)
        return len(read) > 1

    assert answer_from_tables("住院的报销比例", asked[:1], stop=stop).text == "85%"
    with pytest.raises(OutOfTime):  # what the other table says is not known
        answer_from_tables("住院的报销比例", asked, stop=stop)


def test_without_tables_there_is_no_answer() -> None:
    assert not answer_from_tables("住院的报销比例", []).sure


def test_a_value_comes_with_the_unit_of_its_column() -> None:
    budget = table(
        "预算", "部门|预算（万元）|人数|占比（%）|备注", "研发部|18,930|40|61.5|2年期", "市场部|720|12|38.5|无"
    )
    assert ask("研发部的预算是多少", budget).text == "18,930万元"
    assert ask("最高的预算是多少", budget).text == "18,930万元"
    assert ask("研发部的占比是多少", budget).text == "61.5%"
    assert ask("研发部的备注是什么", budget).text == "2年期"
    stated = table("销售（单位：元）", "产品|销售额", "豆浆机|2417600", "电饭煲|300")
    assert ask("豆浆机的销售额是多少", stated).text == "2417600元"
    assert ask("电饭煲的销售额是多少", stated).text == "300元"


@pytest.mark.parametrize("above", ["单位：万元", "（金额单位：人民币万元）", "单位:万元 币种:人民币"])
def test_a_unit_that_stands_on_a_line_above_the_table_is_that_of_its_values(above: str) -> None:
    rows = "| 项目 | 金额 |\n| --- | --- |\n| 营业收入 | 18,930 |\n| 营业成本 | 11,200 |"
    (span,) = read_structure(f"# 2023年营业情况\n\n{above}\n\n{rows}", "markdown").tables
    assert ask("营业收入是多少", span.table).text == "18,930万元"
    (span,) = read_structure(f"# 2023年营业情况\n\n{above}\n\n以下为合并口径。\n\n{rows}", "markdown").tables
    assert ask("营业收入是多少", span.table).text == "18,930"


def test_a_unit_that_begins_the_text_below_the_table_is_that_of_its_values() -> None:
    rows = "| 职级 | 一线城市 |\n| --- | --- |\n| 经理 | 600 |\n| 员工 | 450 |"
    (span,) = read_structure(f"## 住宿标准\n\n{rows}\n\n单位：元/晚。超出的部分由本人承担。", "markdown").tables
    assert ask("经理一线城市是多少", span.table).text == "600元/晚"
    first, second = read_structure(f"## 住宿\n\n{rows}\n\n单位：千元\n\n{rows}", "markdown").tables
    assert ask("经理一线城市是多少", first.table).text == "600"
    assert ask("经理一线城市是多少", second.table).text == "600千元"


def test_a_unit_that_is_asked_for_is_that_of_the_column() -> None:
    assert ask("首付款的金额是多少万元", PAYMENTS).text == "15万元"
    assert not ask("首付款和尾款的金额合计是多少美元", PAYMENTS).sure


def test_how_a_form_was_read_names_what_was_looked_up() -> None:
    form = table(
        "客服常见问题", "项目一|内容一|项目二|内容二", "退货期限|7天|运费承担|买家", "发票类型|电子|客服电话|40001"
    )
    answer = ask("客服电话是多少", form)
    assert (answer.text, answer.reading) == ("40001", "在《客服常见问题》中，查“客服电话”")


PAYMENTS = table("云帆技术服务合同", "付款节点|金额（万元）", "首付款|15", "二期款|20", "尾款|10")


@pytest.mark.parametrize(
    ("question", "leftover"),
    [
        ("云帆技术服务合同总金额是多少", "云帆技术服务合同"),
        ("云帆技术服务合同付款节点的总金额是多少", ""),
        ("云帆技术服务合同首付款和尾款的总金额是多少", ""),
        ("首付款的金额是多少", ""),
    ],
)
def test_what_a_sum_of_rows_leaves_over_is_named(question: str, leftover: str) -> None:
    answer = ask(question, PAYMENTS)
    assert (answer.sure, answer.leftover) == (True, leftover)


def test_the_rows_of_a_list_are_what_its_total_is_of() -> None:
    listed = table("办公用品采购清单", "品名|金额（元）", "纸|15", "笔|20")
    answer = ask("办公用品采购清单的总金额是多少", listed)
    assert (answer.text, answer.leftover) == ("35元", "")
    contracts = table("2025年采购合同台账", "合同编号|供应商|金额（元）", "CG-1|恒瑞办公|46800", "CG-2|蓝帆网络|128000")
    answer = ask("采购合同的金额一共是多少", contracts)
    assert (answer.text, answer.leftover) == ("174800元", "")


def test_the_reading_writes_cells_as_they_are() -> None:
    assert "“评级”是“A”的行" in ask("评级为A的供应商有哪些", SUPPLIERS).reading


ROSTER = table(
    "员工名册",
    "姓名|部门|岗位|是否转正|月薪（元）",
    "段思|销售部|主管|是|15000",
    "丁谷|研发部|工程师|否|21000",
    "魏来|研发部|测试|否|13000",
    "苗圃|销售部|客服|是|7800",
)
SERVICE = table("保修", "型号|整机保修|上门服务|定价（元）", "R3|24个月|是|4980", "R5|12个月|否|3580")
QUARTERS = table("区域销售", "区域|二季度|三季度", "华东|410|385", "西南|130|142")
TARGETS = table("项目目标", "区域|目标|实际", "东区|100|120", "西区|90|80", "南区|70|70", "北区|60|")
HALVES = table(
    "2025年区域销售目标",
    "区域|上半年 / 目标|上半年 / 实际|下半年 / 目标|下半年 / 实际|负责人",
    "华东|520|548|600|571|周敏",
    "西南|260|231|300|308|何思远",
)
SUPPLIERS = table(
    "供应商",
    "供应商|联系人|电话|评级",
    "恒瑞办公|顾东|021-55667788|A",
    "蓝帆网络|沈洁|0755-88991122|B",
    "青禾物业|邓超群|028-61234567|A",
)


@pytest.mark.parametrize(
    ("question", "asked_of", "text"),
    [
        ("谁还没转正", ROSTER, "丁谷、魏来"),
        ("哪些区域没有完成目标", TARGETS, "西区"),
        ("谁没完成目标", TARGETS, "西区"),
        ("未达标的区域有哪些", TARGETS, "西区"),
        ("有几个区域完成了目标", TARGETS, "2"),
        ("完成目标的区域", TARGETS, "东区、南区"),
        ("哪些区域超额完成目标", TARGETS, "东区"),
        ("超额完成的区域有哪些", TARGETS, "东区"),
        ("实际没有超过目标的区域有哪些", TARGETS, "西区、南区"),
        ("没有完成目标的区域目标是多少", TARGETS, "西区、90"),
        ("完成目标的区域实际一共多少", TARGETS, "190"),
        ("上半年没有达到目标的区域有哪些", HALVES, "西南"),
        ("下半年谁没有完成目标", HALVES, "周敏"),
        ("评级为A的供应商有哪些", SUPPLIERS, "恒瑞办公、青禾物业"),
        ("评级是B的供应商是哪家", SUPPLIERS, "蓝帆网络"),
        ("有几个供应商", SUPPLIERS, "3"),
        ("谁转正了", ROSTER, "段思、苗圃"),
        ("公司有多少员工", ROSTER, "4"),
        ("销售部有多少员工", ROSTER, "2"),
        ("销售部谁工资最高", ROSTER, "段思"),
        ("哪些型号可以上门服务", SERVICE, "R3"),
        ("哪些型号没有上门服务", SERVICE, "R5"),
        ("R3比R5贵多少", SERVICE, "1400元"),
        ("西南三季度比二季度多卖了多少", QUARTERS, "12"),
        ("哪个区域三季度卖得最差", QUARTERS, "西南"),
        ("哪个区域三季度卖得最好", QUARTERS, "华东"),
    ],
)
def test_everyday_questions_of_rows(question: str, asked_of: Table, text: str) -> None:
    answer = ask(question, asked_of)
    assert (answer.sure, answer.text) == (True, text)


def test_what_a_table_does_not_count_or_compare_it_does_not_answer() -> None:
    assert not ask("公司有多少客户", ROSTER).sure
    assert not ask("公司有多少员工", SERVICE).sure
    assert not ask("R3比R5重多少", SERVICE).sure
    assert not ask("哪个区域三季度最差", QUARTERS).sure
    assert not ask("哪些区域没有完成目标", HALVES).sure  # of which half?
    assert not ask("哪些区域没有完成目标", QUARTERS).sure
    assert not ask("哪些区域没有完成回款目标", TARGETS).sure
    assert not ask("为什么西区没有完成目标", TARGETS).sure
