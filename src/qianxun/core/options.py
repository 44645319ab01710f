"""The options of a search, a question and a layered search: each is one field here, and nowhere else.

The `Option` in its annotation (`option_fields`) says how the doors offer it. Derived from it are the HTTP request
model, the flags of the command line, the arguments of the MCP tool, the keywords of the retrievers for LangChain and
LlamaIndex, the body that the client sends, the log, the cache key and a replay. A new option is a field of
`SearchOptions` or `AskOptions`, a line in `SearchChoices` or `AskChoices` (the same as keyword arguments), and the
place that uses it.

Read `SearchOptions` first, then `search_options`, which makes one of what the caller, the base and the settings choose.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Literal, TypeAlias, TypedDict, get_args

from qianxun.core.conversation import turns_of
from qianxun.core.errors import BadQuery
from qianxun.core.filters import (
    EVERYTHING,
    Filter,
    not_a_filter,
    read_filters,
    written_filters,
)
from qianxun.core.governance.validity import checked_as_of
from qianxun.core.limits import TOP_K_LIMIT
from qianxun.core.model_types import REF_PREFIX
from qianxun.core.option_fields import AUTO, Option, choices_of, names_of, options_of

Mode: TypeAlias = Literal["hybrid", "vector", "fulltext"]
FusionName: TypeAlias = Literal["weighted", "min_max", "rrf"]
QueryMode: TypeAlias = Literal["naive", "local", "global", "hybrid", "mix", "bypass"]
QUERY_MODES: Final[tuple[QueryMode, ...]] = get_args(QueryMode)
CheckMode: TypeAlias = Literal["strict", "flag", "off"]
CHECK_MODES: Final[tuple[CheckMode, ...]] = get_args(CheckMode)
"""What becomes of a model's sentence that its sources do not bear out: it is dropped, flagged, or not looked at."""

MODES: Final[tuple[Mode, ...]] = get_args(Mode)
NO_RERANK: Final = "none"  # in requests and on the command line


@dataclass(frozen=True, slots=True)
class Bm25:
    """How soon a repeated term stops counting (``k1``), and how much the length of an entry counts (``b``)."""

    k1: float = 0.4
    b: float = 0.75


BM25 = Bm25()  # a third of Lucene's k1: docs/quality.md#bm25-的-k1


# ── as requests write what Python writes otherwise ───────────────────────────────────────────────


