from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from qianxun.core.types import Document, Ranking
from qianxun.engine.engine import Engine
from qianxun.engine.settings import Settings, Vectorization
from qianxun.rank.codes import MOST_HOLDERS, NO_CODES, CodeHolders, codes_in
from qianxun.text.chinese import analyse_query
from tests.shared import MODELS, needs_model


@pytest.mark.parametrize(
    ("question", "codes"),
    [
        ("QH-2087 多少钱", ("qh-2087",)),
        ("A310和A320的区别", ("a310", "a320")),
        ("V2.3.1 更新了什么", ("v2.3.1",)),  # not its part v2
        ("不少于 56000 元的有几家", ()),  # an amount
        ("2019年的收入", ()),
        ("HEPA滤网多久更换一次", ()),
        ("年假有多少天", ()),
        ("Who was the 4th Baron in the 1950s with a 4-letter name?", ()),
    ],
)
def test_a_code_has_letters_and_digits(question: str, codes: tuple[str, ...]) -> None:
    assert codes_in(analyse_query(question).words) == codes


def test_a_chunk_with_the_code_is_as_good_as_words_can_be() -> None:
    words = Ranking.of([(1, 0.4), (2, 0.3), (3, 0.1)], 10.0)
    lifted = CodeHolders((frozenset({3}),)).lifted(words)
    assert lifted.hits == ((3, 1.0), (1, 0.4), (2, 0.3))


def test_of_two_codes_each_is_half() -> None:
    holders = CodeHolders((frozenset({3}), frozenset({2, 3})))
    assert [holders.share(key) for key in (1, 2, 3)] == [0.0, 0.5, 1.0]
    lifted = holders.lifted(Ranking.of([(1, 0.4), (2, 0.3), (3, 0.1)]))
    assert lifted.hits == ((3, 1.0), (2, 0.3 + 0.7 / 2), (1, 0.4))


def test_a_code_that_is_nowhere_or_everywhere_lifts_nothing() -> None:
    assert not CodeHolders((frozenset(),)).is_distinctive
    assert not CodeHolders((frozenset(range(MOST_HOLDERS + 1)),)).is_distinctive
    assert CodeHolders((frozenset(),)).share(1) == 0.0
    assert NO_CODES.share(1) is None


@needs_model
def test_an_exact_code_is_found_first_and_is_sure(tmp_path: Path) -> None:
    """The one passage that has it comes before all that are nearer in meaning; one that nobody has makes none sure."""
    goods = [
        "升降书桌",
        "复印纸",
        "中性笔",
        "白板笔",
        "人体工学椅",
        "显示器支架",
        "文件柜",
        "碎纸机",
        "投影仪",
        "饮水机",
    ]
    lines = [f"价目：{name}单价 {10 + at} 元，多少钱一件以此为准。" for at, name in enumerate(goods)]
    documents = [Document(f"d{at}", line) for at, line in enumerate(lines)]
    documents.append(Document("code", "仓库三号货架存放 QH-2087 共九张，由后勤部领取登记。"))

    async def searched() -> dict[str, tuple[str, float, int]]:
        settings = Settings(data=str(tmp_path), vectorization=Vectorization(model_folders=(str(MODELS),)))
        async with Engine.open(settings=settings, background=False) as engine:
            base = await engine.create_knowledge_base("价目", model="bge-small-zh-v1.5")
            await engine.add_documents(base.id, documents)
            found = {}
            for query in ("QH-2087 多少钱", "QH-9999 多少钱"):
                recall = await engine.retrieve(base.id, query)
                sure = await engine.retrieve(base.id, query, threshold=0.6)
                found[query] = (recall.results[0].chunk.doc_id, recall.results[0].score, len(sure.results))
            return found

    found = asyncio.run(searched())
    assert found["QH-2087 多少钱"][0] == "code"
    assert found["QH-2087 多少钱"][2] == 1
    assert found["QH-9999 多少钱"][1] < 0.2
