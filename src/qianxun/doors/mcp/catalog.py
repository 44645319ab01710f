"""The tools as they are described to a model: when to use which, what to write, what comes back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final

from pydantic import BaseModel, Field, ValidationError, create_model
from pydantic.json_schema import SkipJsonSchema

from qianxun.core.errors import BadInput
from qianxun.core.limits import QUERY_LIMIT, TOP_K_LIMIT
from qianxun.core.option_fields import Option, choices_of
from qianxun.core.options import AS_OF, SearchOptions
from qianxun.doors.mcp import tools

ABOUT: Final = (
    "千寻知识库：回答与用户自己的资料（制度、手册、合同、价目、病历、论文……）有关的问题之前，先在这里查。"
    "通常用 search 找文档、fetch 读全文；要直接引用的原文段落与分数，用 retrieve；"
    "要现成的、带出处的回答，用 ask；问表格里的事，用 tables；"
    "不知道有哪些资料，用 list_knowledge_bases。"
    "照用户的原话提问即可，不必翻译。找不到就说找不到，不要编造；引用时注明 title 与 url。\n"
    "Qianxun knowledge bases: look here before answering from the user's own documents. search, then fetch; "
    "retrieve for passages with scores. Ask in the user's own words; cite title and url."
)

# Without "or null" and "default: null" in the schema: some programs take neither for a type that they know.
Schema = dict[str, Any]


def _no_default(schema: Schema) -> None:
    schema.pop("default", None)


def _optional(description: str, **more: Any) -> Any:
    return Field(default=None, description=description, json_schema_extra=_no_default, **more)


Query = Annotated[
    str,
    Field(
        min_length=1,
        max_length=QUERY_LIMIT,
        description="要找的内容：照用户的原话写成一个问题或几个关键词，不要翻译；写 @文档名 可限定在那份文档里"
        " · a question or keywords, in the user's own language",
        examples=["住院报销比例是多少"],
    ),
]

# ── what a call may say ──────────────────────────────────────────────────────────────────────────


class SearchArguments(BaseModel):
    query: Query


class FetchArguments(BaseModel):
    id: str = Field(
        min_length=1,
        max_length=4000,
        description="search 结果里的 id（整份文档），或 retrieve 结果里的 id（那一段及其上下文）"
        " · an id from search (whole document) or retrieve (passage with its surroundings)",
        examples=["1001/手册.md", "c_1001_手册.md_3"],
    )
    start: int = Field(
        default=0,
        ge=0,
        description="从第几个字符读起；文档太长、上次没有读完时，填上次 metadata 里的 next_start"
        " · where to go on in a long document: next_start of the answer before",
    )


class _Retrieve(BaseModel):
    query: Query
    knowledge_base: str | SkipJsonSchema[int] | SkipJsonSchema[None] = _optional(
        "只在这个知识库里找：名称或编号，见 list_knowledge_bases；不写则在所有的知识库里找"
        " · name or id of one knowledge base; all of them if left out"
    )


NULL: Any = SkipJsonSchema[type(None)]  # type: ignore[misc]  # taken, and not shown


def _argument(offered: Option) -> tuple[Any, Any]:
    """A field for an option of a search; a filter is written as in requests to the service."""
    bounds: dict[str, Any] = {"ge": offered.least, "le": offered.most}
    kind: Any = offered.type if offered.is_plain else dict[str, Any]
    if offered.in_base or not offered.is_plain:
        return kind | NULL, _optional(offered.tool, **bounds)
    return kind, Field(default=offered.default, description=offered.tool, **bounds)


OPTIONS: Final = {
    offered.argument or offered.wire_name: offered for offered in choices_of(SearchOptions).values() if offered.tool
}
RetrieveArguments: type[BaseModel] = create_model(
    "RetrieveArguments",
    __base__=_Retrieve,
    **{name: _argument(offered) for name, offered in OPTIONS.items()},  # type: ignore[call-overload]
)


class AskArguments(BaseModel):
    question: Query
    knowledge_base: str | SkipJsonSchema[int] | SkipJsonSchema[None] = _optional(
        "问哪个知识库：名称或编号，见 list_knowledge_bases；只有一个时可以不写"
        " · name or id; may be left out where there is only one"
    )
    as_of: str = Field(default="", description=AS_OF.tool)


class TablesArguments(_Retrieve):
    top_k: int = Field(default=tools.TABLES, ge=1, le=TOP_K_LIMIT, description="最多几张表 · how many tables at most")
    as_of: str = Field(default="", description=AS_OF.tool)


class ListArguments(BaseModel):
    pass


# ── what comes back ──────────────────────────────────────────────────────────────────────────────


def _object(*required: str, **properties: Schema) -> Schema:
    return {"type": "object", "properties": properties, "required": list(required)}


def _list(items: Schema, **more: Any) -> Schema:
    return {"type": "array", "items": items, **more}


TEXT: Final[Schema] = {"type": "string"}
NUMBER: Final[Schema] = {"type": "number"}
WHOLE: Final[Schema] = {"type": "integer"}
ANYTHING: Final[Schema] = {"type": "object"}
OUTDATED: Final[Schema] = {"type": "string", "description": "它今天为什么不是有效的，引用时要说明 · why it is outdated"}
ORIGINAL: Final[Schema] = {"type": "string", "description": "有人改写过 text，这是原文 · what the document says"}
DEGRADED: Final = _list(
    _object("part", "reason", knowledge_base=TEXT, part=TEXT, reason=TEXT),
    description="没能参加检索的部分与原因：结果可能不全 · what could not take part",
)
DOCUMENT: Final = _object("id", "title", "url", id=TEXT, title=TEXT, url=TEXT, metadata=ANYTHING)
RESULT: Final = _object("id", "title", "url", id=TEXT, title=TEXT, url=TEXT, text=TEXT, score=NUMBER)
READING: Final = _object(
    "id", "title", "text", "url", "metadata", id=TEXT, title=TEXT, text=TEXT, url=TEXT, metadata=ANYTHING
)
PASSAGE: Final = _object(
    "id", "text", "score", "source", "tier", "document",
    id=TEXT, text=TEXT, score=NUMBER, source=TEXT, tier=TEXT, kind=TEXT,
    headings=_list(TEXT), page={"type": ["integer", "null"]}, document=DOCUMENT,
    knowledge_base=_object("id", "name", id=WHOLE, name=TEXT), outdated=OUTDATED, original=ORIGINAL,
)  # fmt: skip
SOURCE: Final = _object(
    "number", "id", "text", "document",
    number=WHOLE, id=TEXT, text=TEXT, headings=_list(TEXT), page={"type": ["integer", "null"]}, document=DOCUMENT,
    original=ORIGINAL,
)  # fmt: skip
TABLE: Final = _object(
    "id", "text", "score", "document",
    id=TEXT, text=TEXT, score=NUMBER, headings=_list(TEXT), page={"type": ["integer", "null"]}, document=DOCUMENT,
    knowledge_base=_object("id", "name", id=WHOLE, name=TEXT),
)  # fmt: skip
CELL_ANSWER: Final = _object("answer", "knowledge_base", answer=TEXT, read_as=TEXT, knowledge_base=TEXT)
BASE: Final = _object(
    "id", "name", "documents", "chunks", id=WHOLE, name=TEXT, kind=TEXT, documents=WHOLE, chunks=WHOLE
)

# ── the tools ────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Tool:
    name: str
    title: str
    description: str
    arguments: type[BaseModel]
    output: Schema
    run: Callable[..., Awaitable[tools.Json]]
    is_answer: bool = False  # it may take as long as a language model

    def input(self) -> Schema:
        schema = self.arguments.model_json_schema()
        for part in (schema, *schema["properties"].values()):
            part.pop("title", None)  # which repeats the name
        return schema

    def read(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments of `run`. Null is the same as left out; an unknown one is ignored. Raises BadInput."""
        given = {name: value for name, value in arguments.items() if value is not None}
        try:
            return dict(self.arguments.model_validate(given))
        except ValidationError as error:
            wrong = "；".join(f"{name}：{reason}" for name, reason in _reasons(error).items())
            known = "、".join(self.arguments.model_fields)
            raise BadInput(f"{self.name} 的参数不对：{wrong}", hint=f"可用的参数：{known}") from error


