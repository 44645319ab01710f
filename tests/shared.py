"""Where the evaluation data and the model weights lie, if they are here at all, and what else a test may need."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

SHARED = Path(__file__).resolve().parents[2] / "shared"
DATA = SHARED / "data"
MODELS = SHARED / "models"
BGE_SMALL = MODELS / "bge-small-zh-v1.5"

needs_data = pytest.mark.skipif(not DATA.is_dir(), reason="no evaluation data beside this checkout (../shared/data)")
needs_model = pytest.mark.skipif(
    not BGE_SMALL.is_dir(), reason="model weights are not beside this checkout (../shared/models/bge-small-zh-v1.5)"
)
# Not imported to see: its runtime starts threads, and workers are forked from the process that reads the tests.
needs_ocr = pytest.mark.skipif(find_spec("rapidocr") is None, reason="no rapidocr here: pip install qianxun[ocr]")
