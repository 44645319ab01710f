from __future__ import annotations

import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qianxun.core.errors import BadInput, BadModelReply, HashMismatch, ModelUnavailable, NotFound
from qianxun.core.ports import EmbeddingModel
from qianxun.engine.standalone_models import EmbeddingEngine
from qianxun.models import card, open_embedding
from qianxun.models.local.embedding import LocalEmbedding, _cut
from tests.shared import BGE_SMALL, MODELS, needs_model

NAME = "bge-small-zh-v1.5"
PAIRS = [
    ("住院能报多少钱", "城镇职工基本医疗保险参保人员住院费用报销比例为百分之八十五。"),
    ("血压多高算高血压", "诊断标准为收缩压≥140mmHg或舒张压≥90mmHg。"),
    ("怎么退换商品", "自签收之日起七日内，顾客可凭发票办理无理由退货。"),
    ("汽车多久保养一次", "建议每行驶五千公里或六个月更换一次机油和机滤。"),
    ("孩子上小学要什么条件", "年满六周岁的适龄儿童应当入学接受义务教育。"),
    ("發票丟了怎麼辦", "纳税人遗失增值税专用发票的，应当登报声明作废。"),
]
TEXTS = [text for pair in PAIRS for text in pair] + ["", "ＡＢＣ１２３", "a", "长" * 300]
# The first eight numbers of two vectors. Rounding in int8 kernels differs between processors, hence the tolerance.
REFERENCE = {
    "城镇职工基本医疗保险住院费用的报销比例是多少？": [
        -0.0633, 0.0023, 0.0213, -0.0059, 0.0393, 0.0013, -0.0272, 0.0288,
    ],
    "高血压的诊断标准为收缩压≥140mmHg或舒张压≥90mmHg。": [
        -0.0492, -0.0714, 0.0572, 0.0125, -0.0510, -0.0340, -0.0477, -0.0044,
    ],
}  # fmt: skip


@pytest.fixture(scope="module")
def model() -> LocalEmbedding:
    return LocalEmbedding(NAME, BGE_SMALL)


@needs_model
def test_pinned_vectors(model: LocalEmbedding) -> None:
    vectors = model.embed_passages(list(REFERENCE))
    assert vectors[:, :8] == pytest.approx(np.array(list(REFERENCE.values())), abs=0.015)


@needs_model
def test_traditional_characters_are_read_as_simplified_ones(model: LocalEmbedding) -> None:
    """The model has seen few of them; halves of surrogate pairs, which opencc does not take, are no obstacle."""
    traditional, simplified = model.embed_passages(["發票丟了怎麼辦？\ud800 Ａ", "发票丢了怎么办？\ud800 Ａ"])
    assert np.array_equal(traditional, simplified)
    assert model.token_spans("發票丟了") == model.token_spans("发票丢了")


@needs_model
def test_rows_are_unit_vectors_in_order(model: LocalEmbedding) -> None:
    port: EmbeddingModel = model
    vectors = port.embed_passages(TEXTS)
    assert (vectors.shape, vectors.dtype) == ((len(TEXTS), 512), np.float32)
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(np.ones(len(TEXTS)), abs=1e-5)
    assert (port.name, port.dimension, port.embed_passages([]).shape) == (NAME, 512, (0, 512))


@needs_model
def test_a_question_is_nearest_to_its_own_answer(model: LocalEmbedding) -> None:
    questions = np.stack([model.embed_query(question) for question, _ in PAIRS])
    cosines = questions @ model.embed_passages([answer for _, answer in PAIRS]).T
    assert cosines.argmax(axis=1).tolist() == list(range(len(PAIRS)))
    others = cosines[~np.eye(len(PAIRS), dtype=bool)]
    assert np.diag(cosines).mean() > others.mean() + 0.15


@needs_model
def test_a_vector_depends_on_nothing_but_its_text(model: LocalEmbedding) -> None:
    together = model.embed_passages(TEXTS)
    backwards = model.embed_passages(TEXTS[::-1])[::-1]
    alone = np.stack([model.embed_query(text) for text in TEXTS])
    assert np.array_equal(together, alone)
    assert np.array_equal(backwards, alone)


@needs_model
def test_batches_of_quantised_weights_stay_close_to_the_texts_own_vectors(model: LocalEmbedding) -> None:
    batched = LocalEmbedding(NAME, BGE_SMALL, batch_size=32)
    cosines = (batched.embed_passages(TEXTS) * model.embed_passages(TEXTS)).sum(axis=1)
    assert cosines.min() > 0.93
    assert cosines.min() < 0.99999  # they do differ: this is why a batch is not the default


@needs_model
def test_the_number_of_threads_changes_nothing(model: LocalEmbedding) -> None:
    single = LocalEmbedding(NAME, BGE_SMALL, threads=1)
    assert np.array_equal(single.embed_passages(TEXTS), model.embed_passages(TEXTS))
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(model.embed_passages, [TEXTS] * 4))
    assert all(np.array_equal(result, results[0]) for result in results)


