"""Which documents of a base are in force on a day. `in_force` is the function to read first.

Days are stated of a document, or read from its text; a document also ends where one that supersedes it begins. That
is worked out anew for every state of a base and never stored: when the successor is deleted, what it replaced is in
force again. A base of which nothing is known pays one look at an empty table for every change of its state.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Final

from sqlalchemy import Connection

from qianxun.core.filters import EVERYTHING, Filter, In, Not
from qianxun.core.governance.validity import ANY_TIME, AsOf, Validity
from qianxun.core.system.cache import LRUCache
from qianxun.records import listing
from qianxun.records.governance import validity
from qianxun.text.document_names import by_name, document_title, first_letters, plain_name

_EDITION: Final = re.compile(  # 差旅办法（2019年修订）; as files are called, also 差旅办法2019, 差旅办法-2019版
    r"\s?[（(【\[][^（）()【】\[\]]{1,20}[）)】\]]$|[-_—\s]?(?:19|20)\d\d年?(?:版|修订版?|修订稿|试行)?$"
)
_YEAR: Final = re.compile(r"(?:19|20)\d\d")
DAYS: Final = 8  # for which it is remembered what is in force


@dataclass(frozen=True, slots=True)
class Period:
    """When one document is in force, and what takes its place."""

    doc_id: str
    name: str
    validity: Validity
    successors: tuple[tuple[str, str, str], ...] = ()  # (first day or "", id, name), the earliest first
    precedes_none: bool = True  # it takes no other document's place

    def outdated(self, as_of: AsOf) -> str:
        """Why it is not in force on that day; "" if it is."""
        day, known = as_of.day, self.validity
        for begins, _, name in self.successors:
            if begins <= day:
                return f"{begins} 起由《{name}》取代" if begins else f"已由《{name}》取代"
        if known.valid_until and known.valid_until < day:
            return f"{known.valid_until} 之后失效"
        # One that says of itself that it will begin, and takes no other's place, is not hidden until then.
        is_announced = as_of.origin == "today" and self.precedes_none and "valid_from" in known.read
        if known.valid_from > day and not is_announced:
            return f"{known.valid_from} 起施行"
        return ""

    def day_in_force(self) -> str:
        """The last day on which it is in force, or the first; ``any`` if there is none that is known."""
        begins = self.successors[0][0] if self.successors else ""
        if begins:
            return (date.fromisoformat(begins) - timedelta(days=1)).isoformat()
        return ANY_TIME if self.successors else self.validity.valid_until or self.validity.valid_from or ANY_TIME


@dataclass(frozen=True, slots=True)
class InForce:
    """The periods of a base's documents at one state; of those of which something is known."""

    periods: Mapping[str, Period]
    _outdated: LRUCache[AsOf, Mapping[str, str]] = field(default_factory=lambda: LRUCache(DAYS), compare=False)
    _where: LRUCache[AsOf, Filter] = field(default_factory=lambda: LRUCache(DAYS), compare=False)

    def outdated(self, as_of: AsOf) -> Mapping[str, str]:
        """Document → why it is not in force on that day."""
        found = self._outdated.get(as_of)
        if found is None:
            found = {doc_id: reason for doc_id, period in self.periods.items() if (reason := period.outdated(as_of))}
            self._outdated.put(as_of, found)
        return found

    def where(self, as_of: AsOf, named: Collection[str] = ()) -> Filter:
        """What a search as of that day lets through. A document that the user named is searched at any time."""
        if named:
            return _all_but(self.outdated(as_of).keys() - set(named))
        found = self._where.get(as_of)
        if found is None:
            found = _all_but(self.outdated(as_of))
            self._where.put(as_of, found)
        return found

    def successors(self) -> dict[str, tuple[str, ...]]:
        """Document → those that take its place."""
        return {
            doc_id: tuple(after for _, after, _ in period.successors)
            for doc_id, period in self.periods.items()
            if period.successors
        }


def _all_but(hidden: Collection[str]) -> Filter:
    return Not(In("doc_id", tuple(sorted(hidden)))) if hidden else EVERYTHING


NOTHING_KNOWN: Final = InForce({})


def in_force(tx: Connection, knowledge_base: int) -> InForce:
    """The periods of a base's documents, with what takes their place."""
    known = {one.doc_id: one for one in validity.served(tx, knowledge_base)}
    if not known:
        return NOTHING_KNOWN
    targets = {target for one in known.values() for target in one.validity.supersedes}
    named = _named(tx, knowledge_base, targets)
    names = {doc_id: name for found in named.values() for doc_id, name in found}
    pairs = {
        (doc_id, one.doc_id)
        for one in known.values()
        for target in one.validity.supersedes
        for doc_id, _ in named[target]
        if _precedes(known.get(doc_id), one, doc_id)
    }
    successors: dict[str, list[tuple[str, str, str]]] = {}
    for before, after in pairs:
        if (after, before) not in pairs:  # two that each say so of the other are both in force
            one = known[after]
            successors.setdefault(before, []).append((one.validity.valid_from, after, document_title(one.name)))
    replacing = {after for _, after in pairs}
    return InForce(
        {
            doc_id: Period(
                doc_id,
                known[doc_id].name if doc_id in known else names[doc_id],
                known[doc_id].validity if doc_id in known else Validity(),
                tuple(sorted(successors.get(doc_id, ()))),
                doc_id not in replacing,
            )
            for doc_id in sorted({*known, *successors})
        }
    )


def _precedes(before: validity.ServedValidity | None, after: validity.ServedValidity, doc_id: str) -> bool:
    """A document does not replace itself, nor one that began after it."""
    if doc_id == after.doc_id:
        return False
    days = (before.validity.valid_from if before is not None else "", after.validity.valid_from)
    return not all(days) or days[0] < days[1]


def _named(tx: Connection, knowledge_base: int, targets: Iterable[str]) -> dict[str, set[tuple[str, str]]]:
    """Target → (id, name) of the documents that it means: by id, by name, or by the name without its edition."""
    targets = list(targets)
    letters = set().union(*(first_letters(target.strip("《》")) for target in targets)) if targets else set()
    documents = listing.names_beginning(tx, knowledge_base, letters)
    called = by_name(documents)
    spelled: dict[str, set[str]] = {}
    titles: dict[str, set[str]] = {}
    for doc_id, name in documents:
        spelled.setdefault(_letters(document_title(name)), set()).add(doc_id)
        titles.setdefault(_without_edition(document_title(name)), set()).add(doc_id)
    names = dict(documents)
    found: dict[str, set[tuple[str, str]]] = {}
    for target in targets:
        written = target.strip("《》 ")
        exactly = called.get(written) or called.get(plain_name(written)) or spelled.get(_letters(written))
        ids = exactly or {
            doc_id
            for doc_id in titles.get(_without_edition(written), ())
            if _may_be_edition(written, document_title(names[doc_id]))
        }
        found[target] = {(doc_id, document_title(names[doc_id])) for doc_id in ids}
    return found


def _letters(name: str) -> str:
    """A name without the marks that names of files leave out or write otherwise: 考勤规定（2021） is 考勤规定2021."""
    return "".join(filter(str.isalnum, plain_name(name)))


def _without_edition(title: str) -> str:
    return plain_name(_EDITION.sub("", title))


def _may_be_edition(target: str, title: str) -> bool:
    """Returns False if both name a year and it is another: 计划2025 is not what 《计划2023》 means."""
    years = [_YEAR.findall("".join(_EDITION.findall(one))) for one in (target, title)]
    return not all(years) or years[0] == years[1]
