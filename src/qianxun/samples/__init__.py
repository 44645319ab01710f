"""A small library to try things on: written for this project, everything in it is invented.

``library/`` holds documents, the workbook examples of conversations, ``demo.toml`` what `qianxun demo` asks of both.
"""

from __future__ import annotations

from pathlib import Path

LIBRARY = Path(__file__).parent / "library"
EXAMPLES = Path(__file__).parent / "提示词案例库.xlsx"
DEMO = Path(__file__).parent / "demo.toml"
