"""A small library to try things on: written for this project, everything in it is invented."""

from __future__ import annotations

from pathlib import Path

LIBRARY = Path(__file__).parent / "library"
EXAMPLES = Path(__file__).parent / "提示词案例库.xlsx"
