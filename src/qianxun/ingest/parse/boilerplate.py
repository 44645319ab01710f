"""What every page of a site repeats: menus, heads and feet, breadcrumbs, buttons, lists of other pages.

Judged by structure and by the share of links; names of classes only help where nothing that reads as text is lost. A
page that would be left with headings only keeps all.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from lxml import etree

# fmt: off
INVISIBLE: Final = frozenset((
    "script", "style", "noscript", "template", "svg", "math", "nav", "iframe", "object", "embed", "button", "select",
    "input", "textarea", "head", "link", "meta", "video", "audio", "canvas", "footer", "menu",
))
INLINE: Final = frozenset((
    "a", "abbr", "b", "bdi", "bdo", "big", "cite", "code", "data", "del", "dfn", "em", "font", "i", "ins", "kbd",
    "label", "mark", "q", "rp", "rt", "ruby", "s", "samp", "small", "span", "strike", "strong", "sub", "sup", "time",
    "tt", "u", "var", "wbr", "o:p", "img", "br",
))
# fmt: on
HEADINGS: Final = {f"h{level}": level for level in range(1, 7)}
_WHOLE: Final = ("html", "body", "main", "article")  # never dropped
_SECTIONS: Final = ("main", "article", "section")
_COLUMNS: Final = ("div", "section", "aside", "main", "article", "td")
_LANDMARKS: Final = ("navigation", "contentinfo", "search")  # roles
_MENU_NAME: Final = re.compile(
    r"(?:^|[\s_-])(?:nav|navbar|menu|breadcrumbs?|footer|copyright|sidebar|pagination)(?:$|[\s_-])"
)
_FOOT_NAME: Final = re.compile(
    r"(?:^|[\s_-])(?:foot|footer|bottom|copyright|share|bdsharebuttonbox|jiathis)(?:$|[\s_-])"
)
_FOOT: Final = re.compile(r"©|\(c\)\s?\d{4}|copyright|版权所有|ICP备|ICP证|公网安备|All Rights Reserved", re.IGNORECASE)
_CRUMBS: Final = re.compile(
    r"(?:[您你]?(?:现在|当前|所在|的){0,4}位置\s?[:：]?\s?)?(?:网站|返回)?(?:首页|主页|home)\s?[>/»›→＞|·-]",
    re.IGNORECASE,
)
_OTHERS: Final = re.compile(
    r"(?:相关|推荐|热门|延伸|最新|友情|快速|猜你喜欢|上一|下一)(?:阅读|新闻|文章|链接|推荐|动态|资讯|内容|下载)?(?:更多|more)?[:：>]{0,2}$",
    re.IGNORECASE,
)
_BUTTON: Final = re.compile(
    r"(?:分享(?:到|至)?[:：]?|返回顶部|回到?顶部|(?:返回|关闭)(?:列表|窗口|本页)|打印(?:本页|本文)?|加入收藏|设为首页|"
    r"扫一扫.{0,20}|(?:上|下)一[篇条页][:：].{0,100}|【?(?:打印|关闭|收藏|大|中|小)】?(?:[\s|【】]{0,4}(?:打印|关闭|收藏|大|中|小)】?){1,6})"
)
_PROSE: Final = re.compile("[。，；！？]|[.,;] ")
_PROSE_LETTERS: Final = 40  # of a text that is read, unlike a label
_LINKS_OF_A_MENU: Final = 4
_LINKED_SHARE: Final = 0.7
_FEWEST_LINKS: Final = 3  # of a list of other pages
_SMALL: Final = 200  # letters, and elements: what is looked at as text
_FOOT_LETTERS: Final = 800
_MOST_COLUMNS: Final = 12
_MAIN_LETTERS: Final = 120  # of a column beside which a list of links is only that


@dataclass(slots=True)
class _Stats:
    """What an element and all below it hold."""

    start: int
    end: int = 0
    children: int = 0
    own: int = 0  # letters outside of links and of block elements below
    letters: int = 0
    linked: int = 0
    links: int = 0
    is_inside: bool = False  # of an article or a section
    holds_main: bool = False
    is_solid: bool = False  # a table, a heading, a paragraph: no mere menu
    has_content: bool = False  # prose, a table of rows, a first or second heading
    marks_prose: bool = False

    def add(self, child: _Stats, is_inline: bool) -> None:
        self.letters += child.letters
        self.linked += child.linked
        self.links += child.links
        self.holds_main = self.holds_main or child.holds_main
        self.is_solid = self.is_solid or child.is_solid
        self.has_content = self.has_content or child.has_content
        if is_inline:
            self.own += child.own
            self.marks_prose = self.marks_prose or child.marks_prose


def boilerplate(root: Any) -> set[Any]:
    """The elements to leave out, with all below them. Linear in the size of the page."""
    page = _measured(root)
    menus = {element for element, stats in page.items() if _is_menu(element, stats)}
    last = max((stats.end for element, stats in page.items() if _is_last_content(element, stats)), default=0)
    others = {
        element
        for element, stats in page.items()
        if element.tag not in INLINE
        and element.tag not in _WHOLE
        and (_is_foot(element, stats, stats.start > last) or _is_aside(element, stats, page[root].holds_main))
    }
    if page[root].has_content and page[root].letters - page[root].linked >= _MAIN_LETTERS:
        others.update(_lists(page))
    return next((found for found in (menus | others, others) if _letters_without(page, found)), set())


def _measured(root: Any) -> dict[Any, _Stats]:
    """One pass, in document order."""
    page: dict[Any, _Stats] = {}
    count = inside = 0
    for event, element in etree.iterwalk(root, events=("start", "end")):
        if not isinstance(element.tag, str):
            continue
        if event == "start":
            count += 1
            page[element] = _Stats(count, is_inside=inside > 0)
            inside += element.tag in _SECTIONS
            continue
        inside -= element.tag in _SECTIONS
        page[element].end = count
        _sum_up(element, page)
    return page


def _sum_up(element: Any, page: dict[Any, _Stats]) -> None:
    stats = page[element]
    if element.tag in INVISIBLE:
        return
    texts = [element.text or "", *(child.tail or "" for child in element)]
    stats.own = stats.letters = sum(len(text.strip()) for text in texts)
    stats.marks_prose = any(_PROSE.search(text) for text in texts)
    stats.is_solid = element.tag in HEADINGS or element.tag in ("table", "article", "main", "body", "html", "p")
    for child in element:
        if child in page:
            stats.children += 1
            stats.add(page[child], child.tag in INLINE)
    stats.holds_main = stats.holds_main or element.tag in ("main", "article")
    if element.tag == "a":
        stats.linked, stats.links, stats.own = stats.letters, stats.links + 1, 0
    stats.has_content = stats.has_content or _is_content(element, stats)


def _is_content(element: Any, stats: _Stats) -> bool:
    if element.tag in ("h1", "h2"):
        return stats.letters > 0
    if element.tag == "tr":
        return stats.letters - stats.linked > 0 and stats.children > 1
    return element.tag not in INLINE and stats.own >= _PROSE_LETTERS and stats.marks_prose


def _is_last_content(element: Any, stats: _Stats) -> bool:
    """Content itself, rather than what is around it. A prose that speaks of copyright is the foot's."""
    return element.tag not in _WHOLE and _is_content(element, stats) and not _FOOT.search(_text(element, stats))


