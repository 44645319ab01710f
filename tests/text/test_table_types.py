"""What type of table a table is, and what type a question asks for. None is an answer, too."""

from __future__ import annotations

import pytest

from qianxun.core.types import Column, ColumnKind
from qianxun.question.question import read
from qianxun.text.table_types import TableType, label, type_of


def columns(*names: str) -> tuple[Column, ...]:
    """``#`` marks a column of numbers, ``/`` a name below another, ``-`` a column without a name."""
    made = []
    for name in names:
        kind: ColumnKind = "number" if name.endswith("#") else "text"
        path = () if name == "-" else tuple(name.rstrip("#").split("/"))
        made.append(Column(" / ".join(path), path, kind))
    return tuple(made)


@pytest.mark.parametrize(
    ("title", "expected"),
    [
        ("2024年合并资产负债表", "statement"),
        ("办公用品价目表", "price_list"),
        ("收费标准一览表（单位：元）", "price_list"),
        ("图书馆 开放时间表", "schedule"),
        ("博览会赛程", "schedule"),
        ("F-117A攻击机参考数据", "specification"),
        ("常用电话", "directory"),
        ("豆瓣读书 最畅销图书榜单", "ranking"),
        ("中国城市潜力 房价前十城市", "ranking"),
        ("2022年河北省录取分数线", "statistics"),
        ("来访人员登记表", "form"),
        ("2014年“圆梦计划”推荐资格中学名单(湖南)", "list"),
        ("世界湖泊 河流", None),
        ("2023年前三季度经营情况", None),
        ("", None),
    ],
)
def test_the_title_tells(title: str, expected: TableType | None) -> None:
    assert type_of(title, columns("名称", "说明")) == expected


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (("项目", "期末余额#", "期初余额#"), "statement"),
        (("账龄", "期末余额/金额#", "期末余额/比例(%)#", "期初余额/金额#"), "statement"),
        (("品名", "规格", "单价（元）#"), "price_list"),
        (("酒店id", "活动类型", "人数规模#", "费用#"), "price_list"),
        (("节目", "日期", "播放时间"), "schedule"),
        (("节次", "星期一", "星期二", "星期三"), "schedule"),
        (("部门", "联系人", "电话"), "directory"),
        (("name", "type", "address", "phoneNumber"), "directory"),
        (("参数", "标准值", "实测值"), "specification"),
        (("年份", "铁路营业里程#", "旅客发送量#"), "statistics"),
        (("动物id", "排名#", "速度"), "ranking"),
        (("-", "-"), "form"),
        # No type may be guessed: a founding date is no schedule, a price among ten columns no price list.
        (("词条id", "名称", "成立时间", "创刊日期"), None),
        (("名称", "作者", "页数#", "定价#", "出版社", "出版时间"), None),
        (("按工作性质分类", "期初人数#", "本期新增#", "期末人数#"), None),
        (("词条id", "名称", "所属国家", "世界排名#", "出货量#", "市场份额#"), None),
    ],
)
def test_the_columns_tell_where_the_title_does_not(names: tuple[str, ...], expected: TableType | None) -> None:
    assert type_of("", columns(*names)) == expected


def test_the_title_comes_before_the_columns() -> None:
    assert type_of("供应商通讯录", columns("品名", "单价#")) == "directory"


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("打印纸多少钱一包", {"price_list"}),
        ("图书馆周六几点开门", {"schedule"}),
        ("期末应收账款余额是多少", {"statement"}),
        ("财务部的联系电话", {"directory"}),
        ("这台变压器的额定容量", {"specification"}),
        ("销售额排名前三名的公司", {"ranking"}),
        ("2021年高铁里程占比", {"statistics"}),
        ("推荐资格中学名单", {"list"}),
        ("海王星是谁发现的", set()),
    ],
)
def test_a_question_names_the_type_it_is_after(question: str, expected: set[TableType]) -> None:
    assert read(question).for_table_search({}).types == expected


def test_every_type_has_a_chinese_name_of_its_own() -> None:
    kinds: tuple[TableType, ...] = (
        *("statement", "price_list", "schedule", "specification", "directory"),
        *("statistics", "ranking", "form", "list"),
    )
    assert len({label(kind) for kind in kinds}) == len(kinds)
