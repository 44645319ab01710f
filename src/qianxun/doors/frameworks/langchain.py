"""A LangChain retriever over a knowledge base; comes with the extra ``langchain``.

with open_blocking("./qianxun-data") as rag:
    retriever = QianxunRetriever(rag=rag, knowledge_base="医保", top_k=5)
    chain = {"context": retriever | format_docs, "question": RunnablePassthrough()} | prompt | model
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, TypeAlias, get_type_hints

from qianxun.core.codec.passage import passage_text
from qianxun.core.codec.wire import to_wire
from qianxun.core.errors import MissingExtra
from qianxun.core.option_fields import choices_of
from qianxun.core.options import SearchChoices, SearchOptions
from qianxun.core.types import Recall
from qianxun.doors.frameworks.callers import Call, Rag, caller_of
from qianxun.doors.frameworks.recall import Where, chunk_metadata, read_where, recalling

try:
    from langchain_core.callbacks.manager import (
        AsyncCallbackManagerForRetrieverRun,
        CallbackManagerForRetrieverRun,
        adispatch_custom_event,
        dispatch_custom_event,
    )
    from langchain_core.documents import Document
    from langchain_core.retrievers import BaseRetriever
    from pydantic import ConfigDict, Field, GetPydanticSchema, create_model
    from pydantic_core import core_schema
except ModuleNotFoundError as error:
    raise MissingExtra("langchain-core", "langchain") from error

# Read by ourselves: pydantic would make a schema of all that an engine is made of, and take an object for a filter.
AsRag: TypeAlias = Annotated[Rag, GetPydanticSchema(lambda *_: core_schema.no_info_plain_validator_function(caller_of))]
AsWhere: TypeAlias = Annotated[
    Where | None, GetPydanticSchema(lambda *_: core_schema.no_info_plain_validator_function(read_where))
]

DEGRADED: Final = "qianxun_degraded"  # the custom event of a recall that a part of could not answer


def _choices() -> dict[str, Any]:
    """A field for every option of a search; None leaves the choice to the base and the settings."""
    hints = get_type_hints(SearchChoices) | {"where": AsWhere}
    return {name: (hints[name], None) for name in choices_of(SearchOptions)}


class _Choosing(BaseRetriever):
    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    rag: AsRag = Field(repr=False, exclude=True)
    knowledge_base: str | int


class QianxunRetriever(create_model("QianxunRetriever", __base__=_Choosing, **_choices())):  # type: ignore[misc]
    """Documents of one knowledge base, best first.

    ``rag`` is an engine, one from `open_blocking`, or a `Client`; somebody else closes it. ``knowledge_base`` is a name
    or a number. The rest are the options of `Engine.retrieve`: None leaves the choice to the base and the settings.
    ``invoke(query, top_k=3)`` has them for one call. The id of a run is the ``trace_id`` in the retrieval log.

    Raises what `Engine.retrieve` raises. A recall that went on without a part of it is a warning in the log, a custom
    event ``qianxun_degraded``, and stands in the metadata.
    """

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, **options: Any
    ) -> list[Document]:
        call = self._call(query, run_manager.run_id.hex, options)
        recall = caller_of(self.rag).wait(call, instead="ainvoke")
        if recall.degraded:
            dispatch_custom_event(DEGRADED, _degraded(recall), config={"callbacks": run_manager.get_child()})
        return _documents(recall)

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, **options: Any
    ) -> list[Document]:
        recall = await caller_of(self.rag).join(self._call(query, run_manager.run_id.hex, options))
        if recall.degraded:
            await adispatch_custom_event(DEGRADED, _degraded(recall), config={"callbacks": run_manager.get_child()})
        return _documents(recall)

    def _call(self, query: str, run: str, options: Mapping[str, Any]) -> Call[Recall]:
        chosen = {name: getattr(self, name) for name in choices_of(SearchOptions)}
        of_call = {name: value for name, value in options.items() if name != "verbose"}  # LangChain's own
        return recalling(self.knowledge_base, query, {"trace_id": run, **chosen, **of_call})


def _documents(recall: Recall) -> list[Document]:
    return [
        Document(passage_text(found.chunk), id=found.chunk.chunk_id, metadata=chunk_metadata(recall, found))
        for found in recall.results
    ]


def _degraded(recall: Recall) -> dict[str, Any]:
    return {"trace_id": recall.trace_id, "degraded": to_wire(recall.degraded)}