def _is_menu(element: Any, stats: _Stats) -> bool:
    """Blocks of mostly links without table, heading or article."""
    if stats.is_solid or element.tag in INLINE or element.tag in INVISIBLE:
        return False
    if (element.get("role") or "").lower() in _LANDMARKS:
        return True
    letters, linked, links = stats.letters, stats.linked, stats.links
    if links >= 1 and _MENU_NAME.search(_names(element)) and linked * 2 >= letters:
        return True
    if links < _LINKS_OF_A_MENU or linked < letters * _LINKED_SHARE or letters >= 16 * links:
        return False
    return not _is_announced(element)


def _is_announced(element: Any) -> bool:
    """附件： in front of a list: part of the text."""
    before = element.getprevious()
    return before is not None and before.tag == "p" and "".join(before.itertext()).rstrip()[-1:] in (":", "：")


def _names(element: Any) -> str:
    return f"{element.get('class') or ''} {element.get('id') or ''} {element.get('role') or ''}".lower()[:200]


def _is_foot(element: Any, stats: _Stats, is_behind: bool) -> bool:
    """A foot by its name, or a line of copyright, behind all content; breadcrumbs and buttons anywhere."""
    if is_behind and stats.letters <= _FOOT_LETTERS and not stats.has_content and _FOOT_NAME.search(_names(element)):
        return True
    text = _text(element, stats)
    if not text or element.tag in HEADINGS or stats.letters > stats.own + stats.linked:
        return False  # a line of its own, rather than what is around it
    if is_behind and _FOOT.search(text) and "。" not in text:
        return True
    return bool(_BUTTON.fullmatch(text) or (stats.links and _CRUMBS.match(text)))


