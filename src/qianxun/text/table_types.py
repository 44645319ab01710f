"""What type of table a table is, told from its title and its columns, and what type a question asks for.

The rules are data, read from the top: the first that holds decides. Where none holds the type is not known, which is
better than a guess: it counts in the search for tables.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from qianxun.core.types import Column, ColumnKind

TableType: TypeAlias = Literal[
    "statement", "price_list", "schedule", "specification", "directory", "statistics", "ranking", "form", "list"
]

_LABELS: Final[dict[TableType, str]] = {
    "statement": "财务报表",
    "price_list": "价目表",
    "schedule": "日程表",
    "specification": "参数表",
    "directory": "名录",
    "statistics": "统计表",
    "ranking": "排行榜",
    "form": "登记表",
    "list": "清单",
}

_Telling: TypeAlias = tuple[tuple[TableType, re.Pattern[str]], ...]


def _telling(rules: Sequence[tuple[TableType, str]]) -> _Telling:
    return tuple((type_, re.compile(words)) for type_, words in rules)


# What a title says. The more telling words stand first: 收费标准一览表 is a price list, not just a list.
_TITLES: Final = _telling(
    (
        ("statement", r"资产负债|利润表|利润及|现金流量|损益表|(所有者|股东)权益变动|财务报表|科目余额|试算平衡"),
        ("price_list", r"价目|价格(表|一览|清单)|报价|收费(标准|项目|表|一览|明细)|票价|资费|费率表|菜单|价格$"),
        (
            "schedule",
            r"日程|时间(表|安排)|课(程)?表$|时刻表|排班|值班表|班次|赛程|作息|行程(表|安排)|议程|进度(表|安排)|校历",
        ),
        ("ranking", r"排行|排名|榜单|[^标]榜$|名次|前(十|百|\d+)(名|强|大|位|$|[^\d年月日个])|(?i:top\s?\d+)"),
        ("specification", r"参数|规格|技术(指标|要求|数据)|性能(指标|数据)|参考数据|配置(表|清单)"),
        ("directory", r"通讯录|联系(方式|人|电话)|名录|电话(表|一览|$)|号码表|网点(一览|名单|信息)"),
        (
            "form",
            r"(登记|申请|审批|报名|报销|验收|履历|推荐|评审|记录)(表|单)$|(基本|个人|企业|公司)信息|报告书$|基本情况$",
        ),
        ("statistics", r"统计|分数线|(数据|情况|指标)汇总|普查|占比|历年|同比|增速|增长率|人口数|分布(情况|表)"),
        ("list", r"名单|清单|目录|一览|列表|明细"),
    )
)
_BRACKETS: Final = re.compile(r"[（(【\[][^（）()【】\[\]]{0,40}[）)】\]]\s*$")

_NUMBERS: Final[frozenset[ColumnKind]] = frozenset(("number", "percent", "money"))


@dataclass(frozen=True, slots=True)
class _Columns:
    """A type by its columns: at least ``least`` of them are named so, in a table of at most ``widest``."""

    type: TableType
    names: re.Pattern[str]
    least: int = 1
    widest: int = 1_000
    within: int = 1_000  # how far from the left such a column may stand
    numeric: bool = False  # they hold numbers
    beside: re.Pattern[str] | None = None  # and one of the others is named so
    filled: float = 0.0  # share of all columns but the first that hold numbers


def _names(pattern: str) -> re.Pattern[str]:
    return re.compile(f"(?:{pattern})$")


_PERIOD: Final = r"期末|期初|年末|年初|本期|上期|本年|上年|上年年末|上年同期|本期期末|本期期初|上年期末|本月|上月"
_CALENDAR: Final = r"年份|年度|月份|季度|年|月|时间|日期"
_PLACES: Final = r"地区|省份|省|城市|区域|区县|国家|行政区"
_BY_COLUMNS: Final = (
    _Columns("statement", _names(rf"(?:{_PERIOD})(?:余额|金额|发生额|数|账面(?:价值|余额|金额)|累计)?"), 2),
    _Columns("schedule", _names(r"(?:星期|周)[一二三四五六日天]"), 3),
    _Columns("ranking", _names(r"排名|名次|位次|排行"), widest=5, within=2),
    _Columns("ranking", _names(r"排名|名次|位次"), widest=4),
    _Columns("price_list", _names(r"单价|收费标准|门市价|零售价|会员价|资费|报价"), widest=6),
    _Columns("price_list", _names(r"价格|售价|票价|定价|费用|收费|价钱|[房菜]价"), widest=4, numeric=True),
    _Columns(
        "directory",
        _names(
            r"(?:联系|办公|咨询|服务|客服|固定)?电话(?:号码)?|手机(?:号码?)?|电子邮箱|邮箱|联系人|传真|(?i:phone(?:number)?|tel|email)"
        ),
        beside=_names(r".*(?:名称|姓名|单位|部门|科室|机构|地址|住址|网点|职务)|(?i:name|address)"),
    ),
    _Columns(
        "directory",
        _names(r"(?:详细|通讯|办公|单位|所在|注册|经营)?(?:地址|住址)"),
        beside=_names(r".*(?:名称|姓名)"),
        widest=12,
    ),
    _Columns(
        "schedule",
        _names(
            r"时间|日期|时段|时间段|节次|周次|班次|起止时间|(?:开始|结束|截止|发车|到站|到达|出发|起飞|降落|播放|播出|演出|上课|"
            r"开场|活动|会议|考试|比赛)(?:时间|日期)|起飞|到达"
        ),
        2,
        widest=8,
    ),
    _Columns(
        "specification",
        _names(r"(?:主要|技术|设备|产品|规格|标准|性能)?参数(?:值|名称|类型)?|技术(?:指标|要求)|规格型号"),
        within=1,
    ),
    _Columns("specification", _names(r"(?:主要|技术|设备|产品|规格|标准|性能)参数(?:值|名称|类型)?"), widest=8),
    _Columns("statistics", _names(rf"{_CALENDAR}|{_PLACES}"), within=1, filled=0.6, widest=40),
    _Columns("statistics", _names(r".*(?:占比|同比|环比|增长率|增速|比重|增长)"), 2, filled=0.6, numeric=True),
)
_SHORTEST_FILLED: Final = 3  # a table by the share of its numbers has at least so many columns


def type_of(title: str, columns: Sequence[Column]) -> TableType | None:
    """The type of a table, None where neither its title nor its columns are plain about it."""
    return _by_title(title) or _by_columns(columns)


def label(type_: TableType) -> str:
    """The type as a Chinese reader calls it."""
    return _LABELS[type_]


def _by_title(title: str) -> TableType | None:
    """The last part of a title says what the table is (图书馆 开放时间表), the parts before it what it is about."""
    bare = _BRACKETS.sub("", title.strip())
    for part in (bare.split()[-1] if bare else "", bare):
        for type_, words in _TITLES:
            if words.search(part):
                return type_
    return None


def _by_columns(columns: Sequence[Column]) -> TableType | None:
    named = [_parts(column) for column in columns]
    if not any(named):
        return "form" if len(columns) in (2, 4, 6, 8) else None
    return next((rule.type for rule in _BY_COLUMNS if _holds(rule, columns, named)), None)


def _parts(column: Column) -> tuple[str, ...]:
    """The names over a column, each without its unit: 单价（元）→ 单价."""
    names = (name.replace(" ", "") for header in column.path for name in header.split("、"))
    return tuple(_BRACKETS.sub("", name).rstrip("%％") for name in names)


def _holds(rule: _Columns, columns: Sequence[Column], named: Sequence[tuple[str, ...]]) -> bool:
    if len(columns) > rule.widest:
        return False
    hits = [at for at, names in enumerate(named) if at < rule.within and _is_named(rule.names, names)]
    if rule.numeric:
        hits = [at for at in hits if columns[at].kind in _NUMBERS]
    if len(hits) < rule.least:
        return False
    if rule.beside is not None and not any(_is_named(rule.beside, names) for names in named):
        return False
    if not rule.filled:
        return True
    others = columns[1:]
    numbers = sum(column.kind in _NUMBERS for column in others)
    return len(columns) >= _SHORTEST_FILLED and numbers >= rule.filled * len(others)


def _is_named(pattern: re.Pattern[str], names: Sequence[str]) -> bool:
    return any(pattern.match(name) for name in names)


# ── what a question asks for ─────────────────────────────────────────────────────────────────────

_ASKED: Final = _telling(
    (
        (
            "statement",
            r"资产负债|利润表|现金流|损益|财务报表|报表|(期末|期初|年末|年初)(的?(余额|数|金额|账面))?|发生额|净利润|营业(收入|成本)"
            r"|应收|应付|坏账准备|账面(余额|价值)",
        ),
        ("price_list", r"价目|价格|报价|收费|票价|资费|多少钱|几块钱|几元|什么价|单价|贵不贵|便宜"),
        (
            "schedule",
            r"日程|时间表|时间安排|课表|课程表|时刻表|排班|值班|班次|赛程|作息|议程|几点|什么时间|周[一二三四五六日]|星期",
        ),
        ("ranking", r"排行|排名|榜单|名次|第几名|前[一二三四五六七八九十百\d]+(名|强|位)"),
        ("specification", r"参数|规格|技术指标|性能指标|技术要求|额定|型号"),
        ("directory", r"通讯录|联系(方式|人|电话)|电话|名录|地址|邮箱|在哪(里|儿)?(办|$|？|\?)|怎么联系|网点"),
        ("form", r"登记表|申请表|审批表|报名表|报告书"),
        ("statistics", r"统计|分数线|占比|同比|环比|增长率|增速|比重|历年"),
        ("list", r"名单|清单|目录|一览"),
    )
)


def types_asked(question: str) -> frozenset[TableType]:
    """The types of table that a question speaks of; none where it could be about any."""
    return frozenset(type_ for type_, words in _ASKED if words.search(question))
