"""Documents that cannot lie: settings, layers and modules are compared with the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from qianxun.engine.configure import KINDS
from qianxun.engine.settings import Settings, names
from qianxun.models import CARDS
from qianxun.rank.fuse import fitting_weights
from qianxun.rank.tiers import FUZZY, STRICT
from qianxun.retrieve.arms.keyword import CHANCE
from qianxun.retrieve.arms.qa import QUESTION_LEAD

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"


def test_every_setting_is_documented_with_its_default() -> None:
    tables = (DOCS / "operations" / "settings.md").read_text("utf-8").split("<!-- settings:")[1].split("\n## ")[0]
    documented = dict(re.findall(r"^\| `([a-z0-9_.]+)` \| (.*?) \|", tables, re.M))
    assert tuple(documented) == names()
    for name, value, _ in Settings().rows():
        shown = "none" if value in ("", ()) else f"`{value}`"
        assert documented[name] == shown, name


def test_a_refused_file_is_sent_to_settings_that_there_are() -> None:
    sources = "".join(path.read_text("utf-8") for path in (ROOT / "src/qianxun/ingest").rglob("*.py"))
    advised = re.findall(r"调[大小高低]\s*([^\s，；。\"]+)", sources)
    assert {"parsing.seconds", "parsing.file_megabytes", "parsing.characters"} <= set(advised)
    assert set(advised) <= set(names())


def test_the_map_names_every_package() -> None:
    written = (DOCS / "architecture.md").read_text("utf-8")
    for package in (ROOT / "src" / "qianxun").rglob("__init__.py"):
        assert f"{package.parent.name}/" in written, package


def test_files_of_the_code_that_documents_name_are_there() -> None:
    """By their path from the repository or the package, or by their name alone."""
    source = ROOT / "src" / "qianxun"
    known = {path.name for folder in (source, ROOT / "tests") for path in folder.rglob("*.py")}
    lost = []
    for page in [*DOCS.rglob("*.md"), ROOT / "README.md"]:
        for name in re.findall(r"`([\w./]+\.py)`", page.read_text("utf-8")):
            is_there = any((folder / name).exists() for folder in (ROOT, ROOT / "src", source))
            if not is_there and name not in known:
                lost.append(f"{page.name}: {name}")
    assert lost == []


def test_links_between_documents_lead_somewhere() -> None:
    for page in [*DOCS.rglob("*.md"), ROOT / "README.md", ROOT / "CHANGELOG.md"]:
        for target, anchor in re.findall(r"\]\((?!https?:)([^)#\s]*)#?([^)\s]*)\)", page.read_text("utf-8")):
            there = page.parent / target if target else page
            assert there.exists(), f"{page.name} → {target}"
            assert not anchor or anchor in _anchors(there), f"{page.name} → {target}#{anchor}"


def _anchors(page: Path) -> set[str]:
    """Of its headings, as GitHub makes them."""
    prose = re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.M | re.S)
    return {re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in re.findall(r"^#+ (.*)", prose, re.M)}


def test_the_page_on_scores_tells_the_numbers_in_force() -> None:
    written = (DOCS / "decisions" / "0007-scores.md").read_text("utf-8")
    (small,) = (each for each in CARDS if each.name == "bge-small-zh-v1.5")
    limits = (fitting_weights(likeness)["vector"] for likeness in (0.0, 1.0))
    curves = (number for pair in (small.calibration, small.hybrid, small.reranked) for number in pair or ())
    for number in (*curves, STRICT, FUZZY, CHANCE, QUESTION_LEAD, *limits):
        assert f"{number:g}".removeprefix("0") in written, number
    for likeness in (0.4, 0.45, 0.5):  # the formula, as it is written there
        told = re.search(r"`([\d.]+) − ([\d.]+) · \(均值 − ([\d.]+)\)`", written)
        assert told is not None
        expected = float(told[1]) - float(told[2]) * (likeness - float(told[3]))
        assert fitting_weights(likeness)["vector"] == pytest.approx(expected, abs=0.006)


def test_the_keys_of_a_bases_configuration_are_documented() -> None:
    written = (DOCS / "operations" / "settings.md").read_text("utf-8")
    assert [key for key in KINDS if f"`{key}`" not in written] == []


def test_every_decision_has_a_measurement() -> None:
    pages = sorted((DOCS / "decisions").glob("[0-9]*.md"))
    assert pages
    for page in pages:
        assert re.search(r"\d", page.read_text("utf-8").split("\n", 1)[1]), page.name
        assert "benchmarks" in page.read_text("utf-8") or "python" in page.read_text("utf-8"), page.name


def test_every_decision_is_in_the_list_of_them() -> None:
    listed = re.findall(r"\]\((\d[^)]+)\)", (DOCS / "decisions" / "README.md").read_text("utf-8"))
    assert sorted(listed) == sorted(page.name for page in (DOCS / "decisions").glob("[0-9]*.md"))


def test_values_that_the_data_model_names_are_there() -> None:
    written = (DOCS / "datamodel.md").read_text("utf-8")
    sources = "\n".join(path.read_text("utf-8") for path in (ROOT / "src" / "qianxun").rglob("*.py"))
    defined = set(re.findall(r"^\s*(?:class |)([A-Z]\w+)(?:\[|\(|:| =)", sources, re.M))
    named = set(re.findall(r"`((?:[A-Z][a-z]+)+)`", written))
    assert sorted(named - defined) == []


def test_every_page_of_the_manual_is_in_its_index() -> None:
    index = (DOCS / "operations.md").read_text("utf-8").split("## English")[0]
    linked = set(re.findall(r"\]\(operations/([a-z]+\.md)", index))
    assert linked == {page.name for page in (DOCS / "operations").glob("*.md")}
