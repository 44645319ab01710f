"""Normalises text before it is stored: widths, spaces and line ends change, the visible text does not.

Traditional Chinese, the width of punctuation, units, signs and emoji stay: folding for search happens in
``qianxun.text.chinese`` and never changes the stored text.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from lxml import etree

from qianxun.core.documents import ContentFormat
from qianxun.core.errors import BadInput

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_block import StateBlock

# Spaces that only differ in width, and line ends of other systems.
_SPACES: Final = "\t\xa0\u1680\u2000-\u200a\u202f\u205f\u3000"
_LINE_ENDS: Final = "\r\x0b\x0c\x85\u2028\u2029"
# Invisible characters: controls, zero widths, marks of direction, BOM, halves of surrogates, non-characters. The joiner
# U+200D is handled on its own: it makes one emoji of several.
_INVISIBLE: Final = (
    "\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\xad\u061c\u180e\u200b\u200c\u200e\u200f\u202a-\u202e\u2060-\u206f"
    "\ufeff\ufff9-\ufffb\ufffe\uffff\ud800-\udfff"
)
_WIDE: Final = "\uff10-\uff19\uff21-\uff3a\uff41-\uff5a"  # full-width digits and letters, not punctuation
_UNEVEN: Final = re.compile(f"[{_SPACES}{_LINE_ENDS}{_INVISIBLE}{_WIDE}]")
_RARE: Final = re.compile(f"[{_SPACES}{_LINE_ENDS}{_INVISIBLE}{_WIDE}\u200d\U000e0000-\U000e007f]")
_SPACE: Final = re.compile(f"[{_SPACES}]")
_LINE_END: Final = re.compile(f"[{_LINE_ENDS}]")
_JOINER: Final = re.compile(
    "(?<![\u2190-\u2bff\ufe0f\U0001f000-\U0001faff])\u200d|\u200d(?![\u2190-\u2bff\U0001f000-\U0001faff])"
)
# Tag characters are invisible letters: kept in the flags of 🏴 (England, Scotland, Wales), dropped elsewhere.
_TAGS: Final = re.compile("(\U0001f3f4[\U000e0020-\U000e007f]+)|[\U000e0000-\U000e007f]+")
_SPACE_RUN: Final = re.compile("  +")
_INNER_SPACE_RUN: Final = re.compile("(?<=[^ \n])  +")
_LINE_RUN: Final = re.compile("\n{3,}")


def normalise(text: str, *, indent: bool = False) -> str:
    """One kind of space, one kind of line end, at most one empty line; full-width letters and digits made half-width.

    Invisible characters are dropped, and so are spaces at the ends of lines and, unless ``indent`` (program code), at
    their beginning. Idempotent, linear.
    """
    text = text.replace("\r\n", "\n")
    if _RARE.search(text):  # most text has none: one scan instead of three
        text = _UNEVEN.sub(_even, text)
        text = _TAGS.sub(_flag, _JOINER.sub("", text))
    if indent:
        text = _INNER_SPACE_RUN.sub(" ", text)
        text = "\n".join([line.rstrip(" ") for line in text.split("\n")])
    else:
        text = _SPACE_RUN.sub(" ", text) if "  " in text else text
        text = text.replace(" \n", "\n").replace("\n ", "\n").strip(" ")
    return (_LINE_RUN.sub("\n\n", text) if "\n\n\n" in text else text).strip("\n")


def _even(found: re.Match[str]) -> str:
    character = found.group()
    if character == "\t":
        return "    "  # where indentation counts a tab is four spaces; elsewhere the run becomes one
    if _SPACE.match(character):
        return " "
    if _LINE_END.match(character):
        return "\n"
    return chr(ord(character) - 0xFEE0) if "\uff10" <= character <= "\uff5a" else ""


def _flag(found: re.Match[str]) -> str:
    return found.group(1) or ""


class TextPreprocessor:
    """Raw text of a known format to the normalised text that is chunked and stored."""

    def preprocess(self, text: str, content_type: ContentFormat = "text") -> str:
        """The visible text, normalised. Raises BadInput for an unknown content type.

        Blocks are on lines of their own, cells of a row are separated by a space, program code keeps its indentation.
        """
        if content_type == "text":
            return normalise(text)
        if content_type == "html":
            return normalise(_html_text(text), indent=True)
        if content_type == "markdown":
            return normalise(_html_text(markdown_reader().render(text)), indent=True)
        raise BadInput(f"未知的内容类型：{content_type!r}", hint="请使用 text、html 或 markdown。")


def markdown_reader(max_nesting: int = 20) -> MarkdownIt:
    """CommonMark with tables and footnotes: no text is lost but the addresses of links."""
    from markdown_it import MarkdownIt  # takes as long to import as everything else that reads a plain text

    reader = MarkdownIt("commonmark", {"maxNesting": max_nesting}).enable("table")
    reader.block.ruler.at("reference", _reference)
    reader.block.ruler.before("table", "deepest", _deepest)
    return reader


def _deepest(state: StateBlock, first: int, last: int, silent: bool) -> bool:
    """A list or quotation at the last level is one paragraph: beyond it the library drops everything without a word."""
    if state.level < state.md.options["maxNesting"] - _LEVELS_OF_A_LIST:
        return False
    if not silent:
        state.push("paragraph_open", "p", 1).map = [first, last]
        inline = state.push("inline", "", 0)
        inline.content, inline.map, inline.children = state.getLines(first, last, 0, False).strip(), [first, last], []
        state.push("paragraph_close", "p", -1)
        state.line = last
    return True


def _reference(state: StateBlock, first: int, last: int, silent: bool) -> bool:
    # [^1]: 自签收之日起 is a footnote. CommonMark knows none and takes its first word, here all of it, for an address.
    if state.src.startswith("[^", state.bMarks[first] + state.tShift[first]):
        return False
    from markdown_it.rules_block import reference

    return reference(state, first, last, silent)


_LEVELS_OF_A_LIST: Final = 2  # its own and that of its item
_SKIPPED: Final = frozenset({"script", "style", "template", "noscript"})
_OWN_LINE: Final = re.compile(
    "address|aside|body|br|caption|center|dd|details|dialog|div|dt|fieldset|figcaption|figure|footer|form|head|header"
    "|hr|html|legend|li|main|menu|nav|option|select|summary|tbody|tfoot|thead|tr"
)
_OWN_PARAGRAPH: Final = re.compile("article|blockquote|dl|h[1-6]|ol|p|pre|section|table|title|ul")
_WHITE: Final = re.compile(r"\s+")


def _html_text(html: str) -> str:
    # NUL would come back as U+FFFD, halves of surrogates cannot be encoded: neither is text.
    source = html.replace("\x00", "").encode("utf-8", "ignore")
    if not source.strip():
        return ""
    target: Any = _Reading()  # the stubs ask for handlers of comments and of bytes, which never come
    text: Any = etree.fromstring(source, etree.HTMLParser(target=target, encoding="utf-8", huge_tree=True))
    return str(text)


class _Reading:
    """Collects the visible text from a stream of HTML events: as a parser's target it builds no tree, however deep."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._skipped = 0
        self._preformatted = 0
        self._at_line_start = True

    def start(self, tag: str, attributes: object) -> None:
        self._skipped += tag in _SKIPPED
        self._preformatted += tag == "pre"
        self._edge(tag)

    def end(self, tag: str) -> None:
        self._skipped -= tag in _SKIPPED
        self._preformatted -= tag == "pre"
        if tag in ("td", "th") and not self._at_line_start:
            self._parts.append(" ")
        elif tag != "br":
            self._edge(tag)

    def data(self, text: str) -> None:
        if self._skipped:
            return
        if not self._preformatted:
            text = _WHITE.sub(" ", text)
            if self._at_line_start:
                text = text.lstrip(" ")
        if text:
            self._parts.append(text)
            self._at_line_start = False

    def close(self) -> str:
        return "".join(self._parts)

    def _edge(self, tag: str) -> None:
        if _OWN_PARAGRAPH.fullmatch(tag):
            self._parts.append("\n\n")
        elif tag == "br" or (_OWN_LINE.fullmatch(tag) and not self._at_line_start):
            self._parts.append("\n")
        else:
            return
        self._at_line_start = True


# ── powers ────────────────────────────────────────────────────────────────────────────────────────

_POWER: Final = re.compile(r"\s*[+\-−–]?\d{1,4}\s*")
_SUPERSCRIPT: Final = str.maketrans("0123456789+-−–", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻⁻")


def superscript(before: str, text: str) -> str:
    """A superscript ``text`` that follows ``before``: 10 with a superscript 9 is 10⁹, never 109.

    After a digit, a letter or a bracket a number is a power or part of a unit (m²); elsewhere it marks a note and
    stays as it is.
    """
    last = before[-1:]
    if (last.isascii() and last.isalnum()) or last in (")", "）", "]"):
        return text.strip().translate(_SUPERSCRIPT) if _POWER.fullmatch(text) else text
    return text