def _text(element: Any, stats: _Stats) -> str:
    """The text of a small element, on one line; nothing of a large one, whose parts are looked at by themselves."""
    if not 0 < stats.letters <= _SMALL or stats.end - stats.start > _SMALL:
        return ""
    return " ".join("".join(element.itertext()).split())


def _is_aside(element: Any, stats: _Stats, has_main: bool) -> bool:
    """A head or an aside of the page, beside the article that the page itself marks, or made of links."""
    if element.tag not in ("header", "aside") or stats.is_inside:
        return False
    if has_main and not stats.holds_main:
        return True
    return element.tag == "aside" and stats.links > 1 and stats.linked * 2 >= stats.letters


def _lists(page: dict[Any, _Stats]) -> Iterator[Any]:
    """Lists of other pages with their headings: in a column beside the text, or called so (相关阅读)."""
    for element, stats in page.items():
        if element.tag in INLINE or element.tag in _WHOLE or element.tag in ("table", "tr", "td"):
            continue
        if stats.links < _FEWEST_LINKS:
            continue
        is_linked = stats.linked >= stats.letters * _LINKED_SHARE
        heading = _heading_of(element, page) if is_linked else None
        if heading is not None and _OTHERS.match(_text(heading, page[heading])):
            yield from (heading, element)
        # Pictures that are links stand over labels that are none.
        elif (is_linked or (stats.letters < 16 * stats.links and not stats.has_content)) and _is_column(element, page):
            yield element


def _heading_of(element: Any, page: dict[Any, _Stats]) -> Any:
    """The heading in front of a list, or as its first child."""
    for near in (element.getprevious(), element[0] if len(element) else None):
        if near is not None and near in page and 0 < page[near].letters <= 20:
            return near
    return None


def _is_column(element: Any, page: dict[Any, _Stats]) -> bool:
    """Whether it stands beside the column of the text, not in its flow."""
    parent = element.getparent()
    if parent is None or element.tag not in _COLUMNS or page[parent].own or page[parent].children > _MOST_COLUMNS:
        return False
    beside = [page[child] for child in parent if child in page and child is not element]
    if any(child.tag not in _COLUMNS and page[child].letters for child in parent if child in page):
        return False
    return any(other.has_content and other.letters - other.linked >= _MAIN_LETTERS for other in beside)


def _letters_without(page: dict[Any, _Stats], dropped: set[Any]) -> int:
    """Letters outside of headings and of what is dropped, in one pass over the elements in document order."""
    total = skipped = 0
    for element, stats in page.items():
        if stats.start <= skipped:
            continue
        total += len((element.tail or "").strip())
        if element in dropped or element.tag in INVISIBLE or element.tag in HEADINGS:
            skipped = stats.end
        else:
            total += len((element.text or "").strip())
    return total
