"""The seed's adapter: one call, six modes."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace

import pytest

from qianxun import RAGAnythingAdapter
from qianxun.core.errors import BadInput, BadSettings, FolderInUse
from qianxun.core.options import QUERY_MODES
from qianxun.doors.frameworks.rag_anything import AdapterConfig, read_config
from qianxun.engine.engine import Engine
from tests.frameworks.material import filled


def test_every_mode_answers(tmp_path: Path) -> None:
    async def main() -> None:
        async with Engine.open(tmp_path, background=False) as engine:
            await filled(engine)
            adapter = RAGAnythingAdapter({"engine": engine, "graph_id": "graph-123"})
            for mode in QUERY_MODES:
                for query in ("测试查询", "糖尿病的主要症状是什么？"):
                    result = await adapter.query(query, mode=mode)
                    assert result.answer
                    assert "[1]" in result.answer or not result.sources
            assert (await adapter.query("糖尿病的主要症状是什么？")).mode == "mix"
            await adapter.aclose()
            assert (await engine.knowledge_base("graph-123")).name == "graph-123"  # another's engine stays open

    asyncio.run(main())


def test_a_folder_is_opened_on_first_use_and_let_go(tmp_path: Path) -> None:
    async def main() -> None:
        async with Engine.open(tmp_path, background=False) as engine:
            await filled(engine)
        async with RAGAnythingAdapter({"working_dir": str(tmp_path), "graph_id": "graph-123", "top_k": 3}) as adapter:
            told = await asyncio.gather(*(adapter.query("胰岛素是什么", mode="local") for _ in range(3)))
            assert len({each.answer for each in told}) == 1
        async with Engine.open(tmp_path, background=False) as engine:
            assert len(await engine.knowledge_bases()) == 1

    asyncio.run(main())


def test_adapters_of_one_folder_share_it_until_the_last_is_closed(tmp_path: Path) -> None:
    async def main() -> None:
        async with Engine.open(tmp_path, background=False) as engine:
            await filled(engine)
        first = RAGAnythingAdapter({"working_dir": tmp_path / "x" / "..", "graph_id": "graph-123"})
        async with RAGAnythingAdapter(str(tmp_path)) as second:
            told = await asyncio.gather(*(each.query("胰岛素是什么", mode="local") for each in (first, second)))
            assert told[0].answer == told[1].answer
            await first.aclose()
            await first.aclose()  # gives back no more than it took
            assert (await second.query("胰岛素是什么", mode="local")).answer == told[0].answer
        async with Engine.open(tmp_path, background=False):
            pass

    asyncio.run(main())


def test_a_folder_that_could_not_be_opened_is_tried_again(tmp_path: Path) -> None:
    async def main() -> None:
        adapter = RAGAnythingAdapter(tmp_path)
        async with Engine.open(tmp_path, background=False) as engine:
            await filled(engine)
            with pytest.raises(FolderInUse, match="本进程") as told:
                await adapter.query("胰岛素是什么")
            assert "RAGAnythingAdapter(engine)" in told.value.hint
        async with adapter:
            assert (await adapter.query("胰岛素是什么")).answer

    asyncio.run(main())


def test_whoever_gives_up_while_a_folder_is_opened_does_not_keep_it(tmp_path: Path) -> None:
    async def main() -> None:
        adapter = RAGAnythingAdapter(tmp_path)
        entering = asyncio.create_task(adapter.__aenter__())
        await asyncio.sleep(0)
        entering.cancel()
        with pytest.raises(asyncio.CancelledError):
            await entering
        await adapter.aclose()
        await _opens(tmp_path)

    asyncio.run(main())


async def _opens(folder: Path) -> None:
    """The folder is let go some time after it was open: more of it than any machine takes is a leak."""
    for _ in range(300):
        try:
            async with Engine.open(folder, background=False):
                return
        except FolderInUse:
            await asyncio.sleep(0.1)
    pytest.fail("the folder is still open")


def test_one_loop_after_another_and_without_closing(tmp_path: Path) -> None:
    async def fill() -> None:
        async with Engine.open(tmp_path, background=False) as engine:
            await filled(engine)

    asyncio.run(fill())
    adapter = RAGAnythingAdapter(tmp_path)
    told = [asyncio.run(adapter.query("胰岛素是什么", mode="local")).answer for _ in range(2)]
    assert told[0] == told[1]

    async def closed() -> str:
        first = await adapter.query("胰岛素是什么", mode="local")
        await adapter.aclose()
        assert (await adapter.query("胰岛素是什么", mode="local")).answer == first.answer  # opened again
        return first.answer

    assert asyncio.run(closed()) == told[0]


def test_two_loops_at_once_are_refused(tmp_path: Path) -> None:
    adapter = RAGAnythingAdapter(tmp_path)

    async def main() -> None:
        async with adapter:
            with pytest.raises(BadInput, match="另一个事件循环"):
                await asyncio.to_thread(lambda: asyncio.run(adapter.query("胰岛素")))

    asyncio.run(main())


def test_what_a_configuration_may_be(tmp_path: Path) -> None:
    expected = AdapterConfig(working_dir=str(tmp_path))
    for given in (expected, str(tmp_path), {"data": str(tmp_path)}, SimpleNamespace(working_dir=str(tmp_path))):
        assert read_config(given) == expected
    assert read_config(None) == AdapterConfig()
    with pytest.raises(BadSettings, match=r"parser.*working_dir"):
        read_config({"parser": "mineru"})
    with pytest.raises(BadSettings, match="working_dir"):
        read_config(7)
