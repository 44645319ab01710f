"""What people correct: chunks, documents, the results of questions; and what ratings propose."""

from __future__ import annotations

from typing import Annotated, Any, Final, cast

from fastapi import APIRouter, Path, Query, Response
from pydantic import Field

from qianxun.core.codec.wire import to_wire
from qianxun.core.evaluation_types import Case, EvaluationSet
from qianxun.core.governance.corrections import (
    AUTHOR_LIMIT,
    KEYWORD_LIMIT,
    KEYWORDS_LIMIT,
    LIKE,
    METADATA_LIMIT,
    NAME_LIMIT,
    NOTE_LIMIT,
    PARTS_LIMIT,
    TEXT_LIMIT,
    ChangeFields,
    Correction,
    CorrectionKind,
    CorrectionQuery,
    CorrectionState,
)
from qianxun.core.limits import CHUNK_ID_LIMIT, DOC_ID_LIMIT, MAX_ID, QUERY_LIMIT
from qianxun.core.limits import NAME_LIMIT as SET_NAME_LIMIT
from qianxun.doors.http.context import BaseId, TenantEngine
from qianxun.doors.http.native.routes import body_examples, route, write_route
from qianxun.doors.http.request_models import RequestModel
from qianxun.doors.http.response_models import listed, of, response
from qianxun.doors.http.responses import success
from qianxun.engine.governance.corrections import DEFAULT_SET

PAGE: Final = 50
MAX_PAGE: Final = 500
IMPORTED_AT_ONCE: Final = 1000

CorrectionId = Annotated[int, Path(description="更正的编号", ge=1, le=MAX_ID, examples=[7])]
ChunkId = Annotated[str, Field(min_length=1, max_length=CHUNK_ID_LIMIT)]
Author = Annotated[str, Field(max_length=AUTHOR_LIMIT, description="谁；不写则记下所用的密钥")]
Scalar = str | bool | int | float

router = APIRouter(prefix="/v1/knowledge-bases/{knowledge_base_id}/corrections", tags=["更正"])


class NewCorrectionBody(RequestModel):
    """Every kind takes the fields that are its own."""

    kind: CorrectionKind
    chunk_ids: list[ChunkId] = Field(default=[], max_length=PARTS_LIMIT, description="哪个片段；join 要相邻的几个")
    doc_id: str = Field(default="", max_length=DOC_ID_LIMIT, description="disable_document、rename、metadata：哪个文档")
    author: Author = ""
    text: str = Field(default="", max_length=TEXT_LIMIT, description="edit：改后的全文")
    parts: list[str] = Field(default=[], max_length=PARTS_LIMIT, description="split：拆成的各段，连起来须是原文")
    keywords: list[Annotated[str, Field(max_length=KEYWORD_LIMIT)]] = Field(default=[], max_length=KEYWORDS_LIMIT)
    questions: list[Annotated[str, Field(max_length=QUERY_LIMIT)]] = Field(
        default=[], max_length=KEYWORDS_LIMIT, description="questions：这一段能回答的问题"
    )
    note: str = Field(default="", max_length=NOTE_LIMIT)
    name: str = Field(default="", max_length=NAME_LIMIT, description="rename：新的名称")
    metadata: dict[str, Scalar | list[Scalar] | None] = Field(
        default={}, max_length=METADATA_LIMIT, description="metadata：要改的键与值；null 为去掉这个键"
    )
    question: str = Field(default="", max_length=QUERY_LIMIT, description="pin、exclude：管哪个问题")
    like: float = Field(default=LIKE, gt=0, le=1, description="向量的余弦到多少算同一个问题；1 为只认同样的字")


class Decision(RequestModel):
    author: Author = ""


class NewPlace(RequestModel):
    chunk_ids: list[ChunkId] = Field(min_length=1, max_length=PARTS_LIMIT)


class SavedProposal(RequestModel):
    set_name: str = Field(default=DEFAULT_SET, min_length=1, max_length=SET_NAME_LIMIT, description="没有则新建")


class ImportedCorrections(RequestModel):
    corrections: list[dict[str, Any]] = Field(max_length=IMPORTED_AT_ONCE, description="导出的 list，原样")


DecisionBody = Annotated[Decision, body_examples("decision")]
UNSIGNED: Final = Decision()  # the body may be left out
DEFAULT_PROPOSAL: Final = SavedProposal()
CorrectionInfo: Final = of(Correction)
CorrectionPage: Final = response("CorrectionPage", list=listed(CorrectionInfo), next=int | None, counts=dict[str, int])
CorrectionList: Final = response("CorrectionList", list=listed(CorrectionInfo))
ExportedCorrections: Final = response("ExportedCorrections", list=list[dict[str, Any]])
SavedProposalInfo: Final = response("SavedProposalInfo", set=of(EvaluationSet), case=of(Case))


CHANGE_ERRORS: Final = (400, 404, 413, 422, 507)


