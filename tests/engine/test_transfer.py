"""One base as a file: what comes back is what went out, and what is damaged is refused."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import json
import random
import tracemalloc
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from qianxun.core.errors import AlreadyThere, BadInput, Refused
from qianxun.core.graph_types import Alias
from qianxun.core.limits import MIB
from qianxun.core.log_types import Feedback
from qianxun.core.types import Document, QAPair, Recall
from qianxun.engine.admin.evaluation_sets import Evaluations
from qianxun.engine.admin.transfer import clone_base, export_base, import_base
from qianxun.engine.admin.transfer_file import UPLOADED, Limits
from qianxun.engine.engine import Engine
from qianxun.records import graph
from qianxun.records.governance import access
from qianxun.records.schema import KnowledgeBaseRow
from tests.http.asking import asking
from tests.indexing.opened import opened

LIBRARY = [
    Document(
        "手册",
        "# 报销\n\n住院报销比例为 85%。\n\n| 级别 | 比例 |\n| --- | --- |\n| 一级 | 90% |\n| 三级 | 80% |\n",
        name="手册.md",
        format="markdown",
        tags=("医保",),
        metadata={"年份": 2024, "地区": ("杭州", "宁波")},
        pairs=(QAPair("住院报多少", "85%"),),
    ),
    Document("规定", "差旅费按 650 元计。本办法自2024年1月1日起施行。", name="规定.txt", user_id="u1"),
    Document("長文", "異地就醫需要先備案。😀" * 200, name="长文.txt"),
]
QUERIES = ("住院报销比例", "三级医院比例", "差旅费多少", "异地就医备案")


async def found(engine: Engine, base: int) -> list[Any]:
    return [shown(await engine.retrieve(base, query)) for query in QUERIES]


def shown(recall: Recall) -> list[Any]:
    return [
        (one.chunk.doc_id, one.chunk.text, one.chunk.headings, one.score, one.source, dict(one.chunk.metadata))
        for one in recall.results
    ]


def test_a_base_comes_back_as_it_was(tmp_path: Path) -> None:
    async def work() -> None:
        file = tmp_path / "医保.qianxun"
        async with opened(tmp_path / "one") as (engine, kb):
            await engine.configure(kb, {"search.top_k": 7})
            await engine.add_documents(kb, LIBRARY)
            await engine.records.write(lambda tx: graph.add_alias(tx, kb, Alias("医疗保险", "医保", "user", {})))
            before, states = await found(engine, kb), await engine.documents(kb)
            out = await export_base(engine, kb, file)
            assert (out.documents, out.chunks > 3) == (3, True)
            with pytest.raises(BadInput, match="已经存在"):
                await export_base(engine, kb, file)
            with pytest.raises(AlreadyThere):
                await import_base(engine, file)
            again = await clone_base(engine, kb, "另一个")
            assert await found(engine, again.knowledge_base.id) == before
        async with opened(tmp_path / "two") as (other, _):
            made = await import_base(other, file, name="回来")
            base = made.knowledge_base.id
            assert await found(other, base) == before
            assert (await other.knowledge_base(base)).config["search"] == {"top_k": 7}
            assert [(one.doc_id, one.status, one.validity, one.tags) for one in await other.documents(base)] == [
                (one.doc_id, "indexed", one.validity, one.tags) for one in states
            ]
            assert (await other.admin.verify(base)).is_clean
            assert await other.records.read(lambda tx: graph.aliases(tx, base)) == [
                Alias("医疗保险", "医保", "user", {})
            ]
            (accepted,) = await other.add_documents(base, LIBRARY[:1])
            assert accepted.outcome == "unchanged"
            words = await import_base(other, file, name="只按词语", model="none")
            assert words.knowledge_base.embedding_model == ""
            assert (await other.retrieve(words.knowledge_base.id, "差旅费多少")).results[0].chunk.doc_id == "规定"

    asyncio.run(work())


def test_under_its_own_model_nothing_is_embedded_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        async with opened(tmp_path) as (engine, kb):
            await engine.add_documents(kb, LIBRARY)
            model = (await engine.base(kb)).model
            assert model is not None

            def refuse(*_: object) -> None:
                raise AssertionError("embedded again")

            monkeypatch.setattr(type(model), "embed_passages", refuse)
            made = await clone_base(engine, kb, "另一个")
            assert len((await engine.base(made.knowledge_base.id)).about.embedding_model) > 0

    asyncio.run(work())


def damaged(lines: list[bytes], how: str) -> bytes:
    match how:
        case "cut":
            return gzip.compress(b"".join(lines[:-1]))
        case "changed":
            return gzip.compress(b"".join(lines).replace(b"85%", b"95%"))
        case "torn":
            return gzip.compress(b"".join(lines))[:-40]
        case "newer":
            first = json.loads(lines[0])
            return gzip.compress(json.dumps({**first, "version": 99}).encode() + b"\n" + b"".join(lines[1:]))
        case "longer":
            return gzip.compress(b"".join([*lines, lines[1]]))
    return b"plain text"


@pytest.mark.parametrize("how", ["cut", "changed", "torn", "newer", "longer", "other"])
def test_a_damaged_file_is_refused_and_leaves_nothing(tmp_path: Path, how: str) -> None:
    async def work() -> None:
        async with opened(tmp_path) as (engine, kb):
            await engine.add_documents(kb, LIBRARY[:1])
            file = tmp_path / "base"
            await export_base(engine, kb, file)
            lines = gzip.decompress(file.read_bytes()).splitlines(keepends=True)
            file.write_bytes(damaged(lines, how))
            with pytest.raises(Refused):
                await import_base(engine, file, name="新")
            assert [base.id for base in await engine.knowledge_bases()] == [kb]

    asyncio.run(work())


def signed(lines: list[Any]) -> bytes:
    """As a stranger writes it, who can count and hash as well as we do."""
    data = b"".join(line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n" for line in lines)
    number = sum("document" in line for line in lines if isinstance(line, dict))
    last = {"documents": number, "chunks": 1, "sha256": hashlib.sha256(data).hexdigest()}
    return gzip.compress(data + json.dumps(last).encode() + b"\n")


STRANGE_HEADS: list[dict[str, Any]] = [
    {"version": None}, {"version": "9"}, {"sections": [1]}, {"sections": {"logs": "x"}}, {"config": None},
    {"config": [1]}, {"kind": 7}, {"embedding_model": 5}, {"name": 5}, {"dimension": "x"},
]  # fmt: skip
STRANGE_DOCUMENTS: list[dict[str, Any]] = [
    {"document": {}}, {"document": "x"}, {"pieces": "x"}, {"generation": "x"}, {"generation": 2**70},
    {"generation": -5}, {"fingerprint": {"a": 1}}, {"vectors": "AAA="}, {"vectors": "%%%"}, {"vectors": 5},
    {"vectors": b64encode(bytes(12)).decode()}, {"vectors": b64encode(b"\xff" * 4 * 8).decode()},
    {"facts": [[99, "o", "d", {}]]}, {"questions": [["q", "a", 99, "given"]], "question_vectors": None},
    {"questions": [[1, None, 0, "given"]], "question_vectors": None},
]  # fmt: skip
STRANGE_FIELDS: list[dict[str, Any]] = [
    {"id": "a\0b"}, {"id": 5}, {"id": "x" * 5000}, {"content": None}, {"metadata": "x"},
    {"tags": [1]}, {"name": "\ud800"}, {"format": "exe"},
]  # fmt: skip
STRANGE_PIECES: list[dict[str, Any]] = [{"start": -5}, {"end": 10**30}, {"body": None}, {"kind": "xx"}, {"page": "x"}]
STRANGE_LINES: list[Any] = [
    {"section": "zzz", "row": 1}, {"section": "logs", "row": {}}, {"section": "evaluation", "row": 5},
    {"section": "access_rules", "row": {"prefix": 5, "labels": "x"}}, {"correction": {"id": "x"}}, {"alias": {}},
    {"alias": {"name": 1, "alias": 2}}, {"section": "graph_summaries", "row": {"model": 1}},
    b'{"document":' + b"[" * 100_000 + b"]" * 100_000 + b"}\n",
]  # fmt: skip


def strange_files(head: dict[str, Any], line: dict[str, Any]) -> Iterator[list[Any]]:
    yield from ([{**head, **strange}, line] for strange in STRANGE_HEADS)
    yield from ([head, {**line, **strange}] for strange in STRANGE_DOCUMENTS)
    yield from ([head, {**line, "document": {**line["document"], **strange}}] for strange in STRANGE_FIELDS)
    yield from ([head, {**line, "pieces": [{**line["pieces"][0], **strange}]}] for strange in STRANGE_PIECES)
    yield from ([head, strange, line] for strange in STRANGE_LINES)


def test_whatever_a_stranger_writes_into_a_file_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    async def work() -> None:
        async with opened(tmp_path) as (engine, kb):
            await engine.add_documents(kb, [Document("手册", "住院报销比例为 85%。", name="手册")])
            file = tmp_path / "base"
            await export_base(engine, kb, file)
            head, line, _ = map(json.loads, gzip.decompress(file.read_bytes()).splitlines())
            assert len(line["pieces"]) == 1
            for number, lines in enumerate(strange_files(head, line)):
                file.write_bytes(signed(lines))
                with pytest.raises((Refused, BadInput)):
                    await asyncio.wait_for(import_base(engine, file, name=f"新{number}"), 20)
                assert [base.id for base in await engine.knowledge_bases()] == [kb], lines
            file.write_bytes(signed([head, line]))
            assert (await import_base(engine, file, name="对的")).documents == 1

    asyncio.run(work())


def test_a_base_has_its_name_only_when_it_is_whole(tmp_path: Path) -> None:
    async def work() -> None:
        async with opened(tmp_path) as (engine, kb):
            await engine.add_documents(kb, LIBRARY)
            await export_base(engine, kb, tmp_path / "base")
            underway: list[list[str]] = []

            def watch(_: int) -> None:  # what one finds after a kill at this moment
                with engine.records.reading() as tx:
                    underway.append(list(tx.execute(select(KnowledgeBaseRow.name)).scalars()))

            made = await import_base(engine, tmp_path / "base", name="新", watch=watch)
            assert all("新" not in names and any("导入未完成" in name for name in names) for names in underway)
            assert underway
            assert made.knowledge_base.name == "新"
            assert sorted(base.name for base in await engine.knowledge_bases()) == ["医保", "新"]

    asyncio.run(work())


def test_a_small_file_that_unpacks_to_much_is_refused_before_it_is_in_memory(tmp_path: Path) -> None:
    async def work() -> None:
        async with opened(tmp_path) as (engine, kb):
            await engine.add_documents(kb, LIBRARY[:1])
            file = tmp_path / "base"
            await export_base(engine, kb, file)
            head = gzip.decompress(file.read_bytes()).splitlines(keepends=True)[0]
            for bomb in (b"a" * 60 * MIB, b'{"alias":1}\n' * 4_000_000):
                file.write_bytes(gzip.compress(head + bomb))
                del bomb
                tracemalloc.start()
                with pytest.raises(Refused, match="过大"):
                    await import_base(engine, file, name="新", limits=Limits(4 * MIB, expansion=20.0))
                assert tracemalloc.get_traced_memory()[1] < 30 * MIB
                tracemalloc.stop()
            assert [base.id for base in await engine.knowledge_bases()] == [kb]

    asyncio.run(work())


def test_a_line_of_a_kind_that_no_program_writes_ends_the_reading(tmp_path: Path) -> None:
    """A few kilobytes unpack to millions of them; it was only at the end of the file that it was refused."""

    async def work() -> None:
        async with opened(tmp_path) as (engine, kb):
            await engine.add_documents(kb, LIBRARY[:1])
            file = tmp_path / "base"
            await export_base(engine, kb, file)
            head = gzip.decompress(file.read_bytes()).splitlines(keepends=True)[0]
            file.write_bytes(gzip.compress(head + b"{}\n" * 5))
            with pytest.raises(Refused, match="读不懂"):
                await import_base(engine, file, name="新", limits=UPLOADED)

    asyncio.run(work())


def test_a_line_of_a_million_small_values_is_refused_before_it_is_in_memory(tmp_path: Path) -> None:
    """A list takes three bytes of a line, and seventy of memory."""

    async def work() -> None:
        async with opened(tmp_path) as (engine, kb):
            await engine.add_documents(kb, LIBRARY[:1])
            file = tmp_path / "base"
            await export_base(engine, kb, file)
            head = gzip.decompress(file.read_bytes()).splitlines(keepends=True)[0]
            padding = b'{"document":{},"padding":"' + random.Random(1).randbytes(100_000).hex().encode() + b'"}\n'
            for value in (b"[]", b'{"":0}', b'"ab"', b"1.5"):
                line = b'{"document":[' + b",".join([value] * 1_500_000) + b"]}\n"
                file.write_bytes(gzip.compress(head + padding + line))
                tracemalloc.start()
                with pytest.raises(Refused, match="过大"):
                    await import_base(engine, file, name="新", limits=UPLOADED)
                assert tracemalloc.get_traced_memory()[1] < 40 * MIB
                tracemalloc.stop()

    asyncio.run(work())


def test_a_file_that_cannot_be_written_or_is_not_there_is_said(tmp_path: Path) -> None:
    async def work() -> None:
        async with opened(tmp_path) as (engine, kb):
            with pytest.raises(BadInput, match="写不了"):
                await export_base(engine, kb, tmp_path / "没有" / "base")
            with pytest.raises(BadInput, match="没有文件"):
                await import_base(engine, tmp_path / "没有")

    asyncio.run(work())


def test_labels_evaluation_sets_and_the_log_come_along(tmp_path: Path) -> None:
    async def work() -> None:
        file = tmp_path / "医保.qianxun"
        async with opened(tmp_path / "one") as (engine, kb):
            await engine.add_documents(kb, LIBRARY)
            await engine.records.write(lambda tx: access.set_labels(tx, kb, ["规定"], ["group:财务"]))
            await engine.records.write(lambda tx: access.set_rule(tx, kb, "内部", ["group:员工"]))
            await Evaluations(engine).save_case(kb, "住院报销比例", doc_ids=["手册"], set_name="常问")
            await engine.retrieve(kb, "住院报销比例")
            (entry,) = await engine.logs.list()
            rated = entry.results[0][0]
            await engine.logs.rate(entry.id, Feedback("good", (rated,), "对"))
            await export_base(engine, kb, file, with_logs=True)
            without = tmp_path / "without"
            await export_base(engine, kb, without)
            assert b'"section":"logs"' not in gzip.decompress(without.read_bytes())
        async with opened(tmp_path / "two") as (engine, _):
            made = (await import_base(engine, file, name="又一个")).knowledge_base.id
            with engine.records.reading() as tx:
                (own,) = access.listed(tx, made, ["规定"])
                assert (own.labels, own.is_own) == (("group:财务",), True)
                assert [(rule.prefix, rule.labels) for rule in access.rules(tx, made)] == [("内部", ("group:员工",))]
            (found_set,) = await Evaluations(engine).sets(made)
            assert (found_set.name, found_set.cases) == ("常问", 1)
            (log,) = await engine.logs.list(knowledge_base=made)
            assert log.results[0][0] == rated.replace(f"c_{kb}_", f"c_{made}_")
            assert log.feedback == Feedback("good", (log.results[0][0],), "对")

    asyncio.run(work())


def test_a_section_of_a_later_program_is_refused(tmp_path: Path) -> None:
    async def work() -> None:
        async with opened(tmp_path / "one") as (engine, kb):
            await engine.add_documents(kb, LIBRARY[:1])
            await Evaluations(engine).save_case(kb, "住院报销比例", doc_ids=["手册"], set_name="常问")
            await export_base(engine, kb, tmp_path / "base")
            lines = gzip.decompress((tmp_path / "base").read_bytes()).split(b"\n")
            head = json.loads(lines[0])
            assert head["sections"] == {"evaluation": 1}
            lines[0] = json.dumps({**head, "sections": {"evaluation": 2}}).encode()
            (tmp_path / "later").write_bytes(gzip.compress(b"\n".join(lines)))
            with pytest.raises(Refused, match="evaluation"):
                await import_base(engine, tmp_path / "later", name="新")

    asyncio.run(work())


@pytest.mark.parametrize("seed", range(3))
def test_whatever_was_replaced_and_deleted_before_the_answers_are_those_of_the_documents_that_are_left(
    tmp_path: Path, seed: int
) -> None:
    """Of the base itself, of one restored from its export, of its index built anew, and of one that never had more."""

    async def work() -> None:
        chance = random.Random(seed)
        async with opened(tmp_path / "one") as (engine, kb):
            left: dict[str, Document] = {}
            for step in range(30):
                doc_id = f"文{chance.randrange(12)}"
                if left and chance.random() < 0.3:
                    doc_id = chance.choice(list(left))
                    await engine.delete_document(kb, doc_id)
                    del left[doc_id]
                    continue
                document = Document(doc_id, _passage(chance, step))
                await engine.add_documents(kb, [document])
                left.pop(doc_id, None)  # it comes last again
                left[doc_id] = document
            for doc_id in list(left)[:2]:  # so that the index has something dead, whatever it has merged
                await engine.delete_document(kb, doc_id)
                del left[doc_id]
            before = await found(engine, kb)
            assert all(before)
            file = tmp_path / "base"
            await export_base(engine, kb, file)
            await engine.admin.rebuild(kb)
            assert await found(engine, kb) == before
        async with opened(tmp_path / "two") as (other, fresh):
            made = await import_base(other, file, name="恢复的")
            assert await found(other, made.knowledge_base.id) == before
            await other.add_documents(fresh, list(left.values()))
            assert await found(other, fresh) == before

    asyncio.run(work())


def _passage(chance: random.Random, step: int) -> str:
    """Sentences of different lengths, which share words with the questions."""
    parts = (
        "住院报销比例为 85%。",
        "三级医院比例较低。",
        "差旅费按 650 元计。",
        "异地就医需要先备案。",
        "发票抬头写全称。",
    )
    return f"第 {step} 稿。" + "".join(chance.choices(parts, k=chance.randrange(1, 30)))


def test_a_running_service_is_backed_up_and_restored_elsewhere_with_equal_answers(tmp_path: Path) -> None:
    """While documents keep coming, the backup is of one moment; the restored base is sound and answers the same."""

    async def work() -> None:
        async with asking(tmp_path / "one") as at:
            base = await at.base(*LIBRARY)
            before = [shown(await at.engine.retrieve(base, query)) for query in QUERIES]
            coming = [Document(f"后来{number}", f"后来的第 {number} 份。") for number in range(20)]

            async def write() -> None:
                for document in coming:
                    await at.engine.add_documents(base, [document], wait=False)

            writing = asyncio.create_task(write())
            backup = await at.http.get(f"/v1/knowledge-bases/{base}/export")
            await writing
            assert (backup.status_code, backup.headers["content-type"]) == (200, "application/gzip")
            assert list((tmp_path / "one" / "uploads").iterdir()) == []
        async with asking(tmp_path / "two") as there:
            sent = {"file": ("base.qianxun", backup.content)}
            made = await there.http.post("/v1/knowledge-bases/import", files=sent, data={"name": "恢复的"})
            assert made.status_code == 201, made.text
            number = made.json()["data"]["knowledge_base_id"]
            later = [state.doc_id for state in await there.engine.documents(number) if state.doc_id.startswith("后来")]
            assert len(later) == made.json()["data"]["documents"] - len(LIBRARY)
            for doc_id in later:
                await there.engine.delete_document(number, doc_id)
            assert [shown(await there.engine.retrieve(number, query)) for query in QUERIES] == before
            assert (await there.engine.admin.verify(number)).is_clean
            cut = {"file": ("base.qianxun", backup.content[:-20])}
            assert (await there.http.post("/v1/knowledge-bases/import", files=cut)).status_code == 422
            assert len(await there.engine.knowledge_bases()) == 1

    asyncio.run(work())
