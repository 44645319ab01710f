"""Every replica searches and writes; what one changes the others know."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from alembic.script import ScriptDirectory

from qianxun import Document, Engine
from qianxun.core.errors import BadSettings, FolderInUse, NotFound
from qianxun.records import Records, bases
from qianxun.records.database import open as open_module
from tests.replicas.engines import found, replicas, settings
from tests.sampling import share


def test_what_one_has_written_every_one_finds_and_what_one_has_deleted_none_does(
    tmp_path: Path, postgres_url: str
) -> None:
    async def story() -> None:
        async with replicas(tmp_path, postgres_url, 3) as (one, two, three):
            base = (await one.create_knowledge_base("医保")).id
            await one.add_documents(base, [Document("甲", "住院费用报销比例为百分之八十五。")])
            await two.add_documents(base, [Document("乙", "门诊费用不予报销。")])
            for engine in (one, two, three):
                assert await found(engine, base, "费用报销") == {"甲", "乙"}
            await three.delete_document(base, "甲")
            await two.add_documents(base, [Document("乙", "门诊费用报销一半。")])
            for engine in (one, two, three):
                recall = await engine.retrieve(base, "费用报销")
                assert [result.chunk.text for result in recall.results] == ["门诊费用报销一半。"]
            assert (await one.admin.verify(base)).is_clean

    asyncio.run(story())


def test_writers_on_all_replicas_at_once_lose_nothing(tmp_path: Path, postgres_url: str) -> None:
    async def story() -> None:
        async with replicas(tmp_path, postgres_url, 3, background=True) as engines:
            base, rounds = (await engines[0].create_knowledge_base("并写")).id, share(6, 3)

            async def write(engine: Engine, writer: int) -> None:
                for at in range(rounds):
                    await engine.add_documents(base, [Document(f"{writer}-{at}", f"第 {writer} 位写的第 {at} 篇。")])
                    assert f"{writer}-{at}" in await found(
                        engines[(writer + 1) % 3], base, f"第 {writer} 位写的第 {at} 篇"
                    )

            await asyncio.gather(*(write(engine, at) for at, engine in enumerate(engines)))
            assert (await engines[1].statistics(base))["indexed"] == 3 * rounds
            assert (await engines[2].admin.verify(base)).is_clean

    asyncio.run(story())


def test_settings_are_followed_and_a_dictionary_reaches_the_index_of_all(tmp_path: Path, postgres_url: str) -> None:
    async def story() -> None:
        async with replicas(tmp_path, postgres_url) as (one, two):
            base = (await one.create_knowledge_base("医保")).id
            await one.add_documents(base, [Document("甲", "鲲鹏计划的申请条件。")])
            assert await found(two, base, "申请条件") == {"甲"}
            await one.configure(base, {"search.top_k": 3, "dictionary": ["鲲鹏计划"]})
            assert await found(two, base, "鲲鹏计划") == {"甲"}
            opened = await two.base(base)
            assert opened.about.config["search"]["top_k"] == 3
            assert opened.analyser.version == (await one.base(base)).analyser.version == opened.index.stamp.analysis
            await two.add_documents(base, [Document("乙", "鲲鹏计划的截止日期。")])
            assert await found(one, base, "鲲鹏计划") == {"甲", "乙"}
            await two.rename(base, "社保")
            assert (await one.base(base)).about.name == "社保"
            await two.admin.rebuild(base, model="none")
            assert (await one.base(base)).model is None
            recall = await one.retrieve(base, "鲲鹏计划")
            assert {result.chunk.doc_id for result in recall.results} == {"甲", "乙"}
            assert [missing.part for missing in recall.degraded] == ["vector"]

    asyncio.run(story())


def test_a_base_that_one_deletes_is_gone_for_all(tmp_path: Path, postgres_url: str) -> None:
    async def story() -> None:
        async with replicas(tmp_path, postgres_url) as (one, two):
            base = (await one.create_knowledge_base("医保")).id
            await one.add_documents(base, [Document("甲", "住院费用。")])
            assert await found(two, base, "住院费用") == {"甲"}
            await one.delete_knowledge_base(base)
            with pytest.raises(NotFound):
                await two.retrieve(base, "住院费用")
            moved = (await two.create_knowledge_base("医保")).id
            await one.base(moved)
            await two.admin.move(moved, "别家")
            with pytest.raises(NotFound):
                await one.retrieve(moved, "住院费用")
            assert (await one.of("别家").base(moved)).about.tenant == "别家"

    asyncio.run(story())


def test_an_index_in_a_folder_belongs_to_one_engine_and_the_hint_says_what_to_set(
    tmp_path: Path, postgres_url: str
) -> None:
    async def story() -> None:
        async with replicas(tmp_path / "shared", postgres_url, 1):
            alone = settings(tmp_path / "alone", postgres_url, **{"index.backend": "embedded"})
            with pytest.raises(FolderInUse) as refused:
                async with Engine.open(settings=alone, background=False):
                    pass
            assert "index.backend" in refused.value.hint
        async with Engine.open(settings=alone, background=False):
            with pytest.raises(FolderInUse, match="始于"):
                async with replicas(tmp_path / "shared", postgres_url, 1):
                    pass

    asyncio.run(story())


def test_a_program_goes_on_over_tables_one_version_newer_if_they_say_that_it_may(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def migrated_by_newer(compatible: tuple[str, ...]) -> None:
        """As a newer program leaves it, whose own migrations are not known here."""
        engine = open_module.connect(postgres_url)
        monkeypatch.setattr(open_module, "COMPATIBLE", compatible)
        with engine.begin() as tx:
            tx.exec_driver_sql(f"UPDATE alembic_version SET version_num = '{previous}'")
        with monkeypatch.context() as patch:
            patch.setattr(open_module, "HEAD", "newer")
            open_module.migrate(engine)
        with engine.begin() as tx:
            tx.exec_driver_sql("ALTER TABLE documents ADD COLUMN IF NOT EXISTS extra_of_newer integer")
            tx.exec_driver_sql("UPDATE alembic_version SET version_num = 'newer'")
        engine.dispose()

    Records.open(postgres_url).close()
    head = open_module.HEAD
    previous = ScriptDirectory(str(open_module.MIGRATIONS)).get_revision(head).down_revision
    open_module.downgrade(engine := open_module.connect(postgres_url), str(previous))
    engine.dispose()
    migrated_by_newer((head,))
    beside = Records.open(postgres_url, together=True)
    with beside.writing() as tx:
        bases.create(tx, "新旧同在", tenant="local")
    beside.close()
    with (engine := open_module.connect(postgres_url)).begin() as tx:
        tx.exec_driver_sql("DELETE FROM schema_readers")
    engine.dispose()
    with pytest.raises(BadSettings, match="newer"):
        Records.open(postgres_url, together=True)
