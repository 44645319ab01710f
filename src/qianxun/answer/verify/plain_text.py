"""What may be shown of a reply or a document: its words. Links, images and HTML are taken out, marks set apart.

A text may come in pieces, cut anywhere: what is made of it does not depend on where.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

LINK_TAKEN_OUT: Final = "（链接略）"

_OPENING: Final = {"[": "]", "【": "】", "［": "］"}
_LONGEST_BRACKET: Final = 300  # characters that may stand in brackets before they are taken for plain text
_DEEPEST_BRACKET: Final = 8
_LONGEST_TARGET: Final = 2000
_LONGEST_RUN: Final = 2000
_LONGEST_RANGE: Final = 20  # [1-20]
_MARK: Final = re.compile(
    r"\s*+\^?+(?:资料|来源|文献|引用|参考|出处|source|ref)?+\s*+[#:：]?+\s*+"
    r"(?P<numbers>\d{1,3}+(?:\s*+[,，、;；\-–~～至]\s*+\d{1,3}+)*+)\s*+",
    re.IGNORECASE,
)
_RANGE: Final = re.compile(r"(\d+)(?:\s*[\-–~～至]\s*(\d+))?")
_RUN: Final = re.compile(r"[A-Za-z0-9._~:/?#@$&'*+,;=%\\-]+")
_EDGE: Final = {opening: re.compile(rf"[{re.escape(opening + closing)}\n]") for opening, closing in _OPENING.items()}
_MAKES_A_LINK: Final = {"]:": "：", "![": "［"}
_TARGET_END: Final = re.compile(r"\)|\n[ \t]*\n")
_OVER: Final = frozenset("。！？!?｡….，,、；;：:」』”’]】］")  # what stands before a mark where words are over
_INDEX: Final = re.compile(r"[A-Za-z0-9_+\-]{1,2}")
_FILE: Final = (
    "py|js|ts|jsx|tsx|vue|md|rst|txt|pdf|docx?|xlsx?|pptx?|csv|json|ya?ml|toml|html?|xml|css|java|go|rs|cpp|sh|sql|ipynb"
    "|zip|gz|tar|png|jpe?g|gif|svg|conf|ini|log"
)
_LINE_BREAK: Final = re.compile(r"<br\s{0,2}/?>", re.IGNORECASE)
_TAG_START: Final = re.compile(r"[A-Za-z/!?]")
LINK_START: Final = re.compile(
    # no scheme has one letter: C:\ is a path of Windows, which nothing opens
    r"(?:(?:javascript|vbscript|mailto|blob|intent):(?=[^\s])|data:[a-z]+/|[a-z][a-z0-9+.-]{1,30}:[/\\]"
    r"|[/\\]{2}(?=[a-z0-9])|www\.).*"
    r"|(?<![a-z0-9_.@-])(?!(?:asp|vb|ado|ml)\.net\b)(?:[a-z0-9-]+\.)+(?:com|cn|net|org|gov|edu|io|ai|me|cc|tv|info|biz|top"
    r"|xyz|site|online|shop|vip|ru|uk|de|jp|kr|fr|co|hk|tw|app|dev|link|club|icu|test|example|invalid)(?![a-z0-9-]).*"
    rf"|(?<![a-z0-9_.@-])(?!(?:asp|vb|ado|ml)\.net\b)(?:[a-z0-9-]+\.)+"
    rf"(?!(?:{_FILE})[/\\][^?#=&%]*\Z)[a-z][a-z0-9-]{{1,62}}(?::\d+)?[/\\].*"
    r"|(?<![\d.])(?:\d{1,3}\.){3}\d{1,3}(?::\d+)?/.*",
    re.IGNORECASE | re.DOTALL,
)
_TRAILING: Final = ".,;:!?'"
_LONGEST: Final = 40  # characters of an entity: the longest name has 32
_NAMED: Final = re.compile(r"&(?:#[0-9]{1,9}|#[xX][0-9a-fA-F]{1,8}|[A-Za-z][A-Za-z0-9]{1,31});\Z")
_DECIMAL: Final = re.compile(r"&#[0-9]{1,9}\Z")
_HEX: Final = re.compile(r"&#[xX][0-9a-fA-F]{1,8}\Z")
_UNFINISHED: Final = re.compile(r"&[A-Za-z0-9#&]*\Z")
_HEX_DIGITS: Final = frozenset("0123456789abcdefABCDEF;")


@dataclass(frozen=True, slots=True)
class Words:
    """Text that may be shown as it is."""

    text: str


@dataclass(frozen=True, slots=True)
class Mark:
    """[1], 【2】, [1, 3], [2-4], [资料1]."""

    numbers: tuple[int, ...]
    written: str


@dataclass(frozen=True, slots=True)
class TakenOut:
    """A link, an image or a tag that is not shown."""

    written: str


Atom: TypeAlias = Words | Mark | TakenOut


def without_links(text: str) -> str:
    """The text as it may be read, its brackets left alone; "（链接略）" is where a link was."""
    return "".join(atom.written if isinstance(atom, Mark) else _shown(atom) for atom in _atoms(text))


def quotable(text: str) -> str:
    """The text as it may stand in an answer: without links, and without marks of its own, which would cite there."""
    return "".join(_shown(atom) for atom in _atoms(text) if not isinstance(atom, Mark))


def _atoms(text: str) -> list[Atom]:
    reader = TextReader()
    return [*reader.feed(text), *reader.close()]


def _shown(atom: Words | TakenOut) -> str:
    if isinstance(atom, Words):
        return atom.text
    return LINK_TAKEN_OUT if LINK_START.match(atom.written) else ""


class TextReader:
    """Takes a text in pieces and gives what may be shown of it as soon as that is certain.

    No link, image or definition of Markdown is left, nor does one come about where something was taken out.
    """

    def __init__(self) -> None:
        self._entities = EntityReader()
        self._pending = ""
        self._at = 0  # what is before it is over; its last character decides what the next one may be
        self._last = ""  # that was shown

    def feed(self, piece: str) -> Iterator[Atom]:
        self._hold(self._entities.feed("".join(mark for mark in piece if _is_visible(mark))))
        for atom in self._read(is_last=False):
            yield self._apart(atom)

    def close(self) -> Iterator[Atom]:
        self._hold(self._entities.close())
        for atom in self._read(is_last=True):
            yield self._apart(atom)

    def _hold(self, text: str) -> None:
        self._pending += "".join(mark for mark in text if _is_visible(mark))  # entities stand for unseen ones, too

    def _read(self, is_last: bool) -> Iterator[Atom]:
        text, at, plain = self._pending, self._at, self._at
        while at < len(text):
            step = _next(text, at, is_last)
            if step is None:
                break
            atoms, end = step
            if atoms is not None:
                if plain < at:
                    yield Words(text[plain:at])
                yield from atoms
                plain = end
            at = end
        if plain < at:
            yield Words(text[plain:at])
        self._pending, self._at = text[max(0, at - 1) :], min(at, 1)

    def _apart(self, atom: Atom) -> Atom:
        """Brackets with parentheses or a colon after them make a link: after what is shown these are wide ones."""
        if isinstance(atom, Mark):
            self._last = self._last if self._last in ("]", "!") else atom.written  # it may not be shown
        elif isinstance(atom, TakenOut):
            self._last = LINK_TAKEN_OUT[-1] if LINK_START.match(atom.written) else self._last
        elif atom.text:
            text = atom.text.replace("](", "]（").replace("]:", "]：")
            if self._last[-1:] == "]" and text[0] == "(":
                text = f"（{text[1:]}"
            elif self._last + text[0] in _MAKES_A_LINK:
                text = f"{_MAKES_A_LINK[self._last + text[0]]}{text[1:]}"
            self._last = text[-1]
            return Words(text)
        return atom


def _is_visible(mark: str) -> bool:
    """Returns False for control and format characters, which hide one word in another."""
    return mark in "\n\t" or unicodedata.category(mark) not in ("Cc", "Cf", "Cs", "Co")


_Step: TypeAlias = tuple[tuple[Atom, ...] | None, int] | None
"""What is here (None: plain text) and where it ends; None altogether: what follows decides."""


def _next(text: str, at: int, is_last: bool) -> _Step:
    mark = text[at]
    if mark in _OPENING:
        return _bracket(text, at, is_last)
    if mark in "!]":
        if at + 1 == len(text):
            return (None, at + 1) if is_last else None
        if mark + text[at + 1] == "![":
            return _image(text, at, is_last)
        return _after_bracket(text, at, is_last) if mark == "]" else (None, at + 1)
    if mark == "<":
        return _tag(text, at, is_last)
    if mark.isascii() and (mark.isalnum() or mark in "/\\"):
        return _run(text, at, is_last)
    return None, at + 1


def _closing(text: str, opening: int, is_last: bool) -> int | None:
    """Where the bracket closes, in its line; -1: nowhere; None: what follows decides."""
    depth, limit = 0, opening + _LONGEST_BRACKET
    for edge in _EDGE[text[opening]].finditer(text, opening, limit):
        if edge[0] == "\n":
            return -1
        depth += 1 if edge[0] == text[opening] else -1
        if depth == 0:
            return edge.start()
        if depth > _DEEPEST_BRACKET:
            return -1
    return -1 if is_last or len(text) >= limit else None


def _bracket(text: str, at: int, is_last: bool) -> _Step:
    """A mark or a link; else the opening bracket is a plain one."""
    close = _closing(text, at, is_last)
    if close is None:
        return None
    if close < 0:
        return None, at + 1
    inside, after = text[at + 1 : close], text[close + 1 : close + 2]
    if not after and not is_last:
        return None
    if text[at] == "[" and after in ("(", "["):
        end = _pointed(text, at, close + 1, is_last)
        if end is None:
            return None
        if end > 0:  # the words of a link stay, what it points at does not
            return (*_atoms(_as_mark(inside)), TakenOut(text[at:end])), end
    mark = _MARK.fullmatch(inside)
    if mark and (not after.isdigit() or _ends_before(text, at)):
        return (Mark(_numbers(mark["numbers"]), text[at : close + 1]),), close + 1
    return None, at + 1


def _ends_before(text: str, at: int) -> bool:
    """Returns True if something is over before a bracket, so that digits after it begin what follows: 158天。[1]15天.
    国发[15]3号 is one name."""
    return at == 0 or text[at - 1].isspace() or text[at - 1] in _OVER


def _as_mark(inside: str) -> str:
    """[1](http://…) is a mark that was made a link."""
    return f"[{inside}]" if _MARK.fullmatch(inside) else inside


def _pointed(text: str, opening: int, at: int, is_last: bool) -> int | None:
    """Where it ends what the bracket points at: (an address) or [a name]; -1: it points at nothing."""
    if text[at] == "(":
        return _target_end(text, at, is_last)
    close = _closing(text, at, is_last)
    if close is None or close < 0:
        return close
    name, words = text[at + 1 : close], text[opening + 1 : at - 1]
    before = text[opening - 1 : opening]
    if _MARK.fullmatch(name) or _MARK.fullmatch(words):
        return -1
    if (before.isascii() and before.isalnum()) or before in ("]", "_") or "[" in name:
        return -1  # a[i][j]
    return -1 if _INDEX.fullmatch(name) and _INDEX.fullmatch(words) else close + 1


def _target_end(text: str, opening: int, is_last: bool) -> int | None:
    found = _TARGET_END.search(text, opening, opening + _LONGEST_TARGET)
    if found is None:
        return -1 if is_last or len(text) - opening >= _LONGEST_TARGET else None
    return found.end() if found[0] == ")" else -1


def _image(text: str, at: int, is_last: bool) -> _Step:
    """Of an image nothing stays; a mark may follow an exclamation."""
    close = _closing(text, at + 1, is_last)
    if close is None or (close + 1 == len(text) and not is_last):
        return None
    if close < 0:
        return (Words("！"),), at + 1
    is_mark = _MARK.fullmatch(text[at + 2 : close]) is not None
    after = text[close + 1 : close + 2]
    end: int | None = -1
    if after == "(":
        end = _target_end(text, close + 1, is_last)
    elif after == "[" and not is_mark:
        name = _closing(text, close + 1, is_last)
        end = name + 1 if name is not None and name >= 0 else name
    if end is None:
        return None
    if end > 0:
        return (TakenOut(text[at:end]),), end
    return (None, at + 1) if is_mark else ((Words("！"),), at + 1)


def _after_bracket(text: str, at: int, is_last: bool) -> _Step:
    """What is in parentheses after a bracket is an address, wherever the bracket was opened."""
    if text[at + 1] != "(":
        return None, at + 1
    end = _target_end(text, at + 1, is_last)
    if end is None:
        return None
    return ((Words("]"), TakenOut(text[at + 1 : end])), end) if end > 0 else (None, at + 1)


def _numbers(written: str) -> tuple[int, ...]:
    found: list[int] = []
    for first, last in _RANGE.findall(written):
        end = int(last or first)
        found.extend(range(int(first), min(end, int(first) + _LONGEST_RANGE) + 1))
    return tuple(dict.fromkeys(found))


def _tag(text: str, at: int, is_last: bool) -> _Step:
    if at + 1 == len(text):
        return (None, at + 1) if is_last else None
    if not _TAG_START.match(text, at + 1):
        return None, at + 1
    close = text.find(">", at + 1, at + _LONGEST_TARGET)
    if close >= 0 and _LINE_BREAK.fullmatch(text, at, close + 1):
        return (Words(" "),), close + 1  # 60<br>85 is no 6085
    if close >= 0:
        return (TakenOut(text[at : close + 1]),), close + 1
    if is_last or len(text) - at >= _LONGEST_TARGET:
        return (Words("＜"),), at + 1  # never closed: it must not become a tag with what comes after the answer
    return None


def _run(text: str, at: int, is_last: bool) -> _Step:
    """Letters, digits and signs up to the next space or Chinese character: a word, a number, or a link."""
    match = _RUN.match(text, at, at + _LONGEST_RUN)
    assert match is not None  # begins with one of them
    end = match.end()
    if end == len(text) and end - at < _LONGEST_RUN and not is_last:
        return None
    found = LINK_START.search(text, at, end)
    if found is None:
        return None, end
    stop = end
    while stop > found.start() and text[stop - 1] in _TRAILING:
        stop -= 1
    before = (Words(text[at : found.start()]),) if found.start() > at else ()
    return (*before, TakenOut(text[found.start() : stop])), stop


# ── HTML entities: a link may be written in them, and entities in entities ────────────────────────


class EntityReader:
    """Takes a text in pieces and gives it with every entity read, also ``&amp;colon;`` and ``&#58`` without its end.

    What is read may be part of the next entity; none that has a meaning is left.
    """

    def __init__(self) -> None:
        self._pending = ""

    def feed(self, piece: str) -> str:
        if not self._pending and "&" not in piece:
            return piece
        ready: list[str] = []
        tail = self._pending
        for mark in piece:
            if not tail and mark != "&":
                ready.append(mark)
                continue
            tail = _with(tail, mark)
            if not mark.isalnum() or len(tail) > _LONGEST:
                done = _certain(tail)
                ready.append(tail[:done])
                tail = tail[done:]
        self._pending = tail
        return "".join(ready)

    def close(self) -> str:
        tail, self._pending = _without_number(self._pending, " "), ""
        return tail


def _with(tail: str, mark: str) -> str:
    """The tail and what follows it; an entity that ends here is its character."""
    tail = _without_number(tail, mark) + mark
    while tail.endswith(";") and (found := _NAMED.search(tail, max(0, len(tail) - _LONGEST))):
        character = html.unescape(found[0])
        if character == found[0] or (character.endswith(";") and len(character) > 1):  # a name that means nothing
            break
        tail = tail[: found.start()] + character
    return tail


def _without_number(tail: str, following: str) -> str:
    """``&#58`` ends where its digits do."""
    found = None
    if following not in _HEX_DIGITS:
        found = _HEX.search(tail)
    if found is None and not (following.isascii() and following.isdigit()) and following != ";":
        found = _DECIMAL.search(tail)
    return tail if found is None else tail[: found.start()] + html.unescape(found[0] + ";")


def _certain(tail: str) -> int:
    """How much of it no later character can change."""
    found = _UNFINISHED.search(tail, max(0, len(tail) - _LONGEST))
    return len(tail) if found is None else found.start()
