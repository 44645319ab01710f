"""No regular expression of the package takes more than linear time, whatever text it meets.

All patterns are collected, pumped with strings made of their own alphabet, and timed at growing lengths. Python's
engine backtracks: ``a*a*b`` takes the square of a run of ``a``, and ``a+b`` does, too, when it is searched for: it is
tried at every character of the run.
"""

from __future__ import annotations

import ast
import importlib
import re
import re._constants as code
import re._parser as parser
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import qianxun
from qianxun.core.limits import QUERY_LIMIT
from qianxun.question.words import joined
from tests.linear import seconds

SOURCE = Path(qianxun.__file__).parent
SCANS = {"search", "finditer", "findall", "sub", "subn", "split", "scanner"}
ANCHORED = {"match", "fullmatch"}
METHODS = SCANS | ANCHORED
BOUNDED_REPEAT = 200  # a repeat with a bound is a constant
LENGTHS = {
    **dict.fromkeys((16, 20, 24, 28, 32, 40, 60, 80, 100, 120, 140, 160), 0.02),
    **{320: 0.04, 640: 0.08, 1_250: 0.03, 5_000: 0.004, 20_000: 0.01},
}
"""From short to long, so that what is worse than a square is noticed before it takes minutes; seconds to begin with."""
LONGEST = max(LENGTHS)
ALPHABET = "a", "A", "1", " ", "\n", "中", "。", "-", ".", "|", "\x00"


@dataclass(frozen=True)
class Found:
    """A pattern, where it stands, and whether it is tried at every character of a text or only at one."""

    place: str
    pattern: re.Pattern[Any]
    scans: bool


@dataclass(frozen=True)
class Repeat:
    """A repeat without a bound: a string that leads to it, and its body."""

    lead: str
    body: str


# ── what a pattern is made of ────────────────────────────────────────────────────────────────────