@router.get("", **route("更正", CorrectionPage, 404, 422))
async def page(
    knowledge_base_id: BaseId,
    engine: TenantEngine,
    state: Annotated[CorrectionState | None, Query(description="只看这样的：needs_a_look 为要人看一看")] = None,
    kind: Annotated[CorrectionKind | None, Query(description="只看这一种")] = None,
    doc_id: Annotated[str, Query(max_length=DOC_ID_LIMIT, description="只看这个文档的")] = "",
    chunk_id: Annotated[str, Query(max_length=CHUNK_ID_LIMIT, description="只看这个片段上的")] = "",
    limit: Annotated[int, Query(ge=1, le=MAX_PAGE)] = PAGE,
    after: Annotated[int, Query(ge=0, le=MAX_ID, description="上一页的 next")] = 0,
) -> Response:
    """按编号排列；`counts` 是各状态有多少条。"""
    corrections = engine.governance.corrections
    query = CorrectionQuery(state or "", kind or "", doc_id, chunk_id)
    found = await corrections.page(knowledge_base_id, query, limit=limit, after=after)
    if doc_id and not found:  # corrections may outlive their document; what has neither never was
        await engine.document(knowledge_base_id, doc_id)
    counts = await corrections.counts(knowledge_base_id)
    return success({"list": to_wire(found), "next": found[-1].id if len(found) == limit else None, "counts": counts})


@router.post("", **write_route("更正片段、文档，或一个问题的结果", CorrectionInfo, *CHANGE_ERRORS, status=201))
async def add(
    knowledge_base_id: BaseId, engine: TenantEngine, body: Annotated[NewCorrectionBody, body_examples("new_correction")]
) -> Response:
    """返回时已对所有检索生效。按内容认定是哪一段：文档更新、重新切分、换模型之后仍在；原文没有了就等人看。"""
    given = body.model_dump(exclude={"kind", "chunk_ids", "doc_id", "author"})
    change: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in given.items()}
    change["metadata"] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in body.metadata.items()
    }
    made = await engine.governance.corrections.add(
        knowledge_base_id,
        body.kind,
        chunk_id=body.chunk_ids,
        doc_id=body.doc_id,
        author=body.author,
        **cast(ChangeFields, change),
    )
    return success(to_wire(made), 201)


@router.get("/export", **route("导出全部更正", ExportedCorrections, 404, 422))
async def export(knowledge_base_id: BaseId, engine: TenantEngine) -> Response:
    """导入到另一个有同样文档的知识库，更正在那里按原文重新认定。"""
    return success({"list": await engine.governance.corrections.export(knowledge_base_id)})


@router.post("/import", **write_route("导入更正", CorrectionList, *CHANGE_ERRORS))
async def import_all(
    knowledge_base_id: BaseId,
    engine: TenantEngine,
    body: Annotated[ImportedCorrections, body_examples("imported_corrections")],
) -> Response:
    """已有的不再收；原文不在这里的，状态为 needs_a_look。"""
    taken = await engine.governance.corrections.import_all(knowledge_base_id, body.corrections)
    return success({"list": to_wire(taken)})


@router.get("/{correction_id}", **route("一条更正", CorrectionInfo, 404, 422))
async def get(knowledge_base_id: BaseId, correction_id: CorrectionId, engine: TenantEngine) -> Response:
    return success(to_wire(await engine.governance.corrections.get(knowledge_base_id, correction_id)))


@router.post("/{correction_id}/undo", **write_route("撤销", CorrectionInfo, *CHANGE_ERRORS))
async def undo(
    knowledge_base_id: BaseId, correction_id: CorrectionId, engine: TenantEngine, body: DecisionBody = UNSIGNED
) -> Response:
    """恢复文档自己的文字、名称或元数据；记录留着，可以再次应用。也用来否决一条提议。"""
    corrections = engine.governance.corrections
    return success(to_wire(await corrections.undo(knowledge_base_id, correction_id, author=body.author)))


@router.post("/{correction_id}/apply", **write_route("应用提议，或重做撤销的", CorrectionInfo, *CHANGE_ERRORS))
async def apply(
    knowledge_base_id: BaseId, correction_id: CorrectionId, engine: TenantEngine, body: DecisionBody = UNSIGNED
) -> Response:
    corrections = engine.governance.corrections
    return success(to_wire(await corrections.apply(knowledge_base_id, correction_id, author=body.author)))


@router.post("/{correction_id}/move", **write_route("指给另一个片段", CorrectionInfo, *CHANGE_ERRORS))
async def move(
    knowledge_base_id: BaseId,
    correction_id: CorrectionId,
    engine: TenantEngine,
    body: Annotated[NewPlace, body_examples("new_place")],
) -> Response:
    """用于 needs_a_look：原文改写过了，由人指出它如今是哪一段。"""
    moved = await engine.governance.corrections.move(knowledge_base_id, correction_id, body.chunk_ids)
    return success(to_wire(moved))


@router.post(
    "/{correction_id}/case", **write_route("把提议存为评测集的一题", SavedProposalInfo, *CHANGE_ERRORS, status=201)
)
async def save_as_case(
    knowledge_base_id: BaseId,
    correction_id: CorrectionId,
    engine: TenantEngine,
    body: Annotated[SavedProposal, body_examples("saved_proposal")] = DEFAULT_PROPOSAL,
) -> Response:
    """只记下该找到什么，不改变任何结果。"""
    corrections = engine.governance.corrections
    found, case = await corrections.save_as_case(knowledge_base_id, correction_id, body.set_name)
    return success({"set": to_wire(found), "case": to_wire(case)}, 201)
