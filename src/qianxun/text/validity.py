"""When a document says that it is in force, and what it replaces: 自2024年1月1日起施行，《……》同时废止.

Read where such sentences stand: at the beginning and at the end. `read_validity` is the function to read first.
"""

from __future__ import annotations

import re
from calendar import isleap
from datetime import date, timedelta
from typing import Final

from qianxun.core.governance.validity import VALIDITY_FIELDS, Validity, iso_day, stated_validity
from qianxun.core.types import Document

_EDGE: Final = 3000  # characters at either end
_SIGNS: Final = ("施行", "实施", "执行", "生效", "有效期", "废止", "停止使用")
_DAY: Final = r"(\d{4}\s?年\s?\d{1,2}\s?月\s?\d{1,2}\s?日)"
# Of itself: a ledger of contracts, or the manual of a certificate, has such sentences about other things.
_SELF: Final = r"本[^，。；：\n]{1,12}?"
_FROM: Final = re.compile(rf"{_SELF}，?\s?自\s?{_DAY}\s?(?:零时)?\s?起?(?:正式|开始)?(?:施行|实施|执行|生效|启用)")
_FROM_LATER: Final = re.compile(rf"(?:施行|实施|生效)(?:日期|时间)\s?[:：]\s?{_DAY}")
_UNTIL: Final = re.compile(
    rf"{_SELF}[^。；\n]{{0,40}}?(?:有效期(?:限)?\s?[:：]?\s?[至到为]|(?:施行|执行|实施|有效)[至到])\s?{_DAY}"
)
_YEARS: Final = re.compile(
    rf"{_SELF}[^。；\n]{{0,40}}?有效期(?:限)?\s?[:：]?\s?为?\s?([一二三四五六七八九十]|\d{{1,2}})\s?年"
)
_TITLE: Final = r"《([^《》\n]{2,80})》"
_REPEALED: Final = re.compile(
    rf"{_TITLE}(?:\s?[（(][^（）()\n]{{0,60}}[）)])?(?:[、和及与]\s?{_TITLE}(?:\s?[（(][^（）()\n]{{0,60}}[）)])?)?"
    r"[^《》。；\n]{0,12}(?:同时|即行|予以|相应|一并|随之)?\s?(?:废止|停止(?:执行|使用|施行)|失效|不再(?:执行|适用))"
)
_REPEALS: Final = re.compile(rf"(?:同时|并)\s?废止\s?(?:了)?\s?(?:原|旧)?\s?{_TITLE}")
_ONE_FORM: Final = str.maketrans("０１２３４５６７８９　(),;:", "0123456789 （），；：")
_NUMERALS: Final = {numeral: at for at, numeral in enumerate("一二三四五六七八九十", 1)}


def validity_of(document: Document) -> Validity:
    """What people state of the document in its metadata and, of what they do not, what its text says.

    Raises BadInput for what cannot be stated.
    """
    stated, names = stated_validity(document.metadata)
    found = read_validity(document.content)
    missing = tuple(name for name in VALIDITY_FIELDS if name not in names and getattr(found, name))
    if not missing:
        return stated
    values = {name: getattr(found if name in missing else stated, name) for name in VALIDITY_FIELDS}
    return Validity(**values, read=missing)


def read_validity(content: str) -> Validity:
    """What a text says of itself. Of several days the last one counts: the final article is about the text itself."""
    edges = content if len(content) <= 2 * _EDGE else f"{content[:_EDGE]}\n{content[-_EDGE:]}"
    if not any(sign in edges for sign in _SIGNS):
        return Validity()
    edges = edges.translate(_ONE_FORM)
    begins = [*_FROM.finditer(edges), *_FROM_LATER.finditer(edges)]
    valid_from = _last_day([found.group(1) for found in sorted(begins, key=lambda found: found.start())])
    valid_until = _last_day(_UNTIL.findall(edges)) or _after_years(valid_from, _YEARS.findall(edges))
    titles = [title for found in _REPEALED.findall(edges) for title in found] + _REPEALS.findall(edges)
    if valid_until and valid_until < valid_from:
        valid_until = ""
    return Validity(valid_from, valid_until, tuple(dict.fromkeys(title.strip() for title in titles if title.strip())))


def _last_day(written: list[str]) -> str:
    days = [day for one in written if (day := iso_day(one.replace(" ", "")))]
    return days[-1] if days else ""


def _after_years(valid_from: str, written: list[str]) -> str:
    """The last day of a period of so many years."""
    if not valid_from or not written:
        return ""
    years = _NUMERALS.get(written[-1]) or int(written[-1])
    ends = f"{int(valid_from[:4]) + years:04d}{valid_from[4:]}"
    return _day_before(ends)


def _day_before(day: str) -> str:
    year, month, number = map(int, day.split("-"))
    is_missing = (month, number) == (2, 29) and not isleap(year)
    first_after = date(year, 3, 1) if is_missing else date(year, month, number)
    return (first_after - timedelta(days=1)).isoformat()
