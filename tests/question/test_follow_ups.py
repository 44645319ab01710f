"""A question that leans on what was said before it, as it stands by itself."""

from __future__ import annotations

import pytest
from langchain_core.messages import AIMessageChunk, HumanMessage

from qianxun.core.conversation import TURNS_LIMIT, Turn, turns_of
from qianxun.core.errors import BadQuery
from qianxun.question.follow_ups import Name, complete_question
from qianxun.text.chinese import Analyser

KNOWN = {
    "糖尿病": "DISEASE",
    "高血压": "DISEASE",
    "李白": "PERSON",
    "曹雪芹": "PERSON",
    "红楼梦": "WORK",
    "阿里巴巴": "ORGANIZATION",
    "腾讯": "ORGANIZATION",
    "杭州": "PLACE",
}


def names(text: str) -> list[Name]:
    found = [Name(each, type_, text.find(each), text.find(each) + len(each)) for each, type_ in KNOWN.items()]
    return sorted((each for each in found if each.start >= 0), key=lambda each: each.start)


def alone(query: str, *said: str) -> str:
    """``said`` are the turns before, the user's first."""
    history = [Turn("assistant" if at % 2 else "user", text) for at, text in enumerate(said)]
    return complete_question(query, history, names, Analyser())


@pytest.mark.parametrize(
    ("said", "query", "meant"),
    [
        (("糖尿病的主要症状是什么？", "多饮、多尿[1]。"), "它怎么治疗？", "糖尿病怎么治疗"),
        (("糖尿病的主要症状是什么？", "多饮、多尿[1]。"), "那高血压呢？", "高血压的主要症状是什么？"),
        (("红楼梦的作者是谁？", "曹雪芹[1]。"), "他是哪里人？", "曹雪芹是哪里人"),
        (("红楼梦的作者是谁？", "曹雪芹[1]。"), "他出生于哪里？", "曹雪芹出生于哪里"),
        (("李白是哪个朝代的人", "唐代。"), "其代表作有哪些", "李白的代表作有哪些"),
        (("住院报销比例是多少？", "90%[1]。"), "那门诊呢？", "门诊报销比例是多少？"),
        (("2022年营业收入是多少？", "1 亿元[1]。"), "2023年呢？", "2023年营业收入是多少？"),
        (("2022年营业收入是多少？", "1 亿元[1]。"), "净利润呢", "2022年净利润是多少？"),
        (("阿里巴巴的总部在哪里", "杭州[1]。"), "这家公司的创始人是谁", "阿里巴巴的创始人是谁"),
        (("阿里巴巴的总部在哪里", "杭州[1]。"), "这个城市的人口是多少", "杭州的人口是多少"),
        (("阿里巴巴的总部在哪里", "杭州。", "那腾讯呢", "深圳。"), "它的市值是多少", "腾讯的市值是多少"),
        (("三级医院在职住院报销比例是多少", "84%[1]。"), "退休的呢", "三级医院退休的住院报销比例是多少"),
        (("糖尿病会遗传吗", "会[1]。"), "为什么？", "糖尿病会遗传 为什么"),
        (("糖尿病如何治疗", "控制饮食[1]。"), "费用是多少", "糖尿病 费用是多少"),
    ],
)
def test_what_a_question_leaves_out_is_said(said: tuple[str, ...], query: str, meant: str) -> None:
    assert alone(query, *said) == meant


@pytest.mark.parametrize(
    "query",
    [
        "高血压怎么治疗",
        "其他症状有哪些",
        "李白和他的妻子是怎么认识的",
        "介绍一下吉他的历史",
        "《红楼梦》里他是谁",
        "尤其要注意什么",
    ],
)
def test_a_question_that_stands_by_itself_stays_as_it_is(query: str) -> None:
    assert alone(query, "糖尿病会遗传吗", "会[1]。") == query


def test_without_a_conversation_nothing_is_added() -> None:
    assert alone("它怎么治疗？") == "它怎么治疗？"


def test_a_conversation_is_taken_in_every_usual_form() -> None:
    class Message:
        type, content = "human", "三"

    told = [{"role": "user", "content": "一"}, ("assistant", "二"), Message(), {"role": "system", "content": "四"}]
    assert turns_of(told) == (Turn("user", "一"), Turn("assistant", "二"), Turn("user", "三"))
    assert len(turns_of([{"role": "user", "content": str(at)} for at in range(1, 100)])) == TURNS_LIMIT


def test_a_conversation_may_have_blocks_calls_of_tools_and_messages_that_came_as_a_stream() -> None:
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
    told = [
        HumanMessage([{"type": "text", "text": "这张片子"}, picture, "正常吗"]),
        {"role": "developer", "content": "你是医生"},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]},
        *({"role": "tool", "content": f"结果{at}", "tool_call_id": "1"} for at in range(2 * TURNS_LIMIT)),
        AIMessageChunk("正") + AIMessageChunk("常[1]。"),
    ]
    assert turns_of(told) == (Turn("user", "这张片子 正常吗"), Turn("assistant", "正常[1]。"))


@pytest.mark.parametrize(
    "said",
    [
        ("user", [7]),
        {"role": "user", "content": None},
        "你好",
        {"role": "user"},
        {"role": "nobody", "content": "一"},
        {"content": "一"},
        7,
        ("user",),
    ],
)
def test_what_is_no_turn_is_refused(said: object) -> None:
    with pytest.raises(BadQuery, match="历史"):
        turns_of([said])
