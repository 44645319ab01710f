from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from qianxun.core.errors import BadInput, BadModelReply, HashMismatch, ModelUnavailable
from qianxun.core.ports import RerankModel
from qianxun.models import open_reranker, pull
from qianxun.models.local.cross_encoder import CrossEncoder
from qianxun.models.local.download_sources import LocalFolder
from tests.models.tiny_cross_encoder import any_reranker, logit, write_cross_encoder

QUERY = "住院报销"
PASSAGES = ["住院费用的报销比例", "门诊", "报销报销报销", "", "机油更换周期", "住", "乙醇Ａ\ud800", "\u3000\n"]
CARD = any_reranker()


def expected(passages: Sequence[str] = PASSAGES, query: str = QUERY) -> list[float]:
    return [1 / (1 + math.exp(-logit(query, passage))) if passage.strip() else 0.0 for passage in passages]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model home into which the tiny cross-encoder was pulled under the name of an unpinned card."""
    offered = write_cross_encoder(tmp_path_factory.mktemp("offered"), CARD)
    into = tmp_path_factory.mktemp("home")
    pull(CARD.name, into, sources=(LocalFolder(offered),), accept_unpinned=True)
    return into


@pytest.fixture(scope="module")
def model(home: Path) -> RerankModel:
    return open_reranker("BAAI/bge-reranker-base", folders=[home])


def test_the_score_is_the_sigmoid_of_the_logit_in_order(model: RerankModel) -> None:
    assert model.score(QUERY, PASSAGES) == pytest.approx(expected(), abs=1e-6)
    assert (model.name, model.share) == ("bge-reranker-base", 1.0)
    assert model.score(QUERY, []) == []
    assert model.score(" \n", PASSAGES) == [0.0] * len(PASSAGES)


def test_a_score_depends_on_its_pair_alone(model: RerankModel, home: Path) -> None:
    together = model.score(QUERY, PASSAGES)
    assert together == [model.score(QUERY, [passage])[0] for passage in PASSAGES]
    assert together == model.score(QUERY, PASSAGES[::-1])[::-1]
    assert together == open_reranker(CARD, folders=[home], threads=1).score(QUERY, PASSAGES)
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda _: model.score(QUERY, PASSAGES), range(8))) == [together] * 8


def test_the_passage_is_cut_and_the_query_is_kept(home: Path) -> None:
    short = CrossEncoder(replace(CARD, max_tokens=16), home / CARD.name)  # 13 letters beside [CLS], [SEP] and [SEP]
    within = "门门门门门门门门销"
    assert short.score(QUERY, [within]) == pytest.approx(expected([within]))
    assert short.score(QUERY, [within + "住院报销"]) == short.score(QUERY, [within])
    assert short.score(QUERY, ["门" + within]) == pytest.approx(expected(["门" * 9]))
    endless = "住" * 9 + "院" * 1000  # three quarters of the room, and the passage still has its four
    assert short.score(endless, ["院院院住住"]) == pytest.approx(expected(["院院院住"], "住" * 9))


def test_stop_is_asked_between_slices(home: Path) -> None:
    single = CrossEncoder(CARD, home / CARD.name, threads=1)
    asked: list[int] = []

    def stop() -> bool:
        asked.append(1)
        return len(asked) == 3

    with pytest.raises(ModelUnavailable, match="时限"):
        single.score(QUERY, ["住"] * 50, stop)
    assert len(asked) == 3


def test_weights_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    two = write_cross_encoder(tmp_path / "two", CARD, outputs=2)
    nothing = write_cross_encoder(tmp_path / "nan", CARD, weight=math.nan)
    for folder in (two, nothing):
        pull(CARD, tmp_path / "home" / folder.name, sources=(LocalFolder(folder),), accept_unpinned=True)
        with pytest.raises(BadModelReply):
            CrossEncoder(CARD, tmp_path / "home" / folder.name / CARD.name).score(QUERY, ["住"])


@pytest.mark.parametrize("file", [CARD.weights.path, CARD.tokenizer.path])
def test_files_that_are_rubbish_cannot_be_opened(file: str, tmp_path: Path) -> None:
    offered = write_cross_encoder(tmp_path / "offered", CARD)
    (offered / file).write_bytes(b"<html>login</html>")
    pull(CARD, tmp_path / "home", sources=(LocalFolder(offered),), accept_unpinned=True)
    with pytest.raises(ModelUnavailable, match="打不开"):
        CrossEncoder(CARD, tmp_path / "home" / CARD.name)


def test_unpinned_weights_are_refused_until_accepted_and_once_changed(tmp_path: Path) -> None:
    offered = write_cross_encoder(tmp_path / "offered", CARD)
    with pytest.raises(BadInput, match="--accept-unpinned"):
        pull(CARD, tmp_path / "home", sources=(LocalFolder(offered),))
    with pytest.raises(HashMismatch, match="--accept-unpinned"):
        CrossEncoder(CARD, offered)
    folder = pull(CARD, tmp_path / "home", sources=(LocalFolder(offered),), accept_unpinned=True)
    write_cross_encoder(folder, CARD, weight=2.0)
    with pytest.raises(HashMismatch):
        CrossEncoder(CARD, folder)


def test_a_missing_model_says_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(ModelUnavailable, match="qianxun models pull bge-reranker-large --accept-unpinned"):
        open_reranker("BAAI/bge-reranker-large", folders=[tmp_path])
