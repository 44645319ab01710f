"""Which tables a question is meant for, by the words people use: a rule, not a model, and off unless asked for."""

from __future__ import annotations

import re
from typing import Final

from qianxun.examples.schema import DEFAULT_TABLE_NAMES

_SIGNS: Final = {
    "qa_examples": re.compile(
        r"[吗呢？?]|怎么|怎样|如何|为什么|为何|什么|能不能|可不可以|可以.{0,8}(吃|喝|用|做)|是不是|要不要|该不该"
        r"|多久|注意|会不会|有没有(事|关系|影响)"
    ),
    "record_examples": re.compile(
        r"记录|记一下|记下|记上|帮我记|登记|录入|添加|补记|改成"
        r"|(吃了|服了|服用了|打了|量了|测了|血压是?|血糖是?|体重是?|心率是?).{0,8}\d"
    ),
    "query_examples": re.compile(
        r"查询|查一下|查查|看一下我|看看我|我的.{0,10}(记录|数据|情况|趋势)|统计|平均|汇总|趋势"
        r"|(最近|上周|这周|本周|上个月|这个月|本月|昨天|今年).{0,12}(记录|数据|情况|多少|几次|怎么样|血压|血糖|吃了)"
    ),
    "greeting_examples": re.compile(
        r"^\W*(你好|您好|早上好|早安|上午好|中午好|下午好|晚上好|晚安|嗨|哈喽|hi\b|hello\b|在吗|在不在)"
        r"|谢谢|多谢|再见|拜拜|辛苦了|你是谁|你叫什么",
        re.IGNORECASE,
    ),
}


def tables_for(text: str) -> tuple[str, ...]:
    """The tables whose signs the text bears, in their usual order; all of them where it bears none."""
    meant = tuple(name for name in DEFAULT_TABLE_NAMES if _SIGNS[name].search(text))
    return meant or DEFAULT_TABLE_NAMES