# What pydantic says in English, by its type of error.
REASONS: Final = {
    "missing": "缺少这个参数",
    "string_type": "应为文字",
    "string_unicode": "含有不成对的代理字符",
    "string_too_short": "不能为空",
    "string_too_long": "最多 {max_length} 个字符",
    "int_type": "应为整数",
    "int_parsing": "应为整数",
    "int_from_float": "应为整数",
    "float_type": "应为数字",
    "float_parsing": "应为数字",
    "greater_than_equal": "应不小于 {ge}",
    "less_than_equal": "应不大于 {le}",
    "literal_error": "应为 {expected}",
    "dict_type": "应为对象",
}


def _reasons(error: ValidationError) -> dict[str, str]:
    """By argument; of one that might be several things, why it is not the first of them."""
    found: dict[str, str] = {}
    for one in error.errors(include_url=False, include_input=False):
        reason = REASONS[one["type"]].format(**one.get("ctx", {})) if one["type"] in REASONS else one["msg"]
        found.setdefault(str(one["loc"][0]), reason)
    return found


TOOLS: Final[Mapping[str, Tool]] = {
    tool.name: tool
    for tool in (
        Tool(
            "search",
            "检索知识库",
            "在知识库里查找与问题有关的文档，最相关的在前，至多 10 份，每份给出 id、标题、网址与最相关的一段摘录。"
            "凡是可能写在用户资料里的问题，先用它；摘录不够时，把 id 交给 fetch 读全文。结果为空就是资料里没有。\n"
            "Find documents in the knowledge bases, best first, each with an excerpt. Then read one with fetch.",
            SearchArguments,
            _object("results", results=_list(RESULT), degraded=DEGRADED),
            tools.search,
        ),
        Tool(
            "fetch",
            "读取文档",
            "按 id 读取一份文档的全文（来自 search），或一个段落及其上下文（来自 retrieve）。"
            "很长的文档一次读一部分：metadata.truncated 为 true 时，用 metadata.next_start 作 start 再读。\n"
            "Read a whole document (id from search) or a passage with its surroundings (id from retrieve).",
            FetchArguments,
            READING,
            tools.fetch,
        ),
        Tool(
            "retrieve",
            "召回段落",
            "直接给出回答问题所需的原文段落，带分数（0–1）、来源（vector、keyword、qa、hybrid）、层级"
            "（strict 可靠，document 指定的文档，fuzzy 只是相近）、标题、页码与所属文档。"
            "要引用原文、限定某个知识库、按元数据筛选、调节数量或分数线时，用它而不用 search。\n"
            "Get the passages themselves, with score, source and tier; may be narrowed by knowledge base or filters.",
            RetrieveArguments,
            _object("passages", passages=_list(PASSAGE), degraded=DEGRADED),
            tools.retrieve,
        ),
        Tool(
            "ask",
            "提问",
            "直接要一个回答：每句注明出处 [1]、[2]，sources 是它们所指的原文；"
            "资料里没有就明说没有（is_answered 为 false），并指出最接近的地方；form 为 probable 时只是可能在那里。"
            "要转述结论、数字已核对过时用；要自己读资料再回答，用 retrieve 或 search。\n"
            "Get an answer whose sentences cite their sources; it says so where the documents do not tell.",
            AskArguments,
            _object("answer", "is_answered", "sources", answer=TEXT, is_answered={"type": "boolean"},
                    sources=_list(SOURCE), form=TEXT, reason=TEXT, notes=_list(TEXT), degraded=DEGRADED,
                    knowledge_base=_object("id", "name", id=WHOLE, name=TEXT)),
            tools.ask,
            is_answer=True,
        ),
        Tool(
            "tables",
            "查表格",
            "在表格里找：给出最相关的表与对得上的行；问得清楚时，answers 是在单元格上查、数、求和、比大小得出的答案。"
            "问价格、数量、比例、名单、排名这类表格里的事，用它。\n"
            "Find tables and their rows; answers are computed from the cells where the question is clear.",
            TablesArguments,
            _object("answers", "tables", answers=_list(CELL_ANSWER), tables=_list(TABLE), degraded=DEGRADED),
            tools.tables,
        ),
        Tool(
            "list_knowledge_bases",
            "列出知识库",
            "列出可以检索的知识库：编号、名称、各有多少文档与段落。要知道有哪些资料，或 retrieve 要限定知识库时用。\n"
            "List the knowledge bases with their names and sizes.",
            ListArguments,
            _object("knowledge_bases", knowledge_bases=_list(BASE), total=WHOLE),
            tools.list_knowledge_bases,
        ),
    )
}  # fmt: skip
