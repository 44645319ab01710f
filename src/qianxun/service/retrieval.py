"""Recall over HTTP: what a request may ask, how it becomes the engine's options, and what the answer holds."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Body, Request, Response
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StrictInt, StrictStr
from pydantic_core import PydanticCustomError

from qianxun.pipelines.asking import QUERY_LIMIT
from qianxun.pipelines.options import TOP_K_LIMIT
from qianxun.service.answers import Answer, WrongField, answered, problems
from qianxun.service.context import GREATEST, BaseId, TenantEngine, trace_id, turn
from qianxun.service.filters import read_filters
from qianxun.service.shapes import NO_RERANK, rerank_name, written_recall

DOC_IDS_LIMIT: Final = 1000
DOC_ID_LIMIT: Final = 255
LARGEST_WEIGHT: Final = 1000.0
STRATEGY: Final = "retrieval_config.hybrid_strategy"


def _not_blank(text: str) -> str:
    if not text.strip():
        raise PydanticCustomError("blank", "不能为空，写出要找的内容")
    return text


QueryText = Annotated[
    str,
    Field(min_length=1, max_length=QUERY_LIMIT, pattern=r"\S", description="要找的内容；可用 @文档名 指定文档"),
    AfterValidator(_not_blank),
]
DocId = Annotated[str, Field(min_length=1, max_length=DOC_ID_LIMIT)]


class _Asked(BaseModel):
    """An unknown field is more likely a slip of the pen than meant for nobody: it is refused."""

    model_config = ConfigDict(extra="forbid")


Weight = Annotated[float, Field(ge=0, le=LARGEST_WEIGHT, allow_inf_nan=False)]


class Weights(_Asked):
    """只给一路时，另一路补足到 1；两路都不给，按知识库的内容取合适的权重。"""

    vector: Weight | None = Field(default=None, examples=[0.7])
    keyword: Weight | None = Field(default=None, examples=[0.3])


class HybridStrategy(_Asked):
    type: Literal["weighted", "rrf", "rerank"] | None = Field(
        default=None,
        description="weighted 加权；rrf 按名次；rerank 先融合、再由重排模型精排。不写则用知识库自己的配置",
    )
    weights: Weights | None = None
    rerank_model_id: StrictInt | StrictStr | None = Field(
        default=None,
        description="type 为 rerank 时必填：登记的模型的编号，或内置的名称如 maxsim；none 为不重排",
        examples=[0],
    )
    fusion: Literal["weighted", "min_max", "rrf"] | None = Field(
        default=None, description="重排之前怎样融合；不写则用知识库自己的配置"
    )


class RetrievalConfig(_Asked):
    top_k: int | None = Field(
        default=None, ge=1, le=TOP_K_LIMIT, description="最多几条；不写则用知识库或服务的配置（10）", examples=[10]
    )
    score_threshold: float | None = Field(
        default=None,
        ge=0,
        le=1,
        allow_inf_nan=False,
        description="分数不低于它；不写则不设下限。指定了文档时不起作用；全文检索只用 top_k",
        examples=[0.6],
    )
    fuzzy: bool | None = Field(default=None, description="要不要宽松匹配的结果；不写则用知识库或服务的配置")
    hybrid_strategy: HybridStrategy | None = None
    as_written: bool = Field(
        default=False, description="true：全文检索也照这里写的阈值、融合与重排来；false：全文检索只用 top_k"
    )


class Search(_Asked):
    """What to search for and how; shared by retrieval and explanation."""

    query: QueryText
    retrieval_mode: Literal["hybrid", "vector", "fulltext"] = Field(default="hybrid", description="检索方式")
    retrieval_config: RetrievalConfig | None = None
    doc_ids: list[DocId] | None = Field(
        default=None, max_length=DOC_IDS_LIMIT, description="只在这些文档里找；不写或为空则不限"
    )
    filters: dict[str, Any] | None = Field(
        default=None,
        description=(
            "过滤条件，同一层的都要满足：`{字段: 值}` 等于，`{字段: [值…]}` 是其中之一，"
            "`{字段: {ge, gt, le, lt}}` 范围；`and`、`or` 带条件的列表，`not` 带一个条件。"
            "字段：doc_id、user_id、project_id、content_type、kind（text 或 table）、tags、metadata.<字段>"
        ),
        examples=[{"content_type": ["chapter"]}],
    )

    def options(self) -> dict[str, Any]:
        """The arguments of `Engine.retrieve`. Raises WrongField or BadFilterField, naming the field."""
        config = self.retrieval_config or RetrievalConfig()
        strategy = config.hybrid_strategy or HybridStrategy()
        told = _strategy(strategy)  # checked in every mode, used where it means something
        chosen: dict[str, Any] = {"mode": self.retrieval_mode, "top_k": config.top_k, "fuzzy": config.fuzzy}
        chosen |= {"where": read_filters(self.filters), "doc_ids": tuple(self.doc_ids or ())}
        if self.retrieval_mode == "fulltext" and not config.as_written:  # words alone: no threshold, no reranker
            return chosen | {"rerank": ""}
        return chosen | told | {"threshold": config.score_threshold or 0.0}


def _strategy(strategy: HybridStrategy) -> dict[str, Any]:
    model = _model(strategy)
    if strategy.type == "rerank" and not model:
        raise WrongField(f"{STRATEGY}.rerank_model_id", "type 为 rerank 时必填", hint="填登记的模型的编号，或 maxsim")
    if strategy.type in ("weighted", "rrf"):
        if strategy.fusion not in (None, strategy.type):
            raise WrongField(f"{STRATEGY}.fusion", f"与 type 的 {strategy.type} 不一致", hint="去掉其中一个")
        return {"fusion": strategy.type, "weights": _weights(strategy.weights), "rerank": ""}
    return {"fusion": strategy.fusion, "weights": _weights(strategy.weights), "rerank": model}


def _model(strategy: HybridStrategy) -> str | None:
    """The reranker's name; "" for none at all, None for the base's own choice."""
    told = strategy.rerank_model_id
    if told is None or told == 0 or (isinstance(told, str) and not told.strip()):
        return None
    is_sound = 0 < told <= GREATEST if isinstance(told, int) else len(told) <= DOC_ID_LIMIT
    if not is_sound or (isinstance(told, str) and told.isdigit() and int(told) > GREATEST):
        raise WrongField(f"{STRATEGY}.rerank_model_id", "不是模型的编号或名称", hint="编号为正整数，名称如 maxsim")
    return "" if told == NO_RERANK else rerank_name(told)


def _weights(told: Weights | None) -> dict[str, float] | None:
    """With one weight alone the other makes it up to 1: a missing one would silence its arm."""
    if told is None or (told.vector is None and told.keyword is None):
        return None
    given = {
        name: weight for name, weight in (("vector", told.vector), ("keyword", told.keyword)) if weight is not None
    }
    if len(given) == 1:
        ((name, weight),) = given.items()
        other = "keyword" if name == "vector" else "vector"
        if weight > 1:
            raise WrongField(f"{STRATEGY}.weights.{other}", f"只给了 {name}，另一路补不足到 1", hint="两路都给出")
        given[other] = round(1.0 - weight, 6)
    if not any(given.values()):
        raise WrongField(f"{STRATEGY}.weights", "两路都为零", hint="至少有一路大于零")
    return given


# ── the answer ───────────────────────────────────────────────────────────────────────────────────


class ArmSaid(BaseModel):
    """一路检索对这一块的评价。"""

    rank: int = Field(description="在这一路的名次，从 1 起；0 为不在候选之内")
    raw: float | None = Field(description="这一路自己的分：余弦或 BM25")
    score: float = Field(description="同一个分换算到 0–1")


class ChunkTold(BaseModel):
    """一块的出处与标注。"""

    chunk_id: str = Field(examples=["c_1001_123_0"])
    doc_id: str = Field(examples=["123"])
    doc_name: str = Field(examples=["RAG系统设计.pdf"])
    content: str = Field(examples=["...相关文本片段..."])
    metadata: dict[str, Any] = Field(description="文档的元数据，没有则为空")
    index: int = Field(description="在文档里的序号，从 0 起")
    start: int
    end: int
    kind: Literal["text", "table"]
    headings: list[str]
    page: int | None
    generation: int = Field(description="文档的版本")
    user_id: str
    project_id: str
    content_type: str
    tags: list[str]


class FoundTold(ChunkTold):
    score: float = Field(description="0–1，结果按它排序", examples=[0.85])
    source: Literal["vector", "keyword", "qa", "hybrid"] = Field(description="哪一路找到的；hybrid 为不止一路")
    highlights: list[str] = Field(description="文中与问题相关的原文")
    tier: Literal["strict", "document", "fuzzy"] = Field(description="严格、指定文档，或宽松")
    arms: dict[str, ArmSaid]
    matched: list[str] = Field(description="问题里的词，这一块也有的")
    coverage: float = Field(description="这些词占问题的多少，越少见的词越重")
    fused_score: float = Field(description="重排之前的分")
    rerank_score: float | None = Field(description="重排模型的分；没有重排则为空")


class DegradedTold(BaseModel):
    """没能参加的部分；其余照常回答。"""

    part: str = Field(description="vector、keyword、qa、rewrite、rerank 或 document", examples=["rerank"])
    reason: str = Field(examples=["10 秒内没有重排完，按融合的次序返回"])


class StepTold(BaseModel):
    name: str = Field(examples=["recall.vector"])
    seconds: float
    count: int


class GenerationTold(BaseModel):
    """回答所依据的状态：状态相同，回答也相同。"""

    records: int
    index: int
    model: str
    analysis: str


class Retrieved(BaseModel):
    knowledge_base_id: int = Field(examples=[1001])
    doc_ids: list[str] = Field(description="结果所属的文档，按出现的先后", examples=[["123"]])
    time_cost_ms: int = Field(examples=[45])
    trace_id: str
    tier: Literal["strict", "document", "fuzzy"] | None = Field(description="结果里最宽松的一层；没有结果则为空")
    degraded: list[DegradedTold]
    chunks: list[FoundTold]
    query: str
    queries: list[str] = Field(description="实际检索的说法：原问题、改写、更正")
    retrieval_mode: Literal["hybrid", "vector", "fulltext"]
    seconds: float
    steps: list[StepTold]
    from_cache: bool
    generation: GenerationTold | None


# ── the route ────────────────────────────────────────────────────────────────────────────────────

SEED: Final = {
    "query": "RAG 阈值配置",
    "retrieval_mode": "hybrid",
    "retrieval_config": {
        "top_k": 10,
        "score_threshold": 0.6,
        "fuzzy": False,
        "hybrid_strategy": {
            "type": "weighted",
            "weights": {"vector": 0.7, "keyword": 0.3},
            "rerank_model_id": 0,
        },
    },
    "doc_ids": ["doc_123"],
    "filters": {"content_type": ["chapter"]},
}
EXAMPLES: Final[dict[str, Any]] = {
    "weighted": {"summary": "加权的混合检索，限定文档与类型", "value": SEED},
    "plain": {"summary": "只写问题，其余用知识库的配置", "value": {"query": "住院报销比例是多少"}},
    "rerank": {
        "summary": "由登记的模型重排",
        "value": {
            "query": "门诊报销需要哪些材料",
            "retrieval_config": {"top_k": 5, "hybrid_strategy": {"type": "rerank", "rerank_model_id": 17}},
        },
    },
    "filters": {
        "summary": "范围与并、或、非",
        "value": {
            "query": "年度销售额",
            "filters": {"metadata.年份": {"ge": 2020}, "or": [{"tags": "财务"}, {"not": {"user_id": "u7"}}]},
        },
    },
}


def routes() -> APIRouter:
    router = APIRouter(tags=["检索"])
    router.post(
        "/v1/retrieval/{knowledge_base_id}",
        summary="检索知识库",
        response_model=Answer[Retrieved],
        responses=problems(400, 404, 413, 422),
    )(retrieve)
    return router


async def retrieve(
    request: Request,
    knowledge_base_id: BaseId,
    engine: TenantEngine,
    body: Annotated[Search, Body(openapi_examples=EXAMPLES)],
) -> Response:
    """三路并行检索（片段向量、问答向量、关键词），融合、重排、分层兜底。

    一路失败、超时或答非所问，都写进 `degraded`，其余照常回答。
    """
    options = body.options()
    async with turn(request):
        found = await engine.retrieve(knowledge_base_id, body.query, **options, trace_id=trace_id(request))
    return answered(written_recall(knowledge_base_id, found))
