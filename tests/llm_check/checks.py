"""What must hold with a real model, whatever it says. A check returns a line about what happened, or raises."""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Final
from urllib.request import Request, urlopen

import pytest

from qianxun.core.answer_types import Answer, Done, Failed, Token
from qianxun.core.errors import ModelError
from qianxun.core.options import QUERY_MODES
from qianxun.core.types import Document, Message
from qianxun.doors.mcp.catalog import TOOLS
from qianxun.doors.mcp.collection import Collection
from qianxun.doors.workflow.query_workflow import create_query_workflow
from qianxun.engine.engine import Engine
from qianxun.models import ChatEndpoint
from qianxun.models.remote.chat import RemoteChat

DOCUMENTS: Final = (
    Document("leave", "女员工产假为 158 天，配偶陪产假为 15 天。", name="休假.txt"),
    Document("travel", "一线城市住宿标准为每晚 550 元，由陆文清审批。", name="差旅.txt"),
    Document("people", "陆文清是华东大区的负责人，办公室在上海。", name="人员.txt"),
)
REPLY_TOKENS: Final = 40
SECONDS: Final = 600.0  # for one reply on a busy machine


@dataclass(frozen=True)
class Place:
    """The model's address, and a base that it writes the answers of."""

    url: str
    model: str
    engine: Engine
    base: int

    def chat(self, **changes: Any) -> RemoteChat:
        return RemoteChat(ChatEndpoint(self.url, self.model, timeout_seconds=SECONDS, **changes))


Check = Callable[[Place], Awaitable[str]]


async def whole_reply(place: Place) -> str:
    """A reply that was cut by max_tokens is never taken for a whole one."""
    with closing(place.chat(max_tokens=8)) as model:
        return _cut(lambda: model.complete([Message("user", "请写一首长诗")]))


async def streamed_reply(place: Place) -> str:
    """The first words come long before the last."""
    with closing(place.chat(max_tokens=24)) as model:
        started, times = time.monotonic(), []
        try:
            for _ in model.stream([Message("system", "简短"), Message("user", "产假几天？")]):
                times.append(time.monotonic() - started)
        except ModelError as error:
            note = error.message
        else:
            note = "完整"
    assert len(times) > 1, "it came in one piece"
    return f"{len(times)} 段，首段在 {times[0] / times[-1]:.0%} 处；{note}"


async def abandoned_stream(place: Place) -> str:
    """Who leaves a stream frees the model for the next."""
    with closing(place.chat(max_tokens=400)) as model:
        told = model.stream([Message("user", "从一数到一千")])
        next(iter(told))
        told.close()  # type: ignore[attr-defined]
        with closing(place.chat(max_tokens=2)) as other:
            return "离开之后立刻可用；" + _cut(lambda: other.complete([Message("user", "你好")]))


async def conversation(place: Place) -> str:
    """Any history fits the chat template, also two questions in a row."""
    asked = [
        Message("system", "简短"),
        Message("user", "年假？"),
        Message("user", "产假呢？"),
        Message("assistant", "158 天"),
        Message("user", "陪产假？"),
    ]
    with closing(place.chat(max_tokens=4)) as model:
        return _cut(lambda: model.complete(asked))


async def too_long(place: Place) -> str:
    """A prompt beyond the context is refused with what to do, and the service is not held for it."""
    with closing(place.chat(max_tokens=4)) as model:
        with pytest.raises(ModelError) as refused:
            model.complete([Message("user", "产假一百五十八天。" * 3000)])
        assert "输入长度" in refused.value.hint
        after = _cut(lambda: model.complete([Message("user", "你好")]))
        return f"{refused.value.message[:60]}…；其后 {after}"


async def answers(place: Place) -> str:
    """An answer has its sources, or is declined; what the model said without grounds is dropped."""
    return _sound(await place.engine.ask(place.base, "产假有多少天？", top_k=2))


async def modes(place: Place) -> str:
    """Every query mode comes to an end."""
    notes = []
    for mode in QUERY_MODES:
        answer = await place.engine.ask(place.base, "住宿标准由谁审批？", mode=mode, top_k=2)
        notes.append(f"{mode} {answer.form}")
        _sound(answer)
    return "；".join(notes)


async def streaming(place: Place) -> str:
    """The events of a streamed answer end with the whole of it."""
    events = [event async for event in place.engine.ask_stream(place.base, "陪产假几天？", top_k=2)]
    assert isinstance(events[-1], Done | Failed), events[-1]
    tokens = sum(isinstance(event, Token) for event in events)
    return f"{len(events)} 个事件，{tokens} 段文字；{_sound(events[-1].answer)}"