@needs_model
def test_what_lies_beyond_the_last_token_is_cut_off(model: LocalEmbedding) -> None:
    within = "医保报销" * 150  # 600 characters, 600 tokens
    vector = model.embed_query(within)
    assert np.array_equal(vector, model.embed_query(within + "完全无关的机油更换周期" * 50))
    assert np.array_equal(vector, model.embed_query(within[:510]))  # 512 tokens less [CLS] and [SEP]
    assert not np.array_equal(vector, model.embed_query(within[:509]))


@needs_model
def test_the_spans_of_tokens_say_where_they_stand(model: LocalEmbedding) -> None:
    text = "住院 ok报销"
    assert [text[start:end] for start, end in model.token_spans(text)] == ["住", "院", "ok", "报", "销"]
    assert len(model.token_spans("长" * 600)) == len(model.token_vectors(["长" * 600])[0])


@needs_model
def test_token_vectors_follow_the_tokens_of_each_text(model: LocalEmbedding) -> None:
    found = model.token_vectors(["医保报销", "", "住院"])
    assert [rows.shape for rows in found] == [(4, 512), (0, 512), (2, 512)]
    assert np.linalg.norm(np.vstack(found), axis=1) == pytest.approx(np.ones(6), abs=1e-5)
    same, other = model.token_vectors(["报销医疗费用", "更换发动机油"])
    maxsim = [float((found[0] @ rows.T).max(axis=1).sum()) for rows in (same, other)]
    assert maxsim[0] > maxsim[1]


@needs_model
def test_lone_surrogates_are_no_reason_to_fail(model: LocalEmbedding) -> None:
    assert np.array_equal(model.embed_query("医保\ud800"), model.embed_query("医保\ufffd\ufffd\ufffd"))


@needs_model
def test_a_changed_file_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / NAME
    shutil.copytree(BGE_SMALL, folder)
    weights = folder / "onnx/model_quantized.onnx"
    weights.chmod(0o644)
    with weights.open("r+b") as stream:
        stream.seek(-1, os.SEEK_END)
        last = stream.read(1)[0]
        stream.seek(-1, os.SEEK_END)
        stream.write(bytes([last ^ 1]))
    with pytest.raises(HashMismatch, match=r"model_quantized\.onnx"):
        LocalEmbedding(NAME, folder)


@needs_model
def test_a_card_that_does_not_fit_its_weights_is_refused() -> None:
    wrong = LocalEmbedding(replace(card(NAME), dimension=384), BGE_SMALL)
    with pytest.raises(BadModelReply, match="512"):
        wrong.embed_query("医保")


@needs_model
def test_mean_pooling_leaves_padding_out() -> None:
    mean = replace(card(NAME), pooling="mean")
    alone = LocalEmbedding(mean, BGE_SMALL).embed_passages(["医保报销", "长" * 100])
    padded = LocalEmbedding(mean, BGE_SMALL, batch_size=2).embed_passages(["医保报销", "长" * 100])
    assert (alone * padded).sum(axis=1).min() > 0.9
    tokens = LocalEmbedding(mean, BGE_SMALL).token_vectors(["医保报销"])[0]
    assert float(tokens.mean(axis=0) @ alone[0]) > 0.8


def test_a_missing_model_says_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(ModelUnavailable, match=f"qianxun models pull {NAME}"):
        LocalEmbedding(NAME, tmp_path)
    with pytest.raises(ModelUnavailable, match=r"qianxun models pull bge-large-zh-v1\.5"):
        EmbeddingEngine(folders=[tmp_path])
    with pytest.raises(NotFound, match=r"bge-small-zh-v1\.5"):
        open_embedding("bge-smal-zh", folders=[tmp_path])


@needs_model
def test_a_model_opens_by_alias_and_refuses_impossible_settings() -> None:
    opened = open_embedding("BAAI/bge-small-zh-v1.5", folders=[Path("nowhere"), MODELS])
    assert opened.name == NAME
    with pytest.raises(ModelUnavailable, match="device"):
        open_embedding(NAME, folders=[MODELS], device="abacus")
    with pytest.raises(BadInput):
        LocalEmbedding(NAME, BGE_SMALL, batch_size=0)


@given(
    lengths=st.lists(st.integers(0, 600), max_size=60),
    batch_size=st.integers(1, 40),
    batch_tokens=st.integers(1, 5000),
)
def test_batches_cover_every_text_once_within_their_budget(
    lengths: list[int], batch_size: int, batch_tokens: int
) -> None:
    sizes = np.array(lengths, dtype=np.intp)
    order = np.argsort(-sizes, kind="stable")
    batches = list(_cut(order, sizes, batch_size, batch_tokens))
    assert [int(position) for batch in batches for position in batch] == order.tolist()
    for batch in batches:
        padded = len(batch) * int(sizes[batch].max())
        assert len(batch) == 1 or (len(batch) <= batch_size and padded <= batch_tokens)
