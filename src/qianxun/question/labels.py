"""Words of a question that a text says otherwise: the label of a figure (85% is a 比例), and short everyday forms."""

from __future__ import annotations

import re
from typing import Final, Literal, TypeAlias

from qianxun.text.figures import Day, Figure, Number, Share

Measure: TypeAlias = Literal["share", "money", "date", "time", "people", "age", "size"]

_LABELS: Final[dict[Measure, str]] = {
    "share": "比例|比率|占比|费率|百分比",
    "money": "金额|价格|价钱|售价|单价|票价|房价|费用|收费",
    "date": "日期|年份",
    "time": "时间|时长|期限",
    "people": "人数",
    "age": "年龄",
    "size": "面积|剂量|用量|长度|高度|重量|温度|体积|距离",
}
_ASKED: Final = re.compile(  # the label that is asked for, not one that is only spoken of: 费用 of 费用由谁承担
    f"(?:{'|'.join(f'(?P<{measure}>{words})' for measure, words in _LABELS.items())})"
    "(?:大概|大约|一般|通常|最高|最低)?(?:会?是|为|达到?|有|在|要)?"
    "(?:多少|几|什么时[候间]|何时|哪一?[天年月日]|多[大高长久重远]|多长时间)?[元钱岁人天]?[呢啊]?[\\s?？。]*$"
)
_UNITS: Final[dict[Measure, str]] = {
    "money": "元(?:人民币)?|圆|人民币|块钱|rmb|角|美[元金]|usd|港[元币]|hkd|欧元|eur|英镑|日[元圆]",
    "date": "[年月日]",
    "time": "[年月日点天周h秒]|个月|小时|分钟|min|季度|秒钟|个?星期|周年",
    "people": "人次?|[名位]",
    "age": "周?岁",
    "size": "(?:平方)?[千公厘毫微]?[米克升里]|公[斤顷]|[斤吨亩]|[μmkc]?[gml]|mcg|㎡|m2|平米|摄氏度|[度℃片粒袋支瓶滴]",
}
_CHANGE: Final = re.compile("同比|环比|增长|增加|增幅|上升|上涨|上浮|下降|下浮|下跌|减少|提高|提升|降低|降幅|涨幅|跌幅")

_FULL: Final[dict[str, tuple[str, ...]]] = {  # what is said with one character, and written with two
    "报": ("报销",),
    "交": ("缴纳", "交纳", "缴费", "缴存"),
    "领": ("领取",),
    "贷": ("贷款",),
    "赔": ("赔偿", "赔付"),
    "罚": ("罚款", "处罚"),
    "付": ("支付",),
    "退": ("退还", "退款"),
    "借": ("借阅", "借款"),
    "休": ("休假",),
}
_MAY: Final = re.compile("(?:能|可以?|要|会|得|该|需)?(.)")
_ALLOWED: Final = re.compile("(?:能|可以|可否|可不可以).{1,12}(?:[吗么嘛][\\s?？。]*)?$")
_FORBIDDEN: Final[dict[str, tuple[str, ...]]] = {
    "喝酒": ("戒酒", "禁酒", "忌酒", "限酒"),
    "饮酒": ("戒酒", "禁酒", "忌酒", "限酒"),
    "抽烟": ("戒烟", "禁烟", "吸烟"),
    "吸烟": ("戒烟", "禁烟", "抽烟"),
}


def asked_label(folded: str) -> tuple[str, Measure] | None:
    """The label of the figure that a question ends in: 比例 of 住院报销比例是多少."""
    found = _ASKED.search(folded)
    if found is None:
        return None
    return next((words, measure) for measure in _LABELS if (words := found.group(measure)))


def is_of(measure: Measure, figure: Figure) -> bool:
    if measure == "share":
        return isinstance(figure, Share)
    if isinstance(figure, Day):
        return measure in ("date", "time")
    return isinstance(figure, Number) and bool(re.fullmatch(_UNITS[measure], figure.unit))


def is_change(text: str) -> bool:
    """Whether a figure here tells how something changed, not how much it is: 同比增长 12% is no 占比."""
    return bool(_CHANGE.search(text))


def written_for(word: str, folded: str) -> tuple[str, ...]:
    """How a text writes what a question says short: 报销 for 能报; and for what may be done, that it may not be."""
    short = _MAY.fullmatch(word)
    if short:
        return _FULL.get(short.group(1), ())
    return _FORBIDDEN.get(word, ()) if _ALLOWED.search(folded) else ()
