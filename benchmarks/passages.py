"""Real Chinese passages to measure with."""

from __future__ import annotations

import json
import lzma
from itertools import islice
from pathlib import Path

SHARED = Path(__file__).resolve().parents[2] / "shared"
SCALE = SHARED / "data" / "zh_scale_200k.jsonl.xz"
MODEL = SHARED / "models" / "bge-small-zh-v1.5"


def passages(limit: int, path: Path = SCALE) -> list[tuple[str, str]]:
    """(id, text) of the first ``limit`` passages."""
    with lzma.open(path, "rt", encoding="utf-8") as lines:
        rows = (json.loads(line) for line in islice(lines, limit))
        return [(row["_id"], f"{row['title']}\n{row['text']}".strip()) for row in rows]