async def workflow(place: Place) -> str:
    """The workflow's steps, by LangGraph, with a follow-up that a model is to complete."""
    history = [{"role": "user", "content": "产假有多少天？"}, {"role": "assistant", "content": "158 天"}]
    inputs = {"query": "那陪产假呢？", "graph_id": "模型", "history": history, "top_k": 2}
    result = await create_query_workflow(place.engine).ainvoke(inputs)
    forms = {step["node"]: step["form"] for step in result["trace"]}
    assert set(forms) >= {"analyze_query", "route_query", "retrieve", "grade_documents", "generate_answer"}, forms
    return "；".join(f"{node} {form.partition(':')[0]}" for node, form in forms.items())


async def rewriting(place: Place) -> str:
    """A search whose query a model rewrites finds what it finds without."""
    await place.engine.configure(place.base, {"rewrite_model": place.model})
    try:
        recall = await place.engine.retrieve(place.base, "产假几天", top_k=2)
    finally:
        await place.engine.configure(place.base, {"rewrite_model": None})
    assert recall.results
    assert recall.results[0].chunk.doc_id == "leave"
    return f"{len(recall.queries) - 1} 种写法" + "".join(
        f"；{part.part}：{part.reason[:60]}" for part in recall.degraded
    )


async def graph_reading(place: Place) -> str:
    """What a model extracts is in the text; chunks that it fails at keep the facts by rules."""
    await place.engine.configure(place.base, {"graph_model": place.model})
    try:
        keeper = await place.engine.graph_keeper(place.base)
        done = await keeper.read()
    finally:
        await place.engine.configure(place.base, {"graph_model": None})
    graph = await place.engine.graph(place.base)
    texts = "".join(document.name + document.content for document in DOCUMENTS)  # a title is a name, too
    unknown = [entity.name for entity in graph.entities if entity.name not in texts]
    assert not unknown, unknown
    return f"读懂 {done.read} 块，其余按规则"


async def tools(place: Place) -> str:
    """The tools' schemas are understood, and a call that the model makes is answered or refused in words."""
    offered = [
        {
            "type": "function",
            "function": {"name": tool.name, "description": tool.description[:200], "parameters": tool.input()},
        }
        for tool in TOOLS.values()
    ]
    reply = _post(
        f"{place.url}/chat/completions",
        {
            "model": place.model,
            "messages": [{"role": "user", "content": "查一查产假几天"}],
            "tools": offered,
            "tool_choice": "required",
            "max_tokens": 200,
            "temperature": 0,
        },
    )
    calls = reply["choices"][0]["message"].get("tool_calls") or []
    if not calls:
        return f"模型没有调用（{reply['choices'][0]['finish_reason']}）；{len(offered)} 个工具的参数表都被接受"
    called = calls[0]["function"]
    arguments = json.loads(called["arguments"])
    tool = TOOLS[called["name"]]
    found = await tool.run(Collection(place.engine), **tool.read(arguments))
    return f"{called['name']}({', '.join(arguments)}) → {', '.join(found)}"


CHECKS: Final[Mapping[str, Check]] = {
    "一次回复": whole_reply,
    "流式": streamed_reply,
    "中途离开": abandoned_stream,
    "对话模板": conversation,
    "过长": too_long,
    "改写": rewriting,
    "回答": answers,
    "流式回答": streaming,
    "工作流": workflow,
    "查询模式": modes,
    "读图谱": graph_reading,
    "工具": tools,
}


def _cut(call: Callable[[], str]) -> str:
    """What a call came to: its text, or that it was cut. Anything but a ModelError is a defect."""
    try:
        return f"完整：{call()[:20]!r}"
    except ModelError as error:
        return f"已说明：{error.message.split('：')[-1][:40]}"


def _sound(answer: Answer) -> str:
    """Raises AssertionError unless every mark has its source and a sure answer is cited."""
    numbers = {source.number for source in answer.sources}
    assert all(set(citation.numbers) <= numbers for citation in answer.citations)
    assert answer.form in ("declined", "direct") or answer.sources, answer.answer
    assert answer.answer.strip()
    dropped = sum(flag.kind == "dropped" for flag in answer.flags)
    parts = "、".join(dict.fromkeys(part.part for part in answer.degraded))
    return f"{answer.form}，出处 {len(answer.sources)}，去掉 {dropped} 句" + (f"，改按规则：{parts}" if parts else "")


def _post(url: str, body: Mapping[str, Any]) -> Any:
    request = Request(url, json.dumps(body).encode(), {"content-type": "application/json"})
    with urlopen(request, timeout=SECONDS) as response:
        return json.loads(response.read())
