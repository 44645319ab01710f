"""A data folder to PostgreSQL and back: the same rows under the same keys, and the same answers from both."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import Table, insert, inspect, select, update

from qianxun.core.errors import AlreadyThere, BadInput
from qianxun.core.governance.quotas import Quota
from qianxun.core.graph_types import Alias
from qianxun.core.log_types import Feedback
from qianxun.core.model_types import NewModel
from qianxun.core.types import Document, QAPair
from qianxun.doors.cli import main
from qianxun.engine.admin.copy import OF_PROCESSES, OWN_COUNTERS, copy_records, count_rows
from qianxun.engine.admin.evaluation_sets import Evaluations
from qianxun.engine.engine import Engine
from qianxun.engine.example_library import insert_greeting_examples, insert_qa_examples
from qianxun.engine.settings import Settings, load
from qianxun.examples.schema import models
from qianxun.records import Records, bases, graph
from qianxun.records.database.open import sqlite_url
from qianxun.records.schema import Base, ChunkRow, DocumentRow, SearchCountRow, TermRow, UserModelRow
from qianxun.records.secrets import keys
from qianxun.records.secrets.sealing import Sealing
from qianxun.testing.scripted import HashEmbedding

MODEL = HashEmbedding()
MODELS = {MODEL.name: MODEL}
SECRET = "sk-0123456789abcdef0123"
TABLE = "# 价目\n\n| 编号 | 品名 | 单价 |\n|---|---|---|\n| QH-1 | 升降书桌 | 2199 |\n| QH-2 | 复印纸 | 22.5 |\n"


def settings_of(folder: Path, url: str = "") -> Settings:
    return load(environment={}, arguments={"data": str(folder), "records.url": url or None}, folder=folder.parent)


async def fill(settings: Settings) -> None:
    """Something in every table."""
    async with Engine.open(settings=settings, models=MODELS, background=False) as engine:
        base = await engine.create_knowledge_base("手册", model=MODEL.name)
        batch = [
            Document(
                f"d{n}",
                f"第 {n} 条：参保人员住院报销比例为 {n}%。😀",
                metadata={"年份": 2000 + n, "标签": ("甲", "乙")},
            )
            for n in range(30)
        ]
        since = {"valid_from": "2020-01-01"}
        asked = Document(
            "问答", "年休假为 7 天。", pairs=(QAPair("能休息几天", "7 天"),), tags=("假期",), metadata=since
        )
        await engine.add_documents(base.id, [*batch, asked, Document("表", TABLE, format="markdown")])
        await engine.add_documents(base.id, [Document("d0", "改过的第一条，住院报销 99%。")])
        await engine.delete_document(base.id, "d1")
        await engine.governance.webhooks.add("https://example.com/hook", ["document.deleted"])
        await engine.governance.receipts.delete(base.id, ["d3"])
        await engine.governance.corrections.add(base.id, "rename", doc_id="d4", name="第四条")
        await engine.governance.quotas.set(Quota(documents=1_000))
        await engine.add_documents(base.id, [Document("等待", "还没有进入索引的一篇。")], wait=False)
        await engine.retrieve(base.id, "住院报销比例")
        (entry,) = await engine.logs.list()
        await engine.logs.rate(entry.id, Feedback("good", comment="对"))
        handler = await engine.events(base.id)
        told = {"event_id": "e1", "document_id": "d2", "generation": 9, "content": "事件带来的一条。", "name": "d2"}
        await handler.handle_document_updated(told)
        await engine.registry.add("7", NewModel("我的", "https://example.com/v1", "bge", "rerank", api_key=SECRET))
        await engine.admin.build_graph(base.id)
        await engine.governance.access.set_rule(base.id, "机密", ["role:主管"])
        await engine.governance.access.set(base.id, ["问答"], ["group:人事", "user:张三"])
        labelled = Evaluations(engine)
        await labelled.save_case(base.id, "能休息几天", doc_ids=["问答"])
        (saved,) = await labelled.sets(base.id)
        await labelled.measure(saved.id, "hybrid")
        other = await engine.of("乙").create_knowledge_base("别人的", model="none")
        await engine.of("乙").add_documents(other.id, [Document("d", "别人的一条。")])
        with engine.records.writing() as tx:
            keys.create(tx, "local", "write", "报表")
            graph.add_alias(tx, base.id, Alias("住院报销", "报销", details={"谁": "甲"}))
            graph.store_summaries(tx, base.id, "m", [graph.Summary("c_1", "报销", "住院可以报销。😀")])
            tx.execute(insert(SearchCountRow).values(tenant="local", second=1_740_000_000, searches=3))
            vector = np.ones(64, dtype="<f4").tobytes()
            if not tx.execute(select(TermRow.term)).first():
                row = {"knowledge_base_id": base.id, "model": MODEL.name, "term": "住院", "vector": vector}
                tx.execute(insert(TermRow).values(row))


def add_examples(settings: Settings) -> None:
    records = Records.open(sqlite_url(settings.folder / "qianxun.db"))
    with records.writing() as tx:
        told = [
            {"user_input": f"怎么办理 {n}", "agent_response": "带身份证", "tags": ["办事", "证件"]} for n in range(12)
        ]
        insert_qa_examples(told, tx, MODEL)
        insert_greeting_examples([{"user_input": "你好", "agent_response": "您好！"}], tx, MODEL)
    records.close()


def rows(records: Records, tables: list[Table]) -> dict[str, list[tuple[str, ...]]]:
    with records.reading() as tx:
        found = {}
        for table in tables:
            held = [tuple(map(repr, row)) for row in tx.execute(select(table).order_by(*table.primary_key))]
            found[table.name] = [row for row in held if not (table.name == "counters" and eval(row[0]) in OWN_COUNTERS)]
        return found


ALL = [*Base.metadata.sorted_tables, *models(dimension=64).metadata.sorted_tables]


async def answers(settings: Settings) -> list[Any]:
    async with Engine.open(settings=settings, models=MODELS, background=False) as engine:
        (base,) = await engine.knowledge_bases()
        await engine.drain(base.id)
        assert (await engine.admin.verify(base.id)).is_clean
        await engine.admin.rebuild(base.id)  # one that grew by and by counts what is gone among its words
        states = [asdict(state) | {"updated_at": ""} for state in await engine.documents(base.id)]
        told: list[Any] = [states]
        for asked in ("住院报销比例", "升降书桌多少钱", "能休息几天"):
            found = (await engine.retrieve(base.id, asked, top_k=20)).found
            told.append([(each.chunk.chunk_id, each.chunk.key, round(each.score, 6)) for each in found])
        told.append((await engine.graph(base.id)).entities)
        with engine.records.reading() as tx:
            sealed = tx.execute(select(UserModelRow.sealed_key)).scalar_one()
        assert Sealing("", settings.folder / "secret.key").open(sealed, ("user_models", "local", "1")) == SECRET
        return told


def test_a_folder_goes_to_postgresql_and_back_unchanged(
    tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, back = tmp_path / "data", tmp_path / "back"
    asyncio.run(fill(settings_of(folder)))
    add_examples(settings_of(folder))
    original = Records.open(sqlite_url(folder / "qianxun.db"))
    expected = rows(original, ALL)
    original.close()
    empty = {"gd2502_record_examples", "gd2502_query_examples", *(table.name for table in OF_PROCESSES)}
    assert {name for name, held in expected.items() if not held} == empty

    monkeypatch.setenv("QIANXUN_COPY_TO", postgres_url)
    assert main(["--data", str(folder), "copy"]) == 0
    told = capsys.readouterr()
    assert "一致" in told.out
    monkeypatch.delenv("QIANXUN_COPY_TO")
    moved = Records.open(postgres_url)
    assert rows(moved, ALL) == expected
    with moved.writing() as tx:  # numbers go on where they were
        assert insert_qa_examples([{"user_input": "新的", "agent_response": "一条"}], tx, MODEL) == 1
        tx.rollback()
    moved.close()

    monkeypatch.setenv("QIANXUN_RECORDS_URL", postgres_url)
    assert main(["--data", str(folder), "copy", "--to", str(back)]) == 0
    monkeypatch.delenv("QIANXUN_RECORDS_URL")
    returned = Records.open(sqlite_url(back / "qianxun.db"))
    assert rows(returned, ALL) == expected
    returned.close()
    assert (back / "secret.key").read_bytes() == (folder / "secret.key").read_bytes()
    assert (back / "secret.key").stat().st_mode & 0o077 == 0

    on_server = asyncio.run(answers(settings_of(folder, postgres_url)))
    assert on_server == asyncio.run(answers(settings_of(folder))) == asyncio.run(answers(settings_of(back)))


def test_a_folder_goes_to_mysql_and_back_unchanged(
    tmp_path: Path, mysql_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a library of examples, which MySQL does not take: with one nothing is copied."""
    folder, back = tmp_path / "data", tmp_path / "back"
    asyncio.run(fill(settings_of(folder)))
    own = Base.metadata.sorted_tables
    original = Records.open(sqlite_url(folder / "qianxun.db"))
    expected = rows(original, own)
    original.close()
    monkeypatch.setenv("QIANXUN_COPY_TO", mysql_url)
    assert main(["--data", str(folder), "copy"]) == 0
    monkeypatch.delenv("QIANXUN_COPY_TO")
    moved = Records.open(mysql_url)
    assert rows(moved, own) == expected
    moved.close()
    assert main(["--data", str(tmp_path / "away"), "copy", "--to", mysql_url]) != 0  # it has something in it by now
    monkeypatch.setenv("QIANXUN_RECORDS_URL", mysql_url)
    assert main(["--data", str(folder), "copy", "--to", str(back)]) == 0
    monkeypatch.delenv("QIANXUN_RECORDS_URL")
    returned = Records.open(sqlite_url(back / "qianxun.db"))
    assert rows(returned, own) == expected
    returned.close()
    capsys.readouterr()
    assert asyncio.run(answers(settings_of(folder, mysql_url))) == asyncio.run(answers(settings_of(back)))


