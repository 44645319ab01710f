"""The example plug-ins keep what their kinds promise, by the classes that ship for it."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from qianxun.core.ports import RetrieverArm
from qianxun.core.types import Query, Terms
from qianxun.testing.arm_conformance import ArmConformance
from qianxun.testing.parser_conformance import ParserConformance
from tests.plugins.test_example_package import ROOT, write_epub

SOURCE = ROOT / "examples" / "plugins" / "src" / "qianxun_example_plugins"


def module(name: str) -> ModuleType:
    """A module of the example package, without installing it."""
    known = f"example_plugins_{name}"
    if known not in sys.modules:
        spec = importlib.util.spec_from_file_location(known, SOURCE / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        sys.modules[known] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[known])
    return sys.modules[known]


class TestEpub(ParserConformance):
    abilities = frozenset({"headings"})
    expected = ("起锚", "防波堤")

    def parser(self) -> Any:
        return module("epub").parser

    def sample(self, folder: Path) -> Path:
        return write_epub(folder / "雾港灯塔.epub")


class TestExactPhrase(ArmConformance):
    abilities = frozenset({"filters"})
    query = "住院“报销比例为百分之八十五”"

    def arm(self) -> RetrieverArm:
        arm: RetrieverArm = module("exact_phrase").create()
        return arm

    def test_width_case_and_traditional_characters_make_no_difference(self) -> None:
        assert self.search("「abc123 型号的发票」").keys.tolist() == [5]

    def test_without_quotation_marks_it_takes_no_part(self) -> None:
        plain = Query("报销比例为百分之八十五", Terms(()), None)
        assert not self.arm().applies_to(plain)
