"""The settings of a base: what each does, and what it costs to change it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from fastapi import APIRouter, Request, Response

from qianxun.doors.http.console.forms import ConsoleRoute, form
from qianxun.doors.http.console.page import Text
from qianxun.doors.http.console.render import redirect, render, translate
from qianxun.doors.http.context import BaseId, TenantEngine, Writer
from qianxun.engine.configure import KINDS, flat, read, write

router = APIRouter(route_class=ConsoleRoute)

AT_ONCE: Final = Text("立刻生效，不花什么", "Takes effect at once and costs nothing")
NEXT_DOCUMENTS: Final = Text(
    "只影响以后放入的文档；已有的要重新放入才按新的切",
    "For documents added from now on; earlier ones keep their chunks",
)
NEXT_QUESTIONS: Final = Text("从下一个问题起；每次都要调用模型", "From the next question on; every one calls the model")


@dataclass(frozen=True, slots=True)
class Setting:
    name: str
    title: Text
    about: Text
    cost: Text
    is_long: bool = False


SETTINGS: Final = (
    Setting(
        "chunk_size",
        Text("块长", "Chunk size"),
        Text("一块最多多少字；短的找得准，长的带着上下文", "Characters of a chunk at most: shorter is sharper"),
        NEXT_DOCUMENTS,
    ),
    Setting(
        "chunk_overlap",
        Text("重叠", "Overlap"),
        Text("相邻两块重复多少字，免得一句话断在中间", "Characters that two neighbours share"),
        NEXT_DOCUMENTS,
    ),
    Setting(
        "by_meaning",
        Text("按意思切", "Cut by meaning"),
        Text("话题变了就断开；true 或 false", "Also cut where the topic changes; true or false"),
        Text(
            "只影响以后放入的文档；入库慢一些，每句多算一次向量",
            "For new documents; every sentence is embedded once more",
        ),
    ),
    Setting(
        "dictionary",
        Text("词典", "Dictionary"),
        Text("不该拆开的词，逗号隔开：门诊特病,千寻", "Words that must not be cut, separated by commas"),
        Text("重建索引，完成前检索用旧的；不重新计算向量", "Rebuilds the index, without embedding anything again"),
        is_long=True,
    ),
    Setting(
        "synonyms",
        Text("同义词", "Synonyms"),
        Text("一组用 = 连起来，组与组用逗号隔开：医保=医疗保险", "Groups such as a=b, separated by commas"),
        AT_ONCE,
        is_long=True,
    ),
    Setting(
        "search.top_k",
        Text("默认条数", "Results"),
        Text("没有指明时返回几条", "How many where a search does not say"),
        AT_ONCE,
    ),
    Setting(
        "search.fusion",
        Text("融合方式", "Fusion"),
        Text("weighted、min_max 或 rrf", "weighted, min_max or rrf"),
        AT_ONCE,
    ),
    Setting(
        "search.weights.vector",
        Text("语义的权重", "Weight of meaning"),
        Text("0–1；不填则看知识库而定", "0–1; left out, as fits the base"),
        AT_ONCE,
    ),
    Setting(
        "search.weights.keyword",
        Text("词语的权重", "Weight of words"),
        Text("0–1；不填则看知识库而定", "0–1; left out, as fits the base"),
        AT_ONCE,
    ),
    Setting(
        "search.rerank",
        Text("重排模型", "Reranker"),
        Text("把前几十条重新读一遍再排，例如 maxsim", "Reads the first results again, such as maxsim"),
        Text("立刻生效；每次检索多花重排的时间", "At once; every search takes the reranker's time"),
    ),
    Setting(
        "search.fuzzy",
        Text("宽松匹配", "Fuzzy matches"),
        Text("true：相近的也要，错别字也猜", "true: also what is only alike, and guesses at mistyped words"),
        AT_ONCE,
    ),
    Setting(
        "graph",
        Text("知识图谱", "Knowledge graph"),
        Text("true：从片段里读出实体与关系", "true: entities and relations are read from chunks"),
        Text("后台逐块阅读已有的片段", "Chunks are read in the background"),
    ),
    Setting(
        "chat_model",
        Text("回答用的模型", "Answer model"),
        Text("不填则用资料的原句组成答案", "Left out, answers are the sources' own sentences"),
        NEXT_QUESTIONS,
    ),
    Setting(
        "prompt",
        Text("给模型的话", "Prompt"),
        Text("语气、角色、要注意的事", "Tone, role, what to mind"),
        NEXT_QUESTIONS,
        is_long=True,
    ),
    Setting(
        "rewrite_model",
        Text("改写问题的模型", "Rewriting model"),
        Text("把问题换几种说法一起找", "Searches for other wordings of a question as well"),
        NEXT_QUESTIONS,
    ),
    Setting(
        "qa_model",
        Text("出题的模型", "Question model"),
        Text("为每个片段想几个它能回答的问题", "Makes questions that a chunk answers"),
        Text("以后放入的文档，每块调用一次模型", "For new documents, one call for every chunk"),
    ),
    Setting(
        "graph_model",
        Text("读图谱的模型", "Graph model"),
        Text("用模型读实体与关系，不填则按规则", "Reads entities and relations; left out, rules do"),
        Text("每块调用一次模型，包括已有的", "One call for every chunk, those there already included"),
    ),
    Setting(
        "vision_model",
        Text("看图的模型", "Vision model"),
        Text("随问题来的图片由它看", "Sees pictures that come with a question"),
        NEXT_QUESTIONS,
    ),
)
OTHERS: Final = tuple(name for name in KINDS if name not in {setting.name for setting in SETTINGS} | {"user_id"})


@router.get("/console/bases/{knowledge_base_id}/settings")
async def settings_page(request: Request, engine: TenantEngine, knowledge_base_id: BaseId) -> Response:
    about = await engine.knowledge_base(knowledge_base_id)
    values = {name: write(name, value) for name, value in flat(about.config).items()}
    return render(
        request,
        "base_settings.html",
        base=about,
        settings=SETTINGS,
        others=[(name, KINDS[name]) for name in OTHERS],
        values=values,
        rerankers=engine.catalog.rerankers(),
    )


@router.post("/console/bases/{knowledge_base_id}/settings", dependencies=[Writer])
async def save(request: Request, engine: TenantEngine, knowledge_base_id: BaseId) -> Response:
    """Stores what differs from what is there; with one value that cannot be, nothing is stored."""
    about, fields = await engine.knowledge_base(knowledge_base_id), await form(request)
    before = {name: write(name, value) for name, value in flat(about.config).items()}
    names = [setting.name for setting in SETTINGS] + list(OTHERS)
    sent = {name: fields.text(name) for name in names if fields.has(name)}
    changes = {name: read(name, text) for name, text in sent.items() if text != before.get(name, "")}
    if (name := fields.text("base_name")) and name != about.name:
        await engine.rename(about.id, name)
    if changes:
        await engine.configure(about.id, changes)
    note = translate(request, f"改了 {len(changes)} 项设置", f"{len(changes)} settings changed")
    return redirect(request, f"/console/bases/{about.id}/settings", note)