def test_a_library_of_examples_does_not_go_to_mysql_and_nothing_else_either(
    tmp_path: Path, migrated_mysql_url: str
) -> None:
    settings = settings_of(tmp_path / "data")
    asyncio.run(fill(settings))
    add_examples(settings)
    source, target = Records.open(sqlite_url(settings.folder / "qianxun.db")), Records.open(migrated_mysql_url)
    with pytest.raises(BadInput, match="示例库"):
        copy_records(source, target, lambda _: None)
    with target.reading() as tx:
        assert tx.execute(select(DocumentRow.key)).all() == []
    source.close()
    target.close()


def test_a_target_that_has_something_in_it_is_left_alone(tmp_path: Path, migrated_postgres_url: str) -> None:
    source = Records.open(sqlite_url(tmp_path / "source.db"))
    target = Records.open(migrated_postgres_url, alone=True)
    for records, name in ((source, "来的"), (target, "原有的")):
        with records.writing() as tx:
            bases.create(tx, name, tenant="甲")
    with pytest.raises(AlreadyThere, match="knowledge_bases"):
        copy_records(source, target, lambda _: None)
    with target.reading() as tx:
        assert [base.name for base in bases.across_tenants(tx)] == ["原有的"]
    source.close()
    target.close()


def test_what_the_target_cannot_hold_undoes_everything(tmp_path: Path, migrated_postgres_url: str) -> None:
    asyncio.run(fill(settings_of(tmp_path / "data")))
    source = Records.open(sqlite_url(tmp_path / "data" / "qianxun.db"))
    with source.writing() as tx:
        tx.execute(update(ChunkRow).where(ChunkRow.position == 0).values(text="空字符\x00"))
    target = Records.open(migrated_postgres_url, alone=True)
    with pytest.raises(BadInput, match="chunks"):
        copy_records(source, target, lambda _: None)
    with target.reading() as tx:
        for table in Base.metadata.sorted_tables:
            held = tx.execute(select(table)).all()
            assert not held or {row.name for row in held} <= set(OWN_COUNTERS), table.name
    source.close()
    target.close()


