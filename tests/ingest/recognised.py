"""What recognition reads in the pictures of tables, written down: it takes seconds a picture, and the tables made of
it milliseconds. ``python -m tests.ingest.recognised`` writes `recognised.json` anew.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import astuple
from pathlib import Path

import pytest
from tests.shared import DATA

from qianxun.ingest.parse.pages import image
from qianxun.ingest.parse.pages.ocr import Line, Pixels
from qianxun.ingest.sandbox.limits import ParseLimits

PICTURES = DATA / "ingest/images_tables"
WRITTEN = Path(__file__).with_suffix(".json")
NAMES = (
    "tsr_lineless_table.png",
    "tsr_lineless_table_recognition.jpg",
    "tsr_row_span.png",
    "tsr_table.jpg",
    "tsr_table3.jpg",
    "tsr_wired_table.png",
)


def read_now(name: str) -> list[Line]:
    """By recognition; in tenths of a pixel, as they are written down."""
    found: list[Line] = []
    recognise = image.recognise

    def keep(pixels: Pixels) -> list[Line]:
        found.extend(
            Line(*(round(side, 1) for side in (line.left, line.top, line.right, line.bottom)), line.text)
            for line in recognise(pixels)
        )
        return list(found)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(image, "recognise", keep)
        image.parse(PICTURES / name, ParseLimits())
    return found


def written_down(name: str) -> list[Line]:
    return [Line(*line) for line in json.loads(WRITTEN.read_text("utf-8"))[name]]


@contextmanager
def as_written_down(name: str) -> Iterator[None]:
    """Whatever picture is read in this block, recognition finds the lines of this one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(image, "recognise", lambda _: written_down(name))
        yield


def main() -> None:
    rows = (f"{json.dumps(name)}: {_rows(read_now(name))}" for name in NAMES)
    WRITTEN.write_text("{\n" + ",\n".join(rows) + "\n}\n", "utf-8")


def _rows(lines: list[Line]) -> str:
    return "[\n" + ",\n".join(json.dumps(astuple(line), ensure_ascii=False) for line in lines) + "\n]"


if __name__ == "__main__":
    main()