def _dicts(values: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [dict(value) for value in values]


def _turns(history: Sequence[Any]) -> list[dict[str, Any]]:
    return [{"role": turn.role, "content": turn.content} for turn in turns_of(history)]


def _mode_to_wire(mode: str | None) -> str:
    return mode or AUTO


def _mode_from_wire(mode: str) -> str | None:
    return None if mode == AUTO else mode


# ── searches ─────────────────────────────────────────────────────────────────────────────────────


def rerank_to_wire(rerank: str) -> str | int:
    """A request's ``rerank_model_id`` for the engine's name of a model."""
    number = rerank.removeprefix(REF_PREFIX)
    return int(number) if rerank != number and number.isascii() and number.isdigit() else rerank or NO_RERANK


def rerank_from_wire(model_id: str | int) -> str:
    """The engine's name for a request's ``rerank_model_id``: 17 is a registered model, "none" is none."""
    if isinstance(model_id, int) or (model_id.isascii() and model_id.isdigit()):
        return f"{REF_PREFIX}{int(model_id)}"
    return "" if model_id == NO_RERANK else model_id


STRATEGY: Final = "retrieval_config.hybrid_strategy"
AS_OF: Final = Option(
    wire="as_of",
    label="日期",
    about="按哪一天有效的文档检索：2024-01-01；any 不论何时有效。不写则按今天；问题里写了过去的年份、且那时有效的"
    "文档后来被取代时，按那一年",
    example="2024-01-01",
    metavar="DAY",
    help="按哪一天有效的文档，如 2024-01-01；any 不论何时 · documents in force on that day, or any",
    tool="只在用户问某一天的规定时写：按那一天有效的文档检索，如 2023-12-31；any 不论何时有效 · "
    "as of a day, only when the user asks for one",
)


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """How to search, with every choice made. Logged, and part of the cache key, as `params_of` writes it."""

    mode: Annotated[
        Mode,
        Option(
            wire="retrieval_mode",
            label="检索模式",
            about="检索方式",
            help="检索方式 · how to search",
            argument="mode",
            tool="hybrid 语义与词语一起（默认，多数时候最好）；vector 只看语义；"
            "fulltext 只看词语，适合编号、型号、人名 · by meaning and words, by meaning, or by words",
        ),
    ] = "hybrid"
    top_k: Annotated[
        int,
        Option(
            wire="retrieval_config.top_k",
            also="top_k",
            least=1,
            most=TOP_K_LIMIT,
            in_base=True,
            about="最多几条；不写则用知识库或服务的配置（10）",
            example=10,
            flags=("--top-k", "-k"),
            metavar="N",
            help="最多几条 · at most so many",
            tool="最多几段，默认 10 · how many passages at most",
        ),
    ] = 10
    threshold: Annotated[
        float,
        Option(
            wire="retrieval_config.score_threshold",
            also="score_threshold",
            label="阈值",
            least=0,
            most=1,
            about="分数不低于它；不写则不设下限。指定了文档时不起作用；全文检索只用 top_k",
            example=0.6,
            metavar="X",
            help="分数不低于 0–1 · least score",
            tool="只要分数不低于它的，0–1；不写则不设下限 · least score",
        ),
    ] = 0.0
    where: Annotated[
        Filter,
        Option(
            wire="filters",
            tool='按文档的属性筛选，例如 {"content_type": ["chapter"], "metadata.年份": {"ge": 2024}}；'
            "字段有 doc_id、user_id、project_id、content_type、kind（text 或 table）、tags、metadata.<字段>，"
            "可用 and、or、not 组合；用户没有要求就不要写 · conditions on documents, only when the user asks for them",
            to_wire=written_filters,
            from_wire=read_filters,
        ),
    ] = EVERYTHING
    doc_ids: Annotated[
        tuple[str, ...],
        Option(
            wire="doc_ids",
            about="只在这些文档里找；不写或为空则不限",
            to_wire=list,
            from_wire=tuple,
        ),
    ] = ()
    as_of: Annotated[str, AS_OF] = ""  # "": today, or as the question says
    fusion: Annotated[
        FusionName,
        Option(
            wire=f"{STRATEGY}.fusion",
            label="融合方式",
            in_base=True,
            about="重排之前怎样融合；不写则用知识库自己的配置",
            help="怎样合成一个分数 · how scores become one",
        ),
    ] = "weighted"
    weights: Annotated[
        Mapping[str, float],
        Option(
            wire=f"{STRATEGY}.weights",
            in_base=True,
            metavar="W",
            help="各路的权重，如 vector=.7,keyword=.3 · how much each arm counts",
            to_wire=dict,
            from_wire=dict,
        ),
    ] = field(default_factory=dict)  # {}: as fits the base
    rerank: Annotated[
        str,
        Option(
            wire=f"{STRATEGY}.rerank_model_id",
            label="模型名",
            in_base=True,
            metavar="NAME",
            help="重排模型，如 maxsim；none 为不重排 · the reranker, or none",
            to_wire=rerank_to_wire,
            from_wire=rerank_from_wire,
        ),
    ] = ""  # a rerank model's name; "": none
    fuzzy: Annotated[
        bool,
        Option(
            wire="retrieval_config.fuzzy",
            also="fuzzy",
            in_base=True,
            about="要不要宽松匹配的结果；不写则用知识库或服务的配置",
            flags=("--fuzzy/--no-fuzzy",),
            help="要不要模糊匹配与谐音更正 · fuzzy matches too",
        ),
    ] = True
    # Arms of other packages that take part; "-qa": without this one of ours.
    arms: Annotated[tuple[str, ...], Option(in_base=True)] = ()
    bm25_k1: Annotated[float, Option(least=0, most=10, in_base=True)] = BM25.k1
    bm25_b: Annotated[float, Option(least=0, most=1, in_base=True)] = BM25.b
    # Deadlines come from the settings alone.
    arm_seconds: float = 10.0
    rerank_seconds: float = 10.0
    rewrite_seconds: float = 10.0

    @property
    def bm25(self) -> Bm25:
        return Bm25(self.bm25_k1, self.bm25_b)


class SearchChoices(TypedDict, total=False):
    """`SearchOptions` as keyword arguments; None, or left out: the base chooses, then the settings."""

    mode: Mode | None
    top_k: int | None
    threshold: float | None
    where: Filter | None
    doc_ids: Sequence[str] | None
    as_of: str | None
    fusion: FusionName | None
    weights: Mapping[str, float] | None
    rerank: str | None
    fuzzy: bool | None


def search_options(settings: Any, config: Mapping[str, Any], choices: Mapping[str, Any]) -> SearchOptions:
    """What the caller chooses, then the base (its config's ``search``), then ``settings``: their section ``search``.

    Raises BadQuery for a configuration that cannot be read; what the values are is left to `check`.
    """
    of_base = config.get("search") or {}
    if not isinstance(of_base, Mapping):
        raise BadQuery(f"知识库的 search 配置是 {of_base!r}", hint='应为键值对，例如 {"fusion": "rrf"}')
    offered = options_of(SearchOptions)
    if unknown := sorted(str(name) for name in of_base if name not in offered or not offered[name].in_base):
        known = "、".join(name for name, offer in offered.items() if offer.in_base)
        raise BadQuery(f"知识库的 search 配置里没有 {'、'.join(unknown)}", hint=f"可用：{known}")
    if unknown := sorted(choices.keys() - choices_of(SearchOptions).keys()):
        raise TypeError(f"a search has no option {', '.join(unknown)}")
    chosen = {name: getattr(settings, name) for name in names_of(SearchOptions) if hasattr(settings, name)}
    if settings.semantic_weight or settings.keyword_weight:
        chosen["weights"] = {"vector": settings.semantic_weight, "keyword": settings.keyword_weight}
    chosen |= of_base
    chosen |= {name: value for name, value in choices.items() if value is not None}
    for name in ("doc_ids", "arms"):
        if isinstance(chosen.get(name), list | set | frozenset):  # of JSON, or of a caller
            chosen[name] = tuple(chosen[name])
    chosen["as_of"] = checked_as_of(chosen.get("as_of", ""))
    return SearchOptions(**chosen)


# ── questions and layered searches ───────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class AskOptions:
    """How to answer a question. ``top_k`` None: as the base chooses, then the settings."""

    mode: Annotated[
        QueryMode | None,
        Option(
            wire="mode",
            about="naive 只用向量；local 问题里的实体及其近邻；global 社区摘要；hybrid 前两者合并重排；"
            "mix（默认）图谱与检索一起；bypass 不检索；auto 由问题决定",
            example="mix",
            help="naive 向量；local 实体及近邻；global 社区；hybrid 前两者；mix 图谱与检索；bypass 不检索；"
            "auto 看问题 · how to look things up",
            to_wire=_mode_to_wire,
            from_wire=_mode_from_wire,
        ),
    ] = "mix"  # None: as fits the question
    top_k: Annotated[
        int | None,
        Option(
            wire="top_k",
            also="retrieval_config.top_k",
            least=1,
            most=TOP_K_LIMIT,
            in_base=True,
            about="最多用几块资料；不写则用知识库或服务的配置（10）",
            example=10,
            flags=("--top-k", "-k"),
            metavar="N",
            help="最多用几块资料 · at most so many sources",
        ),
    ] = None
    where: Annotated[Filter, Option(wire="filters", to_wire=written_filters, from_wire=read_filters)] = EVERYTHING
    as_of: Annotated[str, AS_OF] = ""
    check: Annotated[
        CheckMode | None,
        Option(
            wire="check",
            in_base=True,
            about="模型写的句子怎样核对：strict 去掉证据确凿的错句，可疑的留下并标出；flag 全都留下并标出；off 不核对；"
            "不写则用知识库的配置（strict）",
            example="strict",
            flags=("--check",),
            help="strict 去掉证据确凿的错句；flag 只标出；off 不核对 · what becomes of sentences without support",
        ),
    ] = None
    history: Annotated[
        Sequence[Any],
        Option(
            wire="history",
            to_wire=_turns,
            is_logged=False,
        ),
    ] = ()  # the turns before the question, {"role", "content"}, the latest last
    multimodal_content: Annotated[
        Sequence[Mapping[str, Any]],
        Option(wire="multimodal_content", to_wire=_dicts, is_logged=False),
    ] = ()  # images and tables that come with the question


class AskChoices(TypedDict, total=False):
    """`AskOptions` as keyword arguments."""

    mode: QueryMode | None
    top_k: int | None
    where: Filter
    as_of: str
    check: CheckMode | None
    history: Sequence[Any]
    multimodal_content: Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class TextsOptions:
    """How to search prose layer by layer."""

    top_k: Annotated[
        int | None,
        Option(
            wire="top_k",
            also="retrieval_config.top_k",
            least=1,
            most=TOP_K_LIMIT,
            in_base=True,
            about="最多几条，也是各层要凑够的目标。"
            "结果不会超过 max_results（正文 30，表格 15，可配置）；不写则按 max_results",
            example=10,
            flags=("--top-k", "-k"),
            metavar="N",
            help="最多几条 · at most so many",
        ),
    ] = None
    where: Annotated[Filter, Option(wire="filters", to_wire=written_filters, from_wire=read_filters)] = EVERYTHING
    as_of: Annotated[str, AS_OF] = ""


@dataclass(frozen=True, slots=True)
class TablesOptions(TextsOptions):
    """How to search tables layer by layer."""

    answer: Annotated[
        bool,
        Option(
            wire="answer",
            about="false：只找表格，不从单元格里算答案",
            flags=("--no-answer",),
            help="只找表格，不从单元格里算答案 · tables only, no exact answer",
        ),
    ] = True


# ── what is refused ──────────────────────────────────────────────────────────────────────────────


def check(options: SearchOptions) -> None:
    """Raises BadQuery, or BadFilter. The values may come from a configuration: their types are checked too."""
    for offered in options_of(SearchOptions).values():
        _check_plain(offered, getattr(options, offered.name))
    if not isinstance(options.arms, tuple) or not all(isinstance(arm, str) and arm.strip("-") for arm in options.arms):
        raise BadQuery(f"arms 为 {options.arms!r}", hint='应为名字的列表，例如 ["exact_phrase", "-qa"]')
    _check_weights(options.weights, options.arms)
    if not all(isinstance(doc_id, str) for doc_id in options.doc_ids):
        raise BadQuery(f"doc_ids 为 {options.doc_ids!r}", hint="应为文档编号的列表")
    if not isinstance(options.where, Filter):
        raise not_a_filter(options.where)


def _check_plain(offered: Option, value: Any) -> None:
    least, most = offered.least, offered.most
    if offered.literals:
        if not isinstance(value, str) or value not in offered.literals:
            label = offered.label or f" {offered.name}"
            raise BadQuery(f"没有{label} {value}", hint=f"可用：{'、'.join(offered.literals)}")
    elif offered.type is int:
        if not _is_number(value, int) or (least is not None and most is not None and not least <= value <= most):
            raise BadQuery(f"{offered.name} 为 {value!r}，应为 {least}–{most} 的整数", hint="改用范围内的数")
    elif offered.type is float:
        if not _is_number(value, int, float) or (least is not None and most is not None and not least <= value <= most):
            raise BadQuery(
                f"{offered.label or f'{offered.name} '}为 {value!r}，应在 {least}–{most} 之间", hint="改用范围内的数"
            )
    elif offered.type is bool and not isinstance(value, bool):
        raise BadQuery(f"{offered.name} 为 {value!r}", hint=f"{offered.name} 应为 true 或 false")
    elif offered.type is str and not isinstance(value, str):
        raise BadQuery(f"{offered.name} 为 {value!r}", hint=f"{offered.name} 应为{offered.label or '文字'}")


def _check_weights(weights: Any, arms: tuple[str, ...]) -> None:
    if not isinstance(weights, Mapping):
        raise BadQuery(f"权重 {weights!r} 不对", hint='写成 {"vector": 0.6, "keyword": 0.4}')
    if unknown := sorted(str(name) for name in weights if name not in ("vector", "keyword", *arms)):
        raise BadQuery(f"没有名为 {'、'.join(unknown)} 的一路", hint="权重只有 vector 与 keyword")
    given = list(weights.values())
    is_sound = all(_is_number(weight, int, float) and 0.0 <= weight < float("inf") for weight in given)
    if not is_sound or (given and not any(given)):
        raise BadQuery(f"权重 {dict(weights)} 不对", hint="权重不能为负，且至少有一路大于零")


def _is_number(value: Any, *kinds: type) -> bool:
    return isinstance(value, kinds) and not isinstance(value, bool)
