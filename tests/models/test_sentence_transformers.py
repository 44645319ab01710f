from __future__ import annotations

import importlib.util
import json
import warnings
from pathlib import Path

import numpy as np
import pytest

from qianxun.core.errors import MissingExtra, ModelUnavailable
from qianxun.models import open_embedding
from qianxun.models.local.sentence_transformers import SentenceEmbedding

PRESENT = importlib.util.find_spec("sentence_transformers") is not None
needs_package = pytest.mark.skipif(not PRESENT, reason="the sentence-transformers extra is not installed")


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random BERT of a few kilobytes, saved as sentence-transformers saves its models."""
    import torch
    from sentence_transformers import SentenceTransformer, models
    from transformers import BertConfig, BertModel, BertTokenizerFast

    folder = tmp_path_factory.mktemp("bert")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"医保报销比例住院门诊发票"]
    (folder / "vocab.txt").write_text("\n".join(words), encoding="utf-8")
    torch.manual_seed(0)
    shape = BertConfig(
        vocab_size=len(words), hidden_size=24, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32
    )
    BertModel(shape).save_pretrained(folder)
    BertTokenizerFast(str(folder / "vocab.txt")).save_pretrained(folder)
    word = models.Transformer(str(folder))
    whole = SentenceTransformer(modules=[word, models.Pooling(24, pooling_mode="mean")], device="cpu")
    whole.save(str(folder / "whole"))
    assert json.loads((folder / "whole/modules.json").read_text())
    return folder / "whole"


@needs_package
@pytest.mark.filterwarnings("ignore")
def test_a_model_in_a_folder_gives_unit_rows_in_order(tiny: Path) -> None:
    model = SentenceEmbedding(str(tiny), local_files_only=True)
    texts = ["医保报销", "", "住院门诊发票", "\ud800"]
    vectors = model.embed_passages(texts)
    assert (vectors.shape, model.dimension, model.embed_passages([]).shape) == ((4, 24), 24, (0, 24))
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(np.ones(4), abs=1e-5)
    assert model.embed_query(texts[2]) == pytest.approx(vectors[2], abs=1e-5)
    assert open_embedding(f"sentence-transformers:{tiny}").dimension == 24


@needs_package
@pytest.mark.filterwarnings("ignore")
def test_a_folder_without_a_model_is_unavailable(tmp_path: Path) -> None:
    with warnings.catch_warnings(), pytest.raises(ModelUnavailable):
        SentenceEmbedding(str(tmp_path / "none"), local_files_only=True)


@pytest.mark.skipif(PRESENT, reason="the sentence-transformers extra is installed")
def test_without_the_extra_the_error_names_it() -> None:
    with pytest.raises(MissingExtra, match=r"qianxun\[sentence-transformers\]"):
        open_embedding("sentence-transformers:any")
