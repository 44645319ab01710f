"""File, then environment, then arguments; every value knows where it came from."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from qianxun.core.errors import BadSettings
from qianxun.engine.settings import has_span_endpoint, load, names, variable_of


def write(folder: Path, text: str, name: str = "qianxun.yaml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_defaults_need_no_file(tmp_path: Path) -> None:
    settings = load(environment={}, folder=tmp_path)
    assert (settings.chunking.chunk_size, settings.chunking.chunk_overlap) == (500, 50)
    assert {origin for _, _, origin in settings.rows()} == {"默认值"}


def test_later_sources_win_and_each_value_names_its_origin(tmp_path: Path) -> None:
    file = write(tmp_path, "rag:\n  chunking: {chunk_size: 300, chunk_overlap: 30}\n  search: {top_k: 7}\n")
    settings = load(
        environment={"QIANXUN_CHUNKING_CHUNK_SIZE": "200", "QIANXUN_SEARCH_TOP_K": "6"},
        arguments={"search.top_k": 5, "data": None},
        folder=tmp_path,
    )
    assert (settings.chunking.chunk_size, settings.chunking.chunk_overlap, settings.search.top_k) == (200, 30, 5)
    origins = {name: origin for name, _, origin in settings.rows()}
    assert origins["chunking.chunk_overlap"] == f"文件 {file}"
    assert origins["chunking.chunk_size"] == "环境变量 QIANXUN_CHUNKING_CHUNK_SIZE"
    assert origins["search.top_k"] == "参数"
    assert origins["data"] == "默认值"


def test_json_files_and_files_without_the_outer_key_are_read(tmp_path: Path) -> None:
    file = write(tmp_path, '{"chunking": {"by_meaning": true}, "data": "库"}', "a.json")
    settings = load(file, environment={})
    assert settings.chunking.by_meaning
    assert settings.data == "库"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("chunking: {chunk_size: 很大}", "应为整数"),
        ("chunking: {chunk_size: 2.5}", "应为整数"),
        ("chunking: {chunksize: 1}", "没有名为"),
        ("search: {chunk_size: 1}", "chunking.chunk_size"),
        ("chunking: {by_meaning: 也许}", "true 或 false"),
        ("- 一\n- 二", "键值对"),
        ("a: [", "不是合法的"),
    ],
)
def test_bad_files_say_what_to_do(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(BadSettings, match=told):
        load(write(tmp_path, text), environment={})


ENGINES = """{"rag_system": {"retrieval_strategy": {
  "text_engine": {"enabled": true, "max_results": 20, "similarity_threshold": 0.75, "use_keyword_search": false},
  "table_engine": {"max_results": 8, "similarity_threshold": 0.6, "use_expansion_search": false}}}}"""


def test_the_layered_engines_start_as_the_seed_has_them() -> None:
    settings = load(environment={})
    assert (settings.text_engine.max_results, settings.text_engine.similarity_threshold) == (30, 0.7)
    assert (settings.table_engine.max_results, settings.table_engine.similarity_threshold) == (15, 0.65)
    assert settings.table_engine.structure_weight == 0.4


def test_the_layered_engines_are_read_where_the_seed_writes_them(tmp_path: Path) -> None:
    settings = load(write(tmp_path, ENGINES, "qianxun.json"), environment={})
    assert (settings.text_engine.max_results, settings.text_engine.use_keyword_search) == (20, False)
    assert (settings.table_engine.similarity_threshold, settings.table_engine.use_expansion_search) == (0.6, False)
    assert settings.text_engine.keyword_threshold == 0.5  # what the file leaves out

    file = write(tmp_path, '{"rag": {"search": {"top_k": 3}}, ' + ENGINES[1:], "beside.json")
    beside = load(file, environment={"QIANXUN_TEXT_ENGINE_SIMILARITY_THRESHOLD": "0.9"})
    assert (beside.search.top_k, beside.text_engine.max_results, beside.text_engine.similarity_threshold) == (
        3,
        20,
        0.9,
    )
    assert beside.origins["text_engine.similarity_threshold"].startswith("环境变量")
    assert beside.origins["text_engine.max_results"] == f"文件 {file}"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("text_engine: {similarity_threshold: 1.2}", "0–1"),
        ("text_engine: {similarity_threshold: .nan}", "0–1"),
        ("text_engine: {search_k_multiplier: .inf}", "1–20"),
        ("table_engine: {max_results: 0}", "1–100"),
        ("table_engine: {use_semantic_search: 也许}", "true 或 false"),
        ("table_engine: {search_k_multiplier: 2}", r"text_engine\.search_k_multiplier"),
        ("rag_system: {retrieval_strategy: {text_engine: {max_result: 3}}}", r"text_engine\.max_result"),
        ("rag_system: {retrieval_strategy: {image_engine: {}}}", "text_engine、table_engine"),
        ("rag_system: {strategy: {}}", "retrieval_strategy"),
        ("rag_system: [1]", "retrieval_strategy"),
        ("text_engine: {max_results: 3}\nrag_system: {retrieval_strategy: {text_engine: {max_results: 4}}}", "两处"),
    ],
)
def test_what_no_layered_engine_can_do_is_refused(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(BadSettings) as refused:
        load(write(tmp_path, text), environment={})
    assert re.search(told, f"{refused.value.message} {refused.value.hint}")


def test_a_missing_or_foreign_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(BadSettings, match="读不了"):
        load(tmp_path / "没有.yaml", environment={})
    (tmp_path / "gbk.yaml").write_bytes("data: 数据".encode("gbk"))
    with pytest.raises(BadSettings, match="UTF-8"):
        load(tmp_path / "gbk.yaml", environment={})


def test_an_empty_data_folder_is_not_the_current_one(tmp_path: Path) -> None:
    for told in ({"environment": {}, "arguments": {"data": " "}}, {"environment": {"QIANXUN_DATA": ""}}):
        with pytest.raises(BadSettings, match="data 是空的"):
            load(folder=tmp_path, **told)


def test_lists_of_the_environment_are_parted_by_what_their_items_do_not_hold() -> None:
    folders = os.pathsep.join(["/a b", "/c"])
    found = load(
        environment={
            "QIANXUN_OUTBOUND_ALLOW": "127.0.0.1:11434, [::1]:80,",
            "QIANXUN_VECTORIZATION_MODEL_FOLDERS": folders,
        }
    )
    assert found.outbound.allow == ("127.0.0.1:11434", "[::1]:80")
    assert found.vectorization.model_folders == ("/a b", "/c")
    assert load(environment={"QIANXUN_OUTBOUND_ALLOW": ""}).outbound.allow == ()


def test_secrets_are_masked() -> None:
    settings = load(environment={"QIANXUN_VECTORIZATION_API_KEY": "sk-canary"})
    assert "sk-canary" not in repr(settings)
    assert "sk-canary" not in str(settings.rows())
    assert settings.vectorization.api_key == "sk-canary"


def test_every_setting_has_its_variable() -> None:
    assert variable_of("chunking.chunk_size") == "QIANXUN_CHUNKING_CHUNK_SIZE"
    assert len({variable_of(name) for name in names()}) == len(names())


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://collector:4318/v1/traces"}, True),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": ""}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318", "OTEL_SDK_DISABLED": "True"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318", "OTEL_TRACES_EXPORTER": "none"}, False),
    ],
)
def test_spans_are_wanted_where_opentelemetrys_variables_say_where_they_go(
    environment: dict[str, str], expected: bool
) -> None:
    assert has_span_endpoint(environment) is expected
