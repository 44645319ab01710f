"""The words of questions over tables, as data: what says nothing, what compares, what computes, what denies."""

from __future__ import annotations

import re
from typing import Final


def _listed(words: str) -> frozenset[str]:
    return frozenset(words.split())


_FILLERS: Final = _listed("""
    多少钱 能告诉我吗 能不能告诉我 请告诉我 告诉我 告诉下 请告知 请问一下 请问下 请问 请介绍 请列举 请列出 请
    我想要了解 我想了解 我想知道 想知道 想了解 能讲一下 你知道 你了解 知道 了解 查询 查一下 帮我 帮忙 给出 列出 列举
    介绍 说明 说一下 统计 计算 一下 告诉 想问 问下 是多少 有多少 为多少 多少 是什么 什么时候 什么 时候 是谁 谁 哪里
    在哪个 在哪家 在哪 哪儿 哪些 哪个 哪家 哪一天 哪一年 哪天 哪年 哪一 哪位 哪种 哪所 哪几 哪 怎么样 怎么 如何 叫什么
    叫 多大 多长 多高 多重 多远
    啥 位于 坐落 属于 所属 具体 情况 根据 按照 按 关于 其中 包括 包含 对应 相应 进行 满足 符合
    条件 拥有 具有 采用 使用 提供 要求 他们 她们 它们 这些 那些 这个 那个 一个 自己 所有 全部 全都 各自 分别 各个 各
    都 还有 以及 并且 并 且 和 与 及 跟 同 或 的 是 有 在 中 里 内 上 为 了 吗 呢 啊 吧 呀 么 其 它 他 她 该 此 这
    那 时 对 于 由 被 把 将 个 年度 当 从 到 至 也 又 就 只 所 之 给 需要 要 应该 应 能 会 可以 可 每 人 家 名 位 种
    款 条 项 部 本 件 次 台 支 座 分 元 天 岁 年 月 日 号 届 处 门 类 些 顶 双 套 者 该公司 本公司 公司 该企业 企业
    该单位 单位 我们 我 你 您 此次 信息 内容 数据 表格 表中 表里 数值 值 数额 数目 数量 数 金额 比较 目前 现在 已经
    共 存在 发生 出 来 去 做 用 以 等 得 地 着 过 更 很 最近 想 看 说 下 如果 那么 的话 当时 此类 这样 同时 先 后
    查下 查查 看看 麻烦 辛苦 你好 您好 谢谢 告知 清楚 贵公司 贵司 贵企业 你们 咱们 因为什么 为什么 为啥 为何 因为
""")
COUNTED: Final = "家个所名位种款条项部本件次台支只座人间栋门场户辆册集张类处届片颗顶双套枚艘架幅篇首支队对份笔"
DECISIVE: Final = re.compile(  # a question that says one of these and a table that does not speak of different things
    "期初|期末|年初|年末|上年|上期|本期|本年|去年|今年|明年|前年|同比|环比|增长|增加|减少|下降|累计|人均|平均|均值|比例|占比|比率"
    "|最高|最低|最大|最小|最多|最少|最|预算|实际|合计|小计|税前|税后|含税|上半年|下半年|季度|国内|国外|境内|境外|直接|间接|非流动"
    "|其他|其它|扣除|除外|涨价|降价|上涨|下跌|涨幅|跌幅|打折|折扣|折后|优惠"
)
ELSEWHERE: Final = re.compile(  # a place or a body that a question names and a table does not: it is about another
    "北京|天津|上海|重庆|河北|山西|辽宁|吉林|黑龙江|江苏|浙江|安徽|福建|江西|山东|河南|湖北|湖南|广东|海南|四川|贵州|云南|陕西|甘肃"
    "|青海|台湾|内蒙古|广西|西藏|宁夏|新疆|香港|澳门|[^\\W\\d]{2,}(?:自治区|自治州|省|市|县|有限公司|集团|医院|中学|小学|银行)"
)
DECISIVE_ALONE: Final = _listed("率 总 净 毛 倍 差 比 男 女 高 低 第 前 大 小 新 旧 非 最 整体 总体 涨 跌 降 贵 便宜")
FILLER: Final = re.compile("|".join(sorted(map(re.escape, _FILLERS), key=len, reverse=True)))
HOW_MANY: Final = re.compile(rf"(?<!哪)(?:总共|一共|共|总计)?(?:有|是|设有|包括|包含)?(?:多少|几)(?P<of>[{COUNTED}])?")
NEGATION: Final = re.compile(
    "不是|不为|不属于|不在|不含|不包含|不包括|不等于|并非|没有|除了|除去|除开|排除|没|无|未|非|除|不"
)
DENYING: Final = re.compile(  # of a cell; 没有 may speak of a whole group: 没有经理的部门
    "不是|不为|不属于|不在|不含|不包含|不包括|不等于|并非|除了|除去|除开|排除|非|除"
)
BEGGING: Final = re.compile(  # asks to be told, not whether
    "(?:能不能|可不可以|能否|可否|是否可以|是否能)(?=请|麻烦|告诉|告知|介绍|说|讲|帮|查|给|把|描述|提供|列)"
)
POLITE: Final = re.compile("知道|了解|告诉|介绍|讲|查|请问")
CHANGED_BY: Final = {
    "before": _listed("非 净 毛 总 副 未 无 不 次 子 母 原"),
    "after": _listed("率 比 差 倍 税 前 后 外"),
}
EXCEPT_AFTER: Final = re.compile("以外|之外")
LISTING: Final = re.compile("都有哪些|有哪些|都有谁|有谁|是哪些|哪些|哪几|都有什么|有什么|列出|列举|都有|名单|介绍")
NEXT_ASK: Final = re.compile("[,?;!]|以及|并给出|还有")
ASKING: Final = re.compile("多少|几|什么|啥|谁|哪|何|是否|给出")
JOINED: Final = re.compile("和|以及|还有|及|、")
SEVERAL: Final = re.compile("分别|各(?=[是有为自个项])|每")
EITHER: Final = re.compile("或者|或是|或|要么")
PER_GROUP: Final = re.compile(
    "每个|每种|每家|每类|每位|每年|每月|每所|每一|每座|每款|每|各个|各类|各种|各年|各省|各市|各地|各(?=[^自是有位])"
)
UNCOUNTED: Final = re.compile("是否|是不是|有没有|能否|可否|能不能|会不会|为什么|为何|怎么办|如何")

