"""Where the evaluation data and the model weights lie, if they are here at all."""

from __future__ import annotations

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
