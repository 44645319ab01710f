"""What a question asks: its kind, the figure it wants, the times it names, and the words that tell."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Final, Literal, TypeAlias

from qianxun.answer.tables.words import FILLER
from qianxun.question.labels import Measure, asked_label, written_for
from qianxun.text.chinese import STOP_WORDS, Analyser, fold
from qianxun.text.figures import Day, Figure, Number, Share, figures


def _listed(words: str) -> frozenset[str]:
    return frozenset(words.split())


AskedKind: TypeAlias = Literal["fact", "explain", "comparison", "summary"]
Wanted: TypeAlias = Literal["time", "number"]

_COMPARISON: Final = re.compile(
    "比较|相比|对比|分别|各自|哪[家个一所位款种者].{0,12}更|更[高低大小多少早晚长短强好快慢贵]|区别|差异|异同|有何不同|有什么不同|共同点"
    r"|\b(?:compare|versus|vs|difference between|both)\b"
)
_SUMMARY: Final = re.compile(
    r"总结|概述|概括|归纳|综述|简述|梳理|介绍一下|简要介绍|有哪些方面|\b(?:summari[sz]e|overview|outline)\b"
)
_EXPLAIN: Final = re.compile(
    "如何|怎样|怎么|(?<![称叫名成作])为什么|为何|为啥|原因|解释|说明|过程|影响"
    r"|\b(?:how(?! (?:many|much|old|long|far|tall))|why|explain)\b"
)
_WHY: Final = re.compile(r"(?<![称叫名成作])为什么|为何|为啥|何以|缘故|原因|\b(?:why|reason)\b")
_UNIT: Final = re.compile("(?:多少|几)(个月|小时|分钟|[天元人岁家次周辆台米吨亩倍股])")
_TIME: Final = re.compile(
    "何时|什么时候|啥时候|什么时间|哪一?年|哪一?天|哪个?月|哪一?日|哪个?季度|几月|几号|几点|何年|何月|何日|多久|多长时间|日期|时间|年份|几年|更[早晚]"
    r"|\b(?:when|what (?:year|date|time|day)|how long)\b"
)
_NUMBER: Final = re.compile(
    "多少|更[高低大小多少长短贵]|几(?!乎)|多大|多高|多长|多重|多远|多宽|多深|(?:金额|数量|数额|总额|比例|占比|人数|面积|价格|费用|剂量|用量|年龄|[率量额值数])(?:是|为|达|有)"
    r"|\b(?:how (?:many|much|old|far|tall)|what (?:percentage|number))\b"
)
_WHICH: Final = re.compile(
    "能不能|可不可以|能否|可否|什么时候|啥时候|多长时间|多[久长大高重远宽深](?:算|了)?|(?:是从|是在|是由|在|于|从|由)?(?:哪里|哪儿|何处)|是?什么样?的?|(?:在|于)?哪[一两二三几些]?[个些种类家位名所项部件条款本篇次座年月天日里儿届期辑集]?|何[种时地处人年]|(?:第|一?共|总)?(?:多少|几)"
    "[个种类家位名项部条次辑集届年月天岁人球辆台块元]?|怎样的?|怎么样?的?|谁"
)
_LABELLED: Final = re.compile(  # what follows is what the answer is called, not what it says
    "(?<!为)什么样?的?|哪[一两二三几些]?[个些种类家位名所项部件条款本篇次座]|何种|多少|几[个种类家位名项部条次]"
)
_LABEL: Final = re.compile("[^,，。；;？?!！、:：的了在于是为和与及]{1,6}")
_FRAME: Final = _listed("""
    when where why whose whom many much there by with at from has have had
    表现 概况 要点 及其 时间 更早 更晚 更高 更低 更大 更小 早 晚
    根据 依据 结合 按照 报告 报告书 报告期 年度 其 情况 主要 相关 有关 方面 具体 内容 分别 各自 提到 提及 所述 描述
    记载 显示 中 进行 发生 采取 通过 比较 对比 相比 总结 概述 概括 归纳 简述 请 更 是多少 如何 何时 何 什么 哪些 哪个
    哪 谁 多少 几 以及 年 月 日 期间 之间 哪家 哪位 哪种 哪类 哪项 哪部 哪所 哪里 哪儿 几位 几个 几家 几种 几名 几次
    几项 两位 两家 两个 是否 属于 总量 总额 总数 数额 金额 数量 请问 想 知道 告诉 一下 关于 针对 对于 因此 以下 上述
    该 本 这些 那些 该公司 公司 被 从 由 对 向 将 使 让 给 叫 名字 名称 名叫 叫做 称为 资料 文中 文档 材料 文章 全文
    案情 案件 经过 病情 诊疗 诊治 始末 梗概 大意 重点
    判决书 病历 患者 病人 记录 综合 基于 给出 列出 列举 指出 说明 解释 介绍 回答 问题
