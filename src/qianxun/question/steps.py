"""A question that needs what a first search finds, as steps: 销售最高的大区的负责人是谁 asks first for the region.

A step is a question of its own; ``#1`` in it stands for what the first step found. Rules know five forms, of the
language and of no subject; a question that fits none is one step, which is none.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

from qianxun.question.parts import parts

MOST_STEPS: Final = 5
MARK: Final = re.compile(r"#([1-9])")
_LONGEST: Final = 80  # characters of a question that is taken apart
_WHO: Final = re.compile(
    r"(?:人|者|长|员|师|经理|主管|主任|总监|导师|老板|作者|导演|代表|上司|领导|妻子|丈夫|父亲|母亲)$"
)
_ASKS: Final = r"(?:是谁|叫什么|是什么|是哪|有谁|有哪|是多少|有多少|$)"
_MOST: Final = r"最(?:高|低|大|小|多|少|早|晚|长|短|贵|便宜|好|差|快|慢|重|轻|远|近|久|年轻|年长)"
_COUNTER: Final = r"(?:那|这)?(?:一)?(?:个|家|位|款|座|项|种|名|所|台|份|间)?"
# 2025年销售最高的大区的负责人是谁; 三个仓库里面积最大的那个的管理员是谁
_SUPERLATIVE: Final = re.compile(
    rf"^(?P<scope>[^，,？?]*?)(?P<most>{_MOST})的(?P<counter>{_COUNTER})(?P<kind>[^的是，,？?]{{0,8}})的(?P<rest>.+)$"
)
# 审批住宿标准的人在哪里办公
_CLAUSE: Final = re.compile(
    r"^(?P<clause>[^，,？?的]{2,24})的(?P<kind>人|员工|同事|公司|企业|厂家|部门|机构|单位|医院|学校|城市|供应商|供货商|团队|小组|项目|系统)"
    rf"(?P<rest>(?!{_ASKS})(?:的|在|是|有|住|由|归|叫|毕业|出生|来自|负责|成立|什么|哪|几|多|属|位于|使用|用).+)$"
)
# 华东大区的负责人的导师是谁
_CHAIN: Final = re.compile(
    r"^(?P<of>[^，,？?]+?)(?<!的目)的(?P<what>(?!最)[^的，,？?是有和与及]{1,10})(?<!的目)的"
    r"(?P<rest>(?!其中|时候|情况|地方|多少|[是有吗呀啊呢谁哪])[^的]{1,20})$"
)
_TITLE: Final = re.compile(r"[《〈“「][^《〈“「》〉”」]*[》〉”」]")
_ASKS_ALREADY: Final = re.compile(r"[我你谁哪是]|什么|怎么|如何|多少|分别|各自|不(?:大|小|少|多|为)")
# 软件组的组长毕业于哪里
_DOES: Final = re.compile(
    r"^(?P<of>[^，,？?]+)的(?P<what>[^的，,？?]{1,6}?)(?P<rest>(?:毕业|出生|住|常驻|来自|任职|就职|办公).+)$"
)
_ASKS_WHICH: Final = re.compile(r"谁|什么|哪[个家位款座项种所]")
_POINTS_BACK: Final = re.compile(
    r"^(?:那|那么)?(?P<word>[它他她](?!们)|其(?![中他它余实])|该[^的]{0,6}?(?=的)|那[个家位款座项种](?:[^的]{0,4}?)(?=的)|此人|这个人)"
)
# 甲、乙、丙哪个的起付线最高
_AMONG: Final = re.compile(
    rf"^(?P<names>[^，,？?]{{2,40}}?)(?:这?[两二三四五](?:个|家|种|款|者|位|份)?[^，,？?]{{0,4}})?(?:中|里|之间|之中)?[，,]?"
    rf"(?:哪[个家种款位份座]|谁)(?:的)?(?P<what>[^，,？?]{{0,12}}?)(?P<most>{_MOST})[？?]?$"
)
_JOINS: Final = re.compile(r"[、,，]|(?:和|与|及|跟|还是)")
_LOW: Final = re.compile(r"最(?:低|小|少|早|短|便宜|差|慢|轻|近|年轻)")

Choice = Literal["", "most", "least"]


@dataclass(frozen=True, slots=True)
class Steps:
    """The questions in order; ``choice``: the last answer is the one among them whose figure is the most or the least,
    else that of the last."""

    questions: tuple[str, ...] = ()
    choice: Choice = ""
    names: tuple[str, ...] = ()  # of which each question of a choice asks


NO_STEPS: Final = Steps()


def steps(text: str) -> Steps:
    """The steps of a question; none where it is one."""
    question = text.strip().rstrip("?？。!！ ")
    if not question or len(question) > _LONGEST:
        return NO_STEPS
    return _among(question) or Steps(_chained(question))


def filled(question: str, answers: tuple[str, ...]) -> str:
    """A step with the answers of those before it in their places."""
    return MARK.sub(lambda mark: answers[int(mark[1]) - 1] if int(mark[1]) <= len(answers) else mark[0], question)


def _chained(question: str) -> tuple[str, ...]:
    """Each step but the first asks of what the one before it found."""
    found = (
        _pointing_back(question) or _superlative(question) or _chain(question) or _clause(question) or _does(question)
    )
    if not found:
        return ()
    before = _chained(found[0]) or found[:1]
    after = _chain(found[1]) or _does(found[1]) or found[1:]
    several = (*before, after[0].replace("#1", f"#{len(before)}"), *after[1:])
    if len(after) == 2:
        several = (*several[:-1], several[-1].replace("#1", f"#{len(before) + 1}"))
    return several if len(several) <= MOST_STEPS else ()


def _pointing_back(question: str) -> tuple[str, str] | None:
    several = parts(question) or tuple(part.strip() for part in re.split(r"[，,？?；;]", question) if part.strip())
    if len(several) != 2 or not _ASKS_WHICH.search(several[0]) or (back := _POINTS_BACK.match(several[1])) is None:
        return None
    return several[0], f"#1{several[1][back.end() :]}"


def _superlative(question: str) -> tuple[str, str] | None:
    found = _SUPERLATIVE.match(question)
    if found is None or found["rest"].startswith(("是", "有")):
        return None
    kind = found["kind"] or "一个"
    return f"{found['scope']}{found['most']}的{kind}是哪个", f"#1的{found['rest']}"


def _clause(question: str) -> tuple[str, str] | None:
    found = _CLAUSE.match(question)
    if found is None:
        return None
    what = "是谁" if found["kind"] in ("人", "员工", "同事") else f"是哪个{found['kind']}"
    return f"{found['clause']}的{what}", f"#1{found['rest']}"


def _chain(question: str) -> tuple[str, str] | None:
    titles = _TITLE.findall(question)  # which may have 的 of their own
    found = _CHAIN.match(_TITLE.sub("\ue000", question))
    if found is None or _ASKS_ALREADY.search(found["of"] + found["what"]):
        return None
    what = found["what"]
    first, second = f"{found['of']}的{what}是{'谁' if _WHO.search(what) else '什么'}", f"#1的{found['rest']}"
    for title in titles:
        first, second = (
            (first.replace("\ue000", title, 1), second)
            if "\ue000" in first
            else (first, second.replace("\ue000", title, 1))
        )
    return first, second


def _does(question: str) -> tuple[str, str] | None:
    found = _DOES.match(question)
    if found is None or not _WHO.search(found["what"]):
        return None
    return f"{found['of']}的{found['what']}是谁", f"#1{found['rest']}"


def _among(question: str) -> Steps | None:
    found = _AMONG.match(question)
    names = [name.strip() for name in _JOINS.split(found["names"]) if name.strip()] if found else []
    if found is None or not found["what"] or not 2 <= len(names) < MOST_STEPS:
        return None
    questions = tuple(f"{name}的{found['what']}是多少" for name in names)
    return Steps(questions, "least" if _LOW.search(found["most"]) else "most", tuple(names))
