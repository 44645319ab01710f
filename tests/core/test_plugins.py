"""Parts of other packages: found by their metadata, imported on demand, refused in words that say what to do."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from qianxun.core import plugins
from qianxun.core.errors import BadSettings, PluginError
from qianxun.engine.storage import INDEX_BACKENDS
from qianxun.ingest.parse import _MODULES
from qianxun.ingest.parse.sniff import _BY_SUFFIX
from qianxun.models import CARDS, RERANK_CARDS
from tests.installed_plugins import Install, install

__all__ = ["install"]

MODEL = "def create(name, **options):\n    return None\n"


def test_a_part_is_found_without_importing_it(install: Install) -> None:
    install("epub-reader", {"parser": {"epub": "plug_found:part"}, "chat": {"moon": "plug_found:create"}})
    assert plugins.discover("parser") == (plugins.Plugin("parser", "epub", "plug_found:part", "epub-reader", "1.2"),)
    assert [row.name for row in plugins.discover() if row.distribution == "epub-reader"] == ["epub", "moon"]
    assert "plug_found" not in sys.modules


def test_a_part_is_loaded(install: Install) -> None:
    text = "class part:\n    formats = ('.epub',)\n    @staticmethod\n    def parse(path, limits): return 1\n"
    install("epub-reader", {"parser": {"epub": "plug_loaded:part"}}, plug_loaded=text)
    assert plugins.load("parser", "epub").parse(None, None) == 1


def test_the_first_of_one_package_on_the_path_counts(install: Install, tmp_path: Path) -> None:
    install("twice", {"chat": {"moon": "plug_twice:create"}}, plug_twice=MODEL)
    other = tmp_path / "other"
    other.mkdir()
    (tmp_path / "twice-1.2.dist-info").rename(other / "twice-1.2.dist-info")
    install("twice", {"chat": {"moon": "plug_twice:create"}}, "2.0")
    sys.path.append(str(other))
    try:
        assert [row.version for row in plugins.discover("chat") if row.name == "moon"] == ["2.0"]
    finally:
        sys.path.remove(str(other))


@pytest.mark.parametrize(
    ("kind", "text", "complaint"),
    [
        ("chat", "create = 3", "create(name, **options)"),
        ("chat", "def create(name): pass", "参数不对"),
        ("chat", "qianxun_api = 2\n" + MODEL, "接口版本 2"),
        ("chat", MODEL + "create.qianxun_api = 0", "接口版本 0"),
        ("chat", "raise RuntimeError('broken')", "RuntimeError: broken"),
        ("chat", "", "AttributeError"),
        ("index", "class create: pass", "没有可调用的 create"),
        ("index", "class create:\n    @staticmethod\n    def create(): pass", "参数不对"),
        ("arm", "create = 1", "可调用"),
        ("parser", MODEL, "formats"),
        ("parser", "class create: formats = ('epub',)", "'epub'"),
        ("parser", "class create: formats = ('.pdf',)", ".pdf"),
        ("parser", "class create: formats = ('.epub',)", "parse"),
        ("parser", "class create:\n    formats = ('.epub',)\n    def parse(self, path, limits): ...", "参数不对"),
    ],
)
def test_what_does_not_fit_is_refused_by_package_and_reason(
    install: Install, kind: str, text: str, complaint: str
) -> None:
    install("moonlight", {kind: {"moon": "plug_bad:create"}}, plug_bad=text)
    with pytest.raises(PluginError) as caught:
        plugins.load(kind, "moon")
    assert isinstance(caught.value, BadSettings)
    assert "moonlight 1.2" in caught.value.message
    assert complaint in caught.value.message
    assert caught.value.hint
    assert [(row.plugin.name, row.fits) for row in plugins.survey()] == [("moon", False)]
    assert plugins.survey()[0].trouble == str(caught.value)


def test_names_of_ours_cannot_be_taken(install: Install) -> None:
    install("evil", {"reranker": {"maxsim": "plug_evil:create"}}, plug_evil=MODEL)
    assert plugins.names("reranker") == ()
    with pytest.raises(PluginError, match=r"evil 1\.2.*自带的名字 maxsim"):
        plugins.load("reranker", "maxsim")


def test_two_packages_with_one_name_are_refused_both(install: Install) -> None:
    install("one", {"chat": {"moon": "plug_one:create"}}, plug_one=MODEL)
    install("two", {"chat": {"moon": "plug_one:create"}})
    with pytest.raises(PluginError, match=r"one 1\.2、two 1\.2"):
        plugins.load("chat", "moon")
    assert [row.fits for row in plugins.survey()] == [False, False]


def test_two_parsers_of_one_file_ending_are_both_in_trouble(install: Install) -> None:
    text = "class part:\n    formats = ('.epub',)\n    @staticmethod\n    def parse(path, limits): return 1\n"
    install("one", {"parser": {"a": "plug_ending:part"}}, plug_ending=text)
    install("two", {"parser": {"b": "plug_ending:part"}})
    assert ["one 1.2" in row.trouble and "two 1.2" in row.trouble for row in plugins.survey()] == [True, True]


def test_an_embedding_model_has_a_dimension(install: Install) -> None:
    text = "class Model:\n    name = 'm'\n    dimension = 0\n    embed_passages = embed_query = print\n"
    text += "def create(name, **_): return Model()"
    install("vectors", {"embedding": {"m": "plug_flat:create"}}, plug_flat=text)
    with pytest.raises(PluginError, match=r"vectors 1\.2.*dimension 是 0"):
        plugins.create("embedding", "m", "m")


def test_a_name_that_is_not_installed(install: Install) -> None:
    with pytest.raises(PluginError, match="没有名为 moon 的 chat 插件"):
        plugins.load("chat", "moon")


def test_what_a_plugin_makes_has_what_its_port_asks(install: Install) -> None:
    install("moonlight", {"chat": {"moon": "plug_makes:create"}}, plug_makes=MODEL)
    with pytest.raises(PluginError, match=r"moonlight 1\.2.*缺少 name、complete"):
        plugins.create("chat", "moon", "moon")


def test_the_table_of_our_own_names_is_complete() -> None:
    assert plugins.OWN_NAMES["index"] == set(INDEX_BACKENDS)
    assert plugins.OWN_NAMES["embedding"] - {"none"} == {card.name for card in CARDS}
    assert plugins.OWN_NAMES["reranker"] - {"maxsim", "default"} == {card.name for card in RERANK_CARDS}
    assert plugins.OWN_NAMES["parser"] == set(_MODULES)
    assert set(_BY_SUFFIX) == plugins.OWN_FORMATS