""")
_SELDOM_SAID: Final = _listed(
    "大小 剂量 用量 尺寸 长度 高度 重量 温度 时长 用法 服用 口服 使用 患有 没有 担任"
)  # beside what is asked
_LABEL_SHARE: Final = 0.3
_PHRASE_SHARE: Final = 0.5  # of words that stand side by side: 总 and 负债 are not yet 总负债
_LONGEST_PHRASE: Final = 4  # words
_OF_TIME: Final = _listed("年 月 日")
_DONE: Final = _listed("v vd vi p d")  # parts of speech
_OF_NAMES: Final = ("nr", "ns", "nt", "nz")  # parts of speech
_CODE: Final = re.compile(r"(?=.*[a-z])(?=.*\d)[a-z\d][a-z\d_./\-]*")  # ht-009
_MEASURING: Final = re.compile("[总]?[量额数率值]$")


@dataclass(frozen=True, slots=True)
class AskedWord:
    """A word of the question. ``share``: how much it is worth where it is found; a label is named, not told.
    ``alike``: how else a text may write it. ``measure``: of the figure that it is the label of, or ends in; ``bare``
    is the word without that label."""

    text: str
    share: float = 1.0
    alike: tuple[str, ...] = ()
    measure: Measure | None = None
    bare: str = ""


@dataclass(frozen=True, slots=True)
class Asked:
    """A question as it is read. ``words`` are those beside names of documents and times."""

    text: str
    folded: str
    kind: AskedKind
    wants: frozenset[Wanted]  # kinds of figures that it asks for
    words: tuple[AskedWord, ...]
    runs: tuple[tuple[str, ...], ...]  # the same as they stand side by side, 的 among them
    proper: frozenset[str]  # those that are names: of people, places, firms, or like HT-009
    days: tuple[Day, ...]
    figures: frozenset[str]
    names: tuple[str, ...] = ()  # of documents that it speaks of
    others: Mapping[str, str] = field(default_factory=dict)  # documents of something else (`others`)
    is_why: bool = False
    unit: str = ""  # 天 of 多少天
    label: tuple[str, Measure] | None = None  # of the figure that it asks for: 比例


def read_question(query: str, doc_names: Iterable[str] = ()) -> Asked:
    folded = fold(query)
    doc_names = tuple(doc_names)
    names = named(folded, doc_names)
    told = figures(query)
    kind = kind_of(folded)
    days = tuple(each for each in told if isinstance(each, Day))
    rest = folded
    for name in names:
        rest = rest.replace(name, "，")
    for day in days:
        rest = rest.replace(day.written, "，")
    return Asked(
        query,
        folded,
        kind,
        wanted(folded),
        _words(rest),
        _runs(rest),
        _proper(rest),
        days,
        frozenset(each.written for each in told),
        names,
        {} if names else others(folded, doc_names),
        kind == "explain" and bool(_WHY.search(folded)),
        unit.group(1) if (unit := _UNIT.search(folded)) else "",
        asked_label(folded),
    )


def kind_of(folded: str) -> AskedKind:
    if _SUMMARY.search(folded):
        return "summary"
    if _COMPARISON.search(folded):
        return "comparison"
    return "explain" if _EXPLAIN.search(folded) else "fact"


def wanted(folded: str) -> frozenset[Wanted]:
    """The kinds of figures that are asked for, where any are."""
    times = _TIME.search(folded)
    number = _NUMBER.search(_TIME.sub("，", folded))
    found: set[Wanted] = {"time"} if times else set()
    return frozenset(found | {"number"} if number else found)


def is_wanted(figure: Figure, asked: Asked) -> bool:
    """Whether a figure may be the one that is asked for; not if the question says it itself."""
    if figure.written in asked.figures:
        return False
    if "time" in asked.wants and (isinstance(figure, Day) or (isinstance(figure, Number) and _is_time(figure))):
        return True
    return "number" in asked.wants and isinstance(figure, Number | Share)


def _is_time(figure: Number) -> bool:
    """Three hours, or a year that stands alone: built in 1889."""
    return figure.unit in _TIMES or (not figure.unit and figure.digits.isdigit() and len(figure.digits) == 4)


_TIMES: Final = _listed("年 月 个月 天 日 周 小时 分钟 秒 季度 岁 周岁 星期 个星期 h min")
_SHORTEST_NAME: Final = 3
_PARTS: Final = re.compile(r"[\s()（）《》〈〉【】\[\]_\-—:：,，、·|/]+")
_RUNS_ON: Final = re.compile("[^\\W_的和与及在对于据合较比从由被把向为是]")


def named(folded: str, doc_names: Iterable[str]) -> tuple[str, ...]:
    """The names of documents that a question speaks of, as it says them, in its order: whole, or how they begin, or
    how a part of them does: 王强 of 刑事判决书（王强盗窃案）."""
    whole = dict.fromkeys(map(_bare, doc_names))
    found = {begun for name in whole if _is_name(begun := _begun(name, folded), name)}
    parts = [part for name in whole if len(split := _PARTS.split(name)) > 1 for part in split if part]
    found |= {begun for part in parts if _is_part(begun := _begun(part, folded), part)}
    ordered = sorted(found, key=lambda each: (-len(each), each))
    own = [one for at, one in enumerate(ordered) if not any(one in other for other in ordered[:at])]
    return tuple(sorted(own, key=folded.index))


def _is_name(begun: str, name: str) -> bool:
    if len(begun) < 2 or begun in _FRAME:
        return False
    return begun == name or len(begun) >= max(_SHORTEST_NAME, (len(name) + 2) // 3)


def _is_part(begun: str, part: str) -> bool:
    return _is_name(begun, part) or (len(begun) > 1 and begun == _analyser().segments(part)[0])


def others(folded: str, doc_names: Iterable[str]) -> dict[str, str]:
    """Documents whose name ends like what the question speaks of, and begins otherwise, and what they would have to
    say to be about it: 创新购物中心 is not in a report of 顶级购物中心, unless its text names it."""
    found = {}
    for name in dict.fromkeys(doc_names):
        end = _ended(_bare(name), folded)
        at = folded.find(end) if len(end) >= _SHORTEST_NAME else 0
        if at > 1 and _RUNS_ON.match(folded[at - 1]) and _RUNS_ON.match(folded[at - 2]):
            found[name] = folded[at - 2 : at + len(end)]
    return found


def _bare(name: str) -> str:
    return re.sub(r"\.[a-z]{2,5}$", "", fold(name).strip())


def _begun(name: str, text: str) -> str:
    """The longest beginning of a name that stands in a text."""
    end = 0
    while end < len(name) and name[: end + 1] in text:
        end += 1
    return name[:end].strip()


def _ended(name: str, text: str) -> str:
    start = len(name)
    while start > 0 and name[start - 1 :] in text:
        start -= 1
    return name[start:].strip()


def _words(rest: str) -> tuple[AskedWord, ...]:
    labels = {
        _named_kind(found.group()) for each in _LABELLED.finditer(rest) if (found := _LABEL.match(rest, each.end()))
    }
    words: dict[str, float] = {}
    run: list[str] = []
    for segment in (*_whole_words(_WHICH.sub("，", rest)), ""):
        word = segment.strip()
        if _tells(word):
            is_label = word in _SELDOM_SAID or any(label.startswith(word) or label.endswith(word) for label in labels)
            words[word] = _LABEL_SHARE if is_label else 1.0
            if not is_label:
                run.append(word)
                continue
        if 1 < len(run) <= _LONGEST_PHRASE:
            words["".join(run)] = _PHRASE_SHARE
        run = []
    return tuple(_asked_word(word, share, rest) for word, share in words.items())


def _runs(rest: str) -> tuple[tuple[str, ...], ...]:
    found: list[list[str]] = [[]]
    for segment in _whole_words(_WHICH.sub("，", rest)):
        word = segment.strip()
        if _tells(word) or (word == "的" and found[-1]):
            found[-1].append(word)
        elif found[-1]:
            found.append([])
    return tuple(tuple(run) for run in found if run)


def _proper(rest: str) -> frozenset[str]:
    tagged = _analyser().tagged(_WHICH.sub("，", rest))
    return frozenset(word for word, tag in tagged if tag.startswith(_OF_NAMES) or _CODE.fullmatch(word))


def _asked_word(word: str, share: float, rest: str) -> AskedWord:
    alike, label = written_for(word, rest), asked_label(rest)
    if label is None or not word.endswith(label[0]):
        return AskedWord(word, share, alike)
    return AskedWord(word, share, alike, label[1], word.removesuffix(label[0]))


def _named_kind(label: str) -> str:
    """What the answer is called, without what is done with it: 部门 of 哪个部门开具."""
    parts = _analyser().tagged(label)
    while len(parts) > 1 and parts[-1][1] in _DONE:
        parts.pop()
    return "".join(part for part, _ in parts)


def _whole_words(text: str) -> Iterator[str]:
    """Segments; 年 and 假 are 年假."""
    held = ""
    for segment in _analyser().segments(text):
        if held and len(segment) == 1 and segment.isalpha() and segment not in STOP_WORDS | _FRAME:
            yield held + segment
            held = ""
            continue
        if held:
            yield held
        held = segment if segment in _OF_TIME else ""
        if not held:
            yield segment
    if held:
        yield held


def _tells(word: str) -> bool:
    if not any(mark.isalnum() for mark in word) or word in STOP_WORDS or word in _FRAME:
        return False
    return not FILLER.fullmatch(word) and not _WHICH.fullmatch(word)


def stem(word: str) -> str:
    """消耗 of 消耗量, 投资 of 投资总额: a text says it without what it is measured by."""
    bare = _MEASURING.sub("", word)
    return bare if len(bare) >= 2 else word


@cache
def _analyser() -> Analyser:
    return Analyser()
