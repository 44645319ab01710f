"""Packages with entry points, made in a folder of the test and put on the path."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import pytest

from qianxun.core import plugins

Install: TypeAlias = Callable[..., Path]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Puts a package with its metadata on the path: ``install("epub-reader", {"parser": {"epub": "m:part"}}, m=…)``."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def installed(name: str, parts: dict[str, dict[str, str]], version: str = "1.2", **modules: str) -> Path:
        folder = tmp_path / f"{name.replace('-', '_')}-{version}.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n", "utf-8")
        lines = []
        for kind, rows in parts.items():
            lines += [f"[{plugins.GROUPS[kind]}]", *(f"{key} = {value}" for key, value in rows.items())]
        (folder / "entry_points.txt").write_text("\n".join(lines) + "\n", "utf-8")
        for module, text in modules.items():
            (tmp_path / f"{module}.py").write_text(text, "utf-8")
            monkeypatch.delitem(sys.modules, module, raising=False)
        plugins._installed.cache_clear()
        return folder

    yield installed
    plugins._installed.cache_clear()
