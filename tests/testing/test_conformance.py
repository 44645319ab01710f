"""The models and parsers that ship run what their extenders inherit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import docx
import openpyxl
import pytest

from qianxun.core.ports import ChatModel, EmbeddingModel, RerankModel
from qianxun.core.types import ParsedFile
from qianxun.ingest.parse import parse
from qianxun.ingest.sandbox.limits import ParseLimits
from qianxun.models import ChatEndpoint, MaxSim, RemoteEndpoint, RerankEndpoint
from qianxun.models.local.embedding import LocalEmbedding
from qianxun.models.remote.chat import RemoteChat
from qianxun.models.remote.embedding import RemoteEmbedding
from qianxun.models.remote.rerank import RemoteRerank
from qianxun.testing.model_conformance import ChatConformance, EmbeddingConformance, RerankConformance
from qianxun.testing.parser_conformance import ParserConformance
from qianxun.testing.scripted import HashEmbedding, ScriptedEmbedding, ScriptedReranker, ScriptedStreamingChat
from tests.models.chat_service import chat_service
from tests.models.embedding_service import DIMENSION, overlap, ranks_well, serving, unheard, well
from tests.shared import BGE_SMALL, needs_model


class TestHashEmbedding(EmbeddingConformance):
    abilities = frozenset({"surrogates"})

    def model(self) -> EmbeddingModel:
        return HashEmbedding()


class TestScriptedEmbedding(TestHashEmbedding):
    def model(self) -> EmbeddingModel:
        return ScriptedEmbedding(32)


class TestRemoteEmbedding(EmbeddingConformance):
    @pytest.fixture(autouse=True)
    def service(self) -> Iterator[None]:
        with serving(well) as service:
            endpoint = RemoteEndpoint(service.url, "bge", DIMENSION)
            with closing(RemoteEmbedding(endpoint, sleep=lambda wait: None)) as self.remote:
                yield

    def model(self) -> EmbeddingModel:
        return self.remote


@needs_model
class TestLocalEmbedding(EmbeddingConformance):
    abilities = frozenset({"tokens", "surrogates"})
    opened: LocalEmbedding | None = None

    def model(self) -> EmbeddingModel:
        TestLocalEmbedding.opened = self.opened or LocalEmbedding("bge-small-zh-v1.5", BGE_SMALL)
        assert self.opened is not None
        return self.opened


class TestScriptedReranker(RerankConformance):
    abilities = frozenset({"stop"})

    def model(self) -> RerankModel:
        return ScriptedReranker(overlap)


class TestRemoteRerank(RerankConformance):
    abilities = frozenset({"stop"})

    @pytest.fixture(autouse=True)
    def service(self) -> Iterator[None]:
        with serving(ranks_well) as service:
            endpoint = RerankEndpoint(service.url, "bge-reranker")
            with closing(RemoteRerank(endpoint, sleep=lambda wait: None)) as self.remote:
                yield

    def model(self) -> RerankModel:
        return self.remote


@needs_model
class TestMaxSim(RerankConformance):
    abilities = frozenset({"stop"})
    opened: MaxSim | None = None

    def model(self) -> RerankModel:
        TestMaxSim.opened = self.opened or MaxSim(LocalEmbedding("bge-small-zh-v1.5", BGE_SMALL))
        assert self.opened is not None
        return self.opened


class TestScriptedChat(ChatConformance):
    abilities = frozenset({"stream"})

    def model(self) -> ChatModel:
        return ScriptedStreamingChat("住院费用报销百分之八十五。")


class TestRemoteChat(ChatConformance):
    abilities = frozenset({"stream", "unreachable"})

    @pytest.fixture(autouse=True)
    def service(self) -> Iterator[None]:
        with chat_service("住院费用报销百分之八十五。") as service, unheard() as address:
            self.chat = RemoteChat(ChatEndpoint(service.url, "qwen"), sleep=lambda wait: None)
            self.silent = RemoteChat(ChatEndpoint(address, "qwen"), sleep=lambda wait: None)
            with closing(self.chat), closing(self.silent):
                yield

    def model(self) -> ChatModel:
        return self.chat

    def unreachable_model(self) -> ChatModel:
        return self.silent


# ── parsers ──────────────────────────────────────────────────────────────────────────────────────


class Builtin(ParserConformance):
    """One of our formats, as `parse` chooses it."""

    is_builtin = True
    name = ""
    content = ""

    def parser(self) -> Any:
        def parsed(path: Path, limits: ParseLimits) -> ParsedFile:
            return parse(path, limits)

        return SimpleNamespace(formats=(Path(self.name).suffix,), parse=parsed)

    def sample(self, folder: Path) -> Path:
        path = folder / self.name
        path.write_text(self.content, "utf-8")
        return path


class TestText(Builtin):
    abilities = frozenset({"headings"})
    name = "办法.txt"
    content = "第一章 总则\n\n住院报销比例为百分之八十五。\n\n第二章 附则\n\n本办法自发布之日起施行。\n"


class TestMarkdown(Builtin):
    abilities = frozenset({"headings", "tables"})
    name = "办法.md"
    content = "# 总则\n\n住院报销比例如下：\n\n| 级别 | 比例 |\n| --- | --- |\n| 一级 | 90% |\n| 二级 | 85% |\n"


class TestHtml(Builtin):
    abilities = frozenset({"headings", "tables"})
    name = "办法.html"
    content = (
        "<h1>总则</h1><p>住院报销比例如下</p>"
        "<table><tr><th>级别</th><th>比例</th></tr><tr><td>一级</td><td>90%</td></tr></table>"
    )


class TestCsv(Builtin):
    abilities = frozenset({"tables", "pairs"})
    name = "问答.csv"
    content = "问题,答案\n住院报销比例,百分之八十五\n门诊报销比例,百分之六十\n"


class TestJson(Builtin):
    abilities = frozenset({"tables", "pairs"})
    name = "问答.json"
    content = '[{"问题": "住院报销比例", "答案": "85%"}, {"问题": "门诊", "答案": "60%"}]'


class TestDocx(Builtin):
    abilities = frozenset({"headings", "tables"})
    name = "办法.docx"

    def sample(self, folder: Path) -> Path:
        document = docx.Document()
        document.add_heading("总则", 1)
        document.add_paragraph("住院报销比例如下。")
        table = document.add_table(2, 2)
        for cell, text in zip(
            (cell for row in table.rows for cell in row.cells), ["级别", "比例", "一级", "90%"], strict=True
        ):
            cell.text = text
        document.save(str(folder / self.name))
        return folder / self.name


class TestXlsx(Builtin):
    abilities = frozenset({"tables"})
    name = "比例.xlsx"

    def sample(self, folder: Path) -> Path:
        book = openpyxl.Workbook()
        for row in (("级别", "住院报销比例"), ("一级", 0.9), ("二级", 0.85)):
            book.active.append(row)
        book.save(folder / self.name)
        return folder / self.name