class Parts:
    """The repeats without a bound in a pattern, and the sets of characters in them."""

    def __init__(self, pattern: re.Pattern[Any]) -> None:
        source = pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode("latin-1")
        self.repeats: list[Repeat] = []
        self._choices: list[str] = []
        self._sets: list[tuple[Any, Any]] = []
        self._characters: list[str] = list(ALPHABET)
        flags = pattern.flags & ~re.UNICODE if isinstance(pattern.pattern, bytes) else pattern.flags
        self._walk(parser.parse(source, flags & ~re.DEBUG), "", repeated=False)

    def _walk(self, sequence: Iterable[tuple[Any, Any]], lead: str, *, repeated: bool) -> str:
        """The shortest text that this sequence matches, more or less; repeats are noted on the way."""
        sample = ""
        for kind, value in sequence:
            sample += self._item(kind, value, lead + sample, repeated=repeated)
        return sample

    def _item(self, kind: Any, value: Any, lead: str, *, repeated: bool) -> str:
        if kind in (code.MAX_REPEAT, code.MIN_REPEAT, code.POSSESSIVE_REPEAT):
            least, most, body = value
            unbounded = most > BOUNDED_REPEAT
            self._choices = []
            sample = self._walk(body, lead, repeated=repeated or unbounded)
            if unbounded:
                self.repeats += [Repeat(lead, unit) for unit in dict.fromkeys([sample, *self._choices[:12]])]
            return sample * (least or int(not unbounded and most < 10))
        if kind is code.BRANCH:
            samples = [self._walk(choice, lead, repeated=repeated) for choice in value[1]]
            self._choices = [*samples, *self._choices]
            return max(samples, key=len)
        if kind is code.SUBPATTERN:
            return self._walk(value[3], lead, repeated=repeated)
        if kind is code.ATOMIC_GROUP:
            return self._walk(value, lead, repeated=repeated)
        if kind in (code.ASSERT, code.ASSERT_NOT):
            self._walk(value[1], lead, repeated=repeated)
            return ""
        if kind in (code.LITERAL, code.NOT_LITERAL, code.IN, code.ANY):
            return self._character(kind, value, repeated=repeated)
        return ""

    def _character(self, kind: Any, value: Any, *, repeated: bool) -> str:
        if kind is code.LITERAL:
            own = [chr(value)]
        elif kind is code.IN:
            own = [
                chr(point)
                for part, bounds in value
                if part in (code.LITERAL, code.RANGE)
                for point in ([bounds] if part is code.LITERAL else [bounds[0], sum(bounds) // 2, bounds[1]])
            ]
        else:
            own = []
        self._characters += own
        if repeated:
            self._sets.append((kind, value))
        return next((one for one in [*own, *ALPHABET] if _in(one, kind, value)), "")

    def alphabet(self) -> list[str]:
        """One character for every combination of repeated sets, the one that is in none of them first."""
        chosen = {tuple(_in(one, *item) for item in self._sets): one for one in reversed(self._characters)}
        return [chosen[signature] for signature in sorted(chosen)][:16]


def _in(character: str, kind: Any, value: Any) -> bool:
    point = ord(character)
    if kind is code.LITERAL:
        return bool(point == value)
    if kind is code.NOT_LITERAL:
        return bool(point != value)
    if kind is code.ANY:
        return character != "\n"
    negated = value[0][0] is code.NEGATE
    return negated != any(
        point == bounds
        if part is code.LITERAL
        else bounds[0] <= point <= bounds[1]
        if part is code.RANGE
        else part is code.CATEGORY and _in_category(character, bounds)
        for part, bounds in value
    )


def _in_category(character: str, category: Any) -> bool:
    name = str(category)
    letter = {"DIGIT": "d", "SPACE": "s", "WORD": "w"}[name.rpartition("_")[2]]
    return re.match("\\" + (letter.upper() if "_NOT_" in name else letter), character) is not None


def pumps(pattern: re.Pattern[Any]) -> Iterator[tuple[str, str, str]]:
    """Beginnings, units to repeat and ends of texts that may cost this pattern most."""
    parts = Parts(pattern)
    if not parts.repeats:
        return
    alphabet = parts.alphabet()
    ends = "", alphabet[0], "\n\x00"
    units = {("", one) for one in alphabet}
    for repeat in parts.repeats:
        units |= {("", repeat.lead), ("", repeat.body), ("", repeat.lead + repeat.body), (repeat.lead, repeat.body)}
        units |= {(repeat.lead, one) for one in alphabet[:8] if repeat.lead}
    yield from sorted((lead, unit, end) for lead, unit in units if unit for end in ends)


# ── timing ───────────────────────────────────────────────────────────────────────────────────────


def too_slow(found: Found) -> str:
    """How a pattern is made to take more than linear time; nothing if it is not."""
    for lead, unit, end in pumps(found.pattern):
        grown = growth(found, lead, unit, end)
        if grown:
            return f"{found.place} {found.pattern.pattern!r:.200} on {lead!r} + {unit!r} * n + {end!r}: {grown}"
    return ""


def growth(found: Found, lead: str, unit: str, end: str) -> str:
    """Four times the length takes about four times the time. Less than what can be measured is not measured."""

    def took(length: int, times: int = 1) -> float:
        made = lead + unit * (length // len(unit)) + end
        text = made if isinstance(found.pattern.pattern, str) else made.encode("latin-1", "replace")
        return seconds(lambda: run(found, text), times)

    before = last = 0.0
    for length, limit in LENGTHS.items():
        # A square takes sixteen times as long as a quarter of its text. Work that is not yet at five times by now has
        # too little of a square in it to be at nine times with the longest text.
        if length == LONGEST and (last * 16 < limit or last < 5 * before):
            return ""
        before, last = last, took(length)
        if last > limit and took(length, times=2) > limit:  # a machine may be busy once
            break
    else:
        return ""
    if length < 1_000:
        return f"{length} characters take more than {limit * 1e3:.0f} ms"
    for _ in range(3):
        short, long = took(length // 4, times=2), took(length)
        if long < 9 * short:
            return ""
    return f"{length // 4} characters {short * 1e3:.1f} ms, {length} characters {long * 1e3:.1f} ms"


def run(found: Found, text: Any) -> None:
    if found.scans:
        for _ in found.pattern.finditer(text):
            pass
    else:
        found.pattern.match(text)
        found.pattern.fullmatch(text)


# ── all patterns of the package ──────────────────────────────────────────────────────────────────


@cache
def modules() -> dict[str, ModuleType]:
    """All modules in which a regular expression may stand; the others would cost seconds to import."""
    names = {
        ".".join(["qianxun", *path.relative_to(SOURCE).with_suffix("").parts]).removesuffix(".__init__"): path
        for path in sorted(SOURCE.rglob("*.py"))
    }
    mentions = re.compile(r"^(?:import re|from re import .*|from qianxun\.question\.words import .*)$", re.MULTILINE)
    return {
        name: importlib.import_module(name)
        for name, path in names.items()
        if mentions.search(path.read_text(encoding="utf-8"))
    }


def patterns_in(value: Any, depth: int = 0) -> Iterator[re.Pattern[Any]]:
    """The patterns in a value of a module: itself, in containers, in records, in attributes of classes."""
    if isinstance(value, re.Pattern):
        yield value
    elif depth < 5:
        inner: Iterable[Any] = ()
        if isinstance(value, dict):
            inner = [*value.keys(), *value.values()]
        elif isinstance(value, tuple | list | set | frozenset):
            inner = value
        elif isinstance(value, type) and value.__module__.startswith("qianxun"):
            inner = list(vars(value).values())
        elif is_dataclass(value) and not isinstance(value, type):
            inner = [getattr(value, field.name, None) for field in fields(value)]
        for item in inner:
            yield from patterns_in(item, depth + 1)


def uses(tree: ast.AST) -> dict[str, set[str]]:
    """By name of a pattern, the methods by which it is run; any other use of the name counts as a scan."""
    used: dict[str, set[str]] = defaultdict(set)
    called = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            called.add(node.value)
            used[node.value.id].add(node.attr)
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node not in called:
            used[node.id].add("search")
    return used


def written(tree: ast.AST) -> Iterator[tuple[str, Any, int, bool]]:
    """Patterns that stand as constants in calls: where, pattern, flags, whether it scans."""
    methods = {node.value: node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant)):
            continue
        called, first = ast.unparse(node.func), node.args[0].value
        if called == "cue":
            yield f"words.toml:{first}", joined(first), 0, methods.get(node) not in ANCHORED
        elif called in {f"re.{method}" for method in METHODS}:
            flags = "|".join(ast.unparse(option.value) for option in node.keywords if option.arg == "flags")
            value = sum(int(re.RegexFlag[flag]) for flag in re.findall(r"re\.(\w+)", flags))
            yield f"line {node.lineno}", first, value, called.removeprefix("re.") not in ANCHORED


@cache
def everything() -> tuple[Found, ...]:
    found: dict[tuple[Any, int], Found] = {}
    files = {name: Path(str(module.__file__)) for name, module in modules().items()}
    trees = {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in files.items()}
    inside = {name: uses(tree) for name, tree in trees.items()}

    def note(place: str, pattern: re.Pattern[Any], scans: bool) -> None:
        key = pattern.pattern, pattern.flags
        if key not in found or (scans and not found[key].scans):
            found[key] = Found(place, pattern, scans)

    for name, module in modules().items():
        for variable, value in list(vars(module).items()):
            if isinstance(value, ModuleType) or variable.startswith("__"):
                continue
            methods = inside[name].get(variable, set())
            for pattern in patterns_in(value):
                scans = not isinstance(value, re.Pattern) or bool(methods & SCANS)
                note(f"{name}.{variable}", pattern, scans)
        for where, written_as, flags, scans in written(trees[name]):
            note(where if where.startswith("words") else f"{name} {where}", re.compile(written_as, flags), scans)
    return tuple(found.values())


# ── tests ────────────────────────────────────────────────────────────────────────────────────────

BOUNDED = {
    "words.toml:decisive.elsewhere": QUERY_LIMIT,  # of a question
    "qianxun.retrieve.query_plan._MENTION": QUERY_LIMIT,  # of a question, checked before it is planned
    "qianxun.question.steps._SUPERLATIVE": 80,  # _LONGEST
    "qianxun.question.steps._DOES": 80,  # _LONGEST
    "qianxun.answer.verify.plain_text.LINK_START": 2_000,  # _LONGEST_RUN
    "qianxun.answer.verify.plain_text._UNFINISHED": 40,  # _LONGEST
    "qianxun.answer.verify.citations._ENDING": 16,  # the end of a sentence
    "qianxun.graph.extract.english._GAP": 60,  # _WIDEST_GAP
    "qianxun.ingest.attachments._SVG": 2_000,  # the head of a file
    "qianxun.ingest.parse.spreadsheet.xlsx._TOKEN": 255,  # _LONGEST_FORMAT
    "qianxun.ingest.tables.cells._UNIT": 40,  # the end of a header
}
"""Patterns that are not linear and run on pieces of so many characters only."""


def test_every_pattern_of_the_package_is_linear() -> None:
    slow = [problem for found in everything() if found.place not in BOUNDED if (problem := too_slow(found))]
    assert slow == []


@pytest.mark.parametrize("place", BOUNDED)
def test_a_pattern_that_is_not_linear_is_quick_at_its_bound(place: str) -> None:
    (found,) = (found for found in everything() if found.place == place and Parts(found.pattern).repeats)
    for lead, unit, end in pumps(found.pattern):
        text = lead + unit * (BOUNDED[place] // len(unit)) + end
        readable = text if isinstance(found.pattern.pattern, str) else text.encode("latin-1", "replace")
        assert any(seconds(lambda: run(found, readable), times=1) < 0.3 for _ in range(3)), (lead, unit, end)  # noqa: B023


def test_the_patterns_of_all_kinds_of_places_are_found() -> None:
    places = {found.place for found in everything()}
    assert len(places) > 300
    assert "qianxun.ingest.tables.pipes._RULE" in places  # of a module
    assert "qianxun.ingest.chunk._LEVELS" in places  # in records in a tuple
    assert "words.toml:table.stated_unit" in places  # in the file of words
    assert any(place.startswith("qianxun.engine.folder_lock line") for place in places)  # in a function


@pytest.mark.parametrize(
    ("pattern", "scans"),
    [
        (r"[\s|+:\-=]*[-=]{2,}[\s|+:\-=]*", False),  # a cube: the one that froze the service
        (r"\s+$", True),  # a square: it is tried at every space
        (r"<.*?>", True),
        (r"(?:a|b|ab)*c", False),  # exponential
        (rb"(?:<!--.*?-->|\s)*<svg", False),
        (r"\w+\d\w*!", False),
        (r"[（(]\s*(?:单位)?\s*(\w)", False),  # only between the two runs of space
    ],
)
def test_patterns_that_are_not_linear_are_noticed(pattern: str | bytes, scans: bool) -> None:
    assert too_slow(Found("here", re.compile(pattern), scans))


@pytest.mark.parametrize(
    ("pattern", "scans"),
    [(r"\s+$", False), (r"(?<!\s)\s++$", True), (r"\d+(?:\.\d+)*", True), (r"<[^<>]*>", True), (r"(?:a++|b)*c", False)],
)
def test_linear_patterns_pass(pattern: str, scans: bool) -> None:
    assert not too_slow(Found("here", re.compile(pattern), scans))