def test_a_copy_that_breaks_off_leaves_nothing(tmp_path: Path, migrated_postgres_url: str) -> None:
    asyncio.run(fill(settings_of(tmp_path / "data")))
    source, target = Records.open(sqlite_url(tmp_path / "data" / "qianxun.db")), Records.open(migrated_postgres_url)
    total, seen = count_rows(source), []

    def stop(count: int) -> None:
        seen.append(count)
        if sum(seen) > total // 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        copy_records(source, target, stop)
    with target.reading() as tx:
        assert tx.execute(select(DocumentRow.key)).all() == []
    assert sum(copy_records(source, target, lambda _: None).values()) == total
    source.close()
    target.close()


def test_every_table_of_the_models_is_copied(tmp_path: Path) -> None:
    """A table that somebody adds tomorrow comes along without a word here."""
    source, target = (Records.open(sqlite_url(tmp_path / name)) for name in ("one.db", "two.db"))
    copied = copy_records(source, target, lambda _: None)
    own = {"alembic_version", *(table.name for table in OF_PROCESSES)}  # of the database itself
    assert set(copied) == set(inspect(source.engine).get_table_names()) - own
    source.close()
    target.close()


def test_migrate_says_what_is_missing_and_makes_it(
    tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("QIANXUN_RECORDS_URL", postgres_url)
    data = ["--data", str(tmp_path / "data")]
    assert main([*data, "migrate", "--check"]) == 1
    assert "0001" in capsys.readouterr().out
    assert main([*data, "migrate"]) == 0
    assert "0001" in capsys.readouterr().out
    assert main([*data, "migrate", "--check", "--json"]) == 0
    assert '"missing": []' in capsys.readouterr().out
    monkeypatch.delenv("QIANXUN_RECORDS_URL")
    assert main([*data, "migrate"]) == 2  # nothing there, and nothing is made
    assert not (tmp_path / "data").exists()


def test_doctor_and_errors_of_the_command_line_never_show_the_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    secret = "s3cret-of-the-database"
    monkeypatch.setenv("QIANXUN_RECORDS_URL", f"postgresql://u:{secret}@127.0.0.1:1/d?password={secret}")
    for command in (["doctor"], ["doctor", "--json"], ["--verbose", "kb", "list"], ["migrate"], ["keys", "list"]):
        main(["--data", str(tmp_path / "data"), *command])
        told = capsys.readouterr()
        assert secret not in told.out + told.err, command
        assert "127.0.0.1" in told.out + told.err or "连不上" in told.out + told.err
    assert secret not in repr(load(environment={"QIANXUN_RECORDS_URL": f"postgresql://u:{secret}@h/d"}))
