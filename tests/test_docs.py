"""Documents that cannot lie: settings, layers and modules are compared with the code."""

from __future__ import annotations

import re
from pathlib import Path

from qianxun.settings import Settings, names

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"


def test_every_setting_is_documented_with_its_default() -> None:
    told = dict(re.findall(r"^\| `([a-z_.]+)` \| (.*?) \|", (DOCS / "operations.md").read_text("utf-8"), re.M))
    assert list(told) == names()
    for name, value, _ in Settings().rows():
        shown = "none" if value in ("", ()) else f"`{value}`"
        assert told[name] == shown, name


def test_the_map_names_every_module_of_the_pipelines() -> None:
    written = (DOCS / "architecture.md").read_text("utf-8")
    for module in (ROOT / "src" / "qianxun" / "pipelines").glob("*.py"):
        if module.name not in ("__init__.py", "base.py"):
            assert module.name in written


def test_links_between_documents_lead_somewhere() -> None:
    for page in [*DOCS.rglob("*.md"), ROOT / "README.md", ROOT / "CHANGELOG.md"]:
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text("utf-8")):
            assert (page.parent / target).exists(), f"{page.name} → {target}"


def test_every_decision_has_a_measurement() -> None:
    pages = sorted((DOCS / "decisions").glob("[0-9]*.md"))
    assert pages
    for page in pages:
        assert re.search(r"\d", page.read_text("utf-8").split("\n", 1)[1]), page.name
        assert "benchmarks" in page.read_text("utf-8") or "python" in page.read_text("utf-8"), page.name
