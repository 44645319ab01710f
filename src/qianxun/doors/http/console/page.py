"""What a page says of itself, and texts in two languages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, TypeAlias

Language: TypeAlias = Literal["zh", "en"]
LANGUAGES: Final[tuple[Language, ...]] = ("zh", "en")
ROOT: Final = "/console"


class Text(NamedTuple):
    """A text in both languages; `render` chooses."""

    zh: str
    en: str


@dataclass(frozen=True, slots=True)
class Page:
    """A page of the navigation. ``name`` is its path below ``/console/``, too."""

    name: str
    title: Text
    about: Text  # one line on what it is for
    needs_write: bool = False  # not shown to who may only read

    @property
    def path(self) -> str:
        return f"{ROOT}/{self.name}"
