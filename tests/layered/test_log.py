"""Operators read what each layer did, and never what was asked."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from qianxun.core.layered_types import LayeredRecall, LayerRun
from qianxun.retrieve.layered.ladder import log_layers
from tests.layered.recalls import TABLES, TEXTS

FAILED = replace(
    TEXTS,
    results=(),
    layers=(LayerRun(1, "vector", True, "住院怎样报销：模型不在"), LayerRun(2, "keyword", False, "关")),
)


@pytest.mark.parametrize(("recall", "level"), [(TABLES, "INFO"), (TEXTS, "WARNING"), (FAILED, "ERROR")])
def test_the_level_says_how_bad_it_is(recall: LayeredRecall, level: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "qianxun"):
        log_layers(recall)
    (record,) = caplog.records
    assert record.levelname == level
    about = record.__dict__["about"]
    assert (about["wanted"], about["results"]) == (recall.wanted, len(recall.results))
    assert [layer["strategy"] for layer in about["layers"]] == [run.strategy for run in recall.layers]
    assert recall.query not in record.getMessage() + str(about)
    assert "模型不在" not in record.getMessage() + str(about)


def test_one_line_tells_what_was_wanted_and_what_each_layer_did(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "qianxun"):
        log_layers(TEXTS)
    assert caplog.messages == [
        "search_texts: 2 results, 10 wanted; layer 1 vector let in 1; layer 2 keyword let in 1; "
        "layer 3 expansion failed"
    ]