# What stands before a number, longest first; None: said of a number, but not what it means to the row's value.
BEFORE: Final = (
    (
        ">=",
        "大于或等于|大于等于|高于或等于|不低于|不少于|不小于|不早于|不短于|不下于|没有低于|没低于|未低于|没有少于|至少|起码|≥|>=",
    ),
    (
        "<=",
        "小于或等于|小于等于|低于或等于|不超过|不高于|不大于|不多于|不晚于|不长于|没有超过|没超过|未超过|至多|不超|≤|<=",
    ),
    ("<", "没有达到|未达到|没达到|达不到|不足|不到|不满|未满|小于|低于|少于|早于|短于|<"),
    (">", "超过了|超过|大于|高于|多于|晚于|长于|不止|突破|超出|超|>"),
    ("!=", "不等于|不是|不为|并非|≠|!="),
    ("=", "恰好为|恰好是|正好是|等于|恰好|正好|恰为|为|是|=|有|在|共|于"),
)
AFTER: Final = (
    (">=", "及其以上|及其之后|及以上|或以上|及之后|及以后|以上|之上|起"),
    ("<=", "及其以下|及其之前|及以下|或以下|及之前|及以前|以下|之下|以内|之内"),
    ("<", "之前|以前|前"),
    (">", "之后|以后|后"),
    ("!=", "以外|之外"),
)
BETWEEN: Final = re.compile("(?:到|至|~|-|—|和|与|及)")
SUPERLATIVE: Final = re.compile(
    "第(?P<nth>[一二三四五六七八九十]|\\d{1,2})(?P<nthword>高|低|大|小|多|少|长|短)"
    "|最(?P<word>高|大|多|长|贵|重|远|老|晚|好|厚|宽|快|低|小|少|短|便宜|轻|近|年轻|早|差|薄|窄|慢)"
)
DOWNWARD: Final = _listed("低 小 少 短 便宜 轻 近 年轻 早 薄 窄")
UNCLEAR: Final = _listed("好 差 快 慢")  # fast may be the most or the least of a column
ABOUT: Final = {  # what a superlative speaks of when no column is named
    **dict.fromkeys(("贵", "便宜"), "价|费|金额"),
    **dict.fromkeys(("老", "年轻"), "年龄"),
    **dict.fromkeys(("早", "晚"), "时间|日期?$|日期|年份"),
    **dict.fromkeys(("重", "轻"), "重量|体重"),
    **dict.fromkeys(("厚", "薄"), "厚|页数"),
    **dict.fromkeys(("宽", "窄"), "宽"),
    **dict.fromkeys(("远", "近"), "距离|里程"),
}
TOP: Final = re.compile(
    r"(?:排名|排在|位列|位居|名列)?(?:最)?前(?P<n>\d{1,3}|[一二两三四五六七八九十]{1,3})"
    r"(?:名|位|个|家|大|强|的|项|种|款|条|部|所|人)?"
)
ORDINAL: Final = re.compile(
    r"(?:排名|排在|排|位列|列为|位居)?第(?P<n>\d{1,4}|[一二三四五六七八九十百]{1,4})(?P<of>[行条个名位所家项款种本部]|$)"
)
SUM: Final = re.compile("总共|一共|合计|总和|总计|总额|总数|加起来|加在一起|累计|之和|共计|共(?=有?多少|是?多少)|总")
AVERAGE: Final = re.compile("平均值|平均数|平均|均值")
DIFFERENCE: Final = re.compile("相差多少|差多少|相差|差额|差值|差距|之差|差了多少|差几")
MORE_THAN: Final = re.compile("(?P<word>多|少|高|低|贵|便宜|大|小|长|短|重|轻|晚|早)(?:了|出|出来)?(?:多少|几)")
TIMES: Final = re.compile("(?:多少|几)倍")
TOTAL_ROW: Final = re.compile(
    "(?:.{0,12}[合总小]计|累计|总和|合\\s+计|总\\s+计|小\\s+计|总额|平均|平均值|均值|全部|total|sum)(?:[（(:：].*)?",
    re.IGNORECASE,
)
UNSOLVED: Final = re.compile(r"=[A-Za-z(+\-$'（\[{\"\d].*", re.DOTALL)  # a formula that was saved without its result
PART_ROW: Final = re.compile("其中|(?:减|加|减去|加上)[:：]")
IDENTIFYING: Final = re.compile(
    "(?:序号|编号|编码|代码|号码|电话|手机|邮编|证号|排名|名次|id|code|no\\.?|number|#)$", re.IGNORECASE
)
NAMING: Final = re.compile("名称|姓名|名字|名|项目|品名|标题|题目|name|title", re.IGNORECASE)
YEARLY: Final = re.compile("年份|年度|年|时间|日期|year|date|time", re.IGNORECASE)
