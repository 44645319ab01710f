"""A passage as a reader outside needs it: of which document, under which headings, and the text below them.

Every door that hands passages to people, programs or language models gets these from here. A chunk's own text is what
stands in the document: some chunks begin with their headings, some with none of them, and a table with its title again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from qianxun.core.types import Chunk

PATH: Final = "path"  # in a file's metadata: where it is in the folder that it was added with
ARROW: Final = " › "


def title_of(doc_name: str, doc_id: str, metadata: Mapping[str, Any]) -> str:
    """The document's path in its folder, where it has one: of a hundred files every second may be called index.md."""
    path = metadata.get(PATH)
    return path if isinstance(path, str) and doc_name and path.endswith(f"/{doc_name}") else doc_name or doc_id


def chunk_title(chunk: Chunk) -> str:
    return title_of(chunk.doc_name, chunk.doc_id, chunk.attributes.metadata)


def heading_path(doc_name: str, headings: Sequence[str]) -> list[str]:
    """The headings above a passage, the outermost first: none twice in a row, and none that is the document's name."""
    stem = PurePosixPath(doc_name).stem
    return [heading for heading in _distinct(headings) if heading != stem]


def chunk_place(chunk: Chunk) -> str:
    """The document, and the headings below which the chunk stands."""
    return ARROW.join((chunk_title(chunk), *heading_path(chunk.doc_name, chunk.headings)))


def passage_text(chunk: Chunk) -> str:
    """The chunk's text below a line with its headings. A table without any stands below its document's name."""
    headings = _distinct(chunk.headings)
    if not headings and chunk.kind == "table" and chunk.text.lstrip().startswith("|"):
        headings = [PurePosixPath(chunk.doc_name).stem]
    return "\n\n".join(filter(None, (ARROW.join(headings), _below(chunk.text, headings))))


def below_headings(text: str, headings: Sequence[str]) -> str:
    """A chunk's text without the lines at its top that are headings of it; all of it where it is nothing else.

    What only begins like a heading stays: 1 is the number of a clause, 15 个工作日 its text.
    """
    return _below(text, headings) or text


def _below(text: str, headings: Sequence[str]) -> str:
    named = [heading.split() for heading in headings]
    rest = text.lstrip()
    while rest and (line := rest.partition("\n"))[0].split() in named:
        rest = line[2].lstrip()
    return rest


def _distinct(headings: Sequence[str]) -> list[str]:
    def differing() -> Iterator[str]:
        before = ""
        for heading in (heading.strip() for heading in headings):
            if heading and heading != before:
                yield heading
            before = heading or before

    return list(differing())
