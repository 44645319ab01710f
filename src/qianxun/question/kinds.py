"""What kind of question a text is, by its words. Pure, and always the same."""

from __future__ import annotations

import re
from typing import Final, Literal

from qianxun.answer.state import QuestionKind
from qianxun.text.chinese import fold

_PAUSES: Final = re.compile(r"[\s，。！？!?,.~～…、；;：:]+")
_GREETING: Final = re.compile(
    r"(?:你们?好|您好|大家好|hi|hello|hey|嗨|哈喽|哈罗|[早晚]安|早|(?:早上|上午|中午|下午|晚上)好|在吗|在不在|有人吗|"
    r"谢谢|谢谢你|谢谢您|多谢|非常感谢|感谢|thanks?|thank you|thx|再见|拜拜|bye|goodbye|"
    r"好的|好|行|ok|okay|嗯++|哦++|哈哈++|呵呵++|辛苦了|不客气|没事了|明白了?|知道了|收到|"
    r"你是谁|你叫什么(?:名字)?|你能做什么|你会(?:做)?什么|你能帮我(?:做)?什么|介绍一下你自己|自我介绍一下|who are you)"
    r"[啊呀吗呢吧哦了哈]*+"  # possessive, as above: several in a row can be read in one way only
)
_GREETINGS: Final = re.compile(f"(?:{_GREETING.pattern})+")
# What people say before they ask. 能不能 alone belongs to the question: 能不能报销.
_COURTESY: Final = re.compile(
    r"(?:(?:请问(?:一下|下)?|麻烦[你您]?|劳驾|"
    r"[你您]?(?:能不能|能否|可不可以|可否|可以|能)?请?(?:帮我|帮忙|给我|为我|跟我|告诉(?:我|(?=一?下))|告知)(?:查询?|看|找|说|讲|解释)?(?:一下|下|说|讲)?|"
    r"我?想要?(?:知道|了解|问问?|咨询|请教)(?:一下|下)?|[你您](?:知道|清楚|了解)|有?谁知道|"
    r"(?:could|can|would) you (?:please )?tell me|please tell me|tell me|please|"
    r"i (?:want|would like) to know|do you know)"
    r"[，,：:\s]*)+",
    re.IGNORECASE,
)
_WHETHER: Final = re.compile(r"[吗么](?=[?？。!！\s]*$)")
_ASKS_WHAT: Final = re.compile(r"什么|谁|哪|几|多少|怎|如何|多[大长高久远]")
_COMPARISON: Final = re.compile(
    r"区别|异同|差异|差别|相同点|不同点|有(?:何|什么|哪些)不同|对比|比较(?:一下)?|相比|[和与跟同比].{1,20}(?:哪个|谁|哪家|哪种)|"
    r"(?:哪|谁)(?:个|家|种|位|款|座|一个)?(?:的.{1,12})?(?:更|比较|较|先|早|晚)|"
    r"\bvs\b|\bdifferences?\b|\bcompare|\b(?:which|who)\b.{0,80}\b(?:or|more|older|larger|first|earlier|later)\b|"
    r"\bboth\b|\bthe same\b"
)
_COUNT: Final = re.compile(
    r"(?:多少|几)(?:个|家|种|条|位|名|次|项|所|只|款|台|座|部|本|间|张|件|篇|门|支|例|行|类|户|处|辆|艘|套|人(?!民币))|"
    r"总共|一共|共有|合计|总和|求和|平均(?:值|数|是|为|每)?|(?:占|的)比重|最(?:多|少|高|低|大|小|贵|便宜|长|短)的?|排名?第|"
    r"\bhow many\b|\baverage\b|\btotal\b"
)
_SUMMARY: Final = re.compile(
    r"总结|概括|概述|综述|归纳|梳理|主要(?:讲|说|写|内容|观点|思想)|(?:讲|说|写|谈)了(?:些)?什么|大意|大致内容|中心思想|"
    r"(?:整体|总体)(?:情况|上|来看)|全貌|有哪些主题|\bsummari[sz]e|\bsummary\b|\boverview\b"
)
_ASKS_ONE: Final = re.compile(r"哪(?!些)|谁|多少|几|叫什么|什么时候|何时|为什么|\b(?:who|when|where|which)\b")
_LIST: Final = re.compile(
    r"哪些|哪几|列出|列举|罗列|有什么|有何|包括什么|包含什么|分别(?:是|为|有)|都有谁|\blist\b|\bwhat are\b|\bwhich of\b"
)
_DEFINITION: Final = re.compile(
    r"^(?:请问)?(?:什么是|什么叫|何谓|何为|啥是|解释一下)|的(?:定义|含义|概念|意思|全称|简称)|"
    r"^[^的]{1,24}(?:是什么(?:意思|东西)?|是啥|指的?是?什么|是指什么|什么意思)$|"
    r"^what (?:is|are) (?:an? |the )?[\w\s-]{1,40}$|\bdefine\b"
)
# 甲的乙的丙: what is asked of is itself asked for. 的 before a quantity or a plain adjective chains nothing.
_CHAIN: Final = re.compile(r"的(?!是|一[个种]|主要|最|[大小新老高低]).{1,16}?的(?!是|吗|呢|$)")
_CHAIN_ENGLISH: Final = re.compile(
    r"\b(?:of|by|for|in) the \w+(?: \w+){0,4} (?:of|that|who|which|whose|where)\b|"
    r"\b(?:whose|that|which|who)\b.+\b(?:whose|that|which|who)\b"
)


def kind_of(text: str) -> QuestionKind:
    """The first that fits, from the most telling on; a plain question for a fact otherwise."""
    said = fold(text).strip().rstrip("?？!！。. ")
    if is_small_talk(said):
        return "greeting"
    if _SUMMARY.search(said) and not _ASKS_ONE.search(said):
        return "summary"
    if _COMPARISON.search(said):
        return "comparison"
    if _COUNT.search(said):
        return "count"
    if _DEFINITION.search(said):
        return "definition"
    if _LIST.search(said):
        return "list"
    if _CHAIN.search(said) or _CHAIN_ENGLISH.search(said):
        return "multi_hop"
    return "fact"


def is_small_talk(text: str) -> bool:
    """Whether every part of it is a greeting, thanks, a farewell or a word to the machine."""
    parts = [part for part in _PAUSES.split(fold(text)) if part]
    return bool(parts) and all(_GREETINGS.fullmatch(part) for part in parts)


_THANKS: Final = re.compile(r"谢|感谢|thank|thx|辛苦")
_FAREWELL: Final = re.compile(r"再见|拜拜|bye|晚安")
# What a question about everything may say beside that it wants a summary.
_GENERIC: Final = re.compile(
    r"知识库|资料库?|文档|文件|材料|报告|文章|内容|信息|主题|要点|重点|观点|思想|情况|全部|所有|整个|全文|整体|总体|"
    r"这[些个份篇本]?|那[些个份篇本]?|里面?|中|请|帮我|帮忙|给我|一下|简要|简单|主要|大致|"
    r"总结|概括|概述|综述|归纳|梳理|介绍|讲|说|写|谈|有|都|是|了|些|的|什么|哪些|大意|中心|来看|上|"
    r"\b(?:summari[sz]e|summary|overview|of|the|this|these|all|documents?|everything|give|me|an?|what|about|is|please)\b"
)


def small_talk_kind(text: str) -> Literal["greeting", "thanks", "farewell"]:
    said = fold(text)
    if _FAREWELL.search(said):
        return "farewell"
    return "thanks" if _THANKS.search(said) else "greeting"


def is_about_everything(text: str) -> bool:
    """Whether a question for a summary says of nothing in particular: 总结一下这些资料."""
    return kind_of(text) == "summary" and not any(map(str.isalnum, _GENERIC.sub("", fold(text))))


def without_greeting(text: str) -> str:
    """你好，请问…… without its first words; the text itself where nothing else is said."""
    rest = text.strip()
    while found := _PAUSES.search(rest):
        if not _GREETINGS.fullmatch(fold(rest[: found.start()])) or not rest[found.end() :].strip():
            break
        rest = rest[found.end() :].strip()
    return rest


def without_courtesy(text: str) -> str:
    """能不能告诉我…… without what is said for politeness; the text itself where nothing else is said.

    你知道…是谁吗 asks who, not whether.
    """
    found = _COURTESY.match(text)
    rest = text[found.end() :].strip() if found else text
    if found and _ASKS_WHAT.search(rest):
        rest = _WHETHER.sub("", rest)
    return rest if any(map(str.isalnum, rest)) else text
