"""`qianxun examples`: the example library. Works also while a service has the data folder open."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from qianxun.core.codec.command_line import quoted
from qianxun.core.errors import AlreadyThere, BadInput, NotFound
from qianxun.doors.cli.i18n import Stopped, hint, out, print_json, tr, warn
from qianxun.doors.cli.progress import bars
from qianxun.doors.cli.session import JsonFlag, called, expect_records, program, session_of
from qianxun.doors.cli.views.examples import (
    described_statistics,
    show_found,
    show_import,
    show_statistics,
)

if TYPE_CHECKING:
    from qianxun.engine.admin.examples import Watch
    from qianxun.engine.settings import Settings

app = typer.Typer(help="示例库：四类对话示例 · the example library", no_args_is_help=True)


@app.command("import", help="导入 .xlsx 或 .json；再次导入同一文件什么也不变 · import examples; twice changes nothing")
def import_examples(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help=".xlsx 或 .json")],
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="跳过填错的行，其余照收 · let the good rows in")] = False,
    as_json: JsonFlag = False,
) -> int:
    from qianxun.engine.admin import examples

    with _progress(quiet=as_json) as watch:
        report = examples.import_examples(session_of(context).settings(), file, skip_bad=skip_bad, watch=watch)
    if as_json:
        print_json(report.as_dict())
    else:
        show_import(file, report)
    return 1 if report.rejected else 0


@app.command(help="写一个待填的工作簿，内有说明与示例行 · write a workbook to fill in, with a guide")
def template(
    file: Annotated[Path, typer.Argument(metavar="FILE.xlsx", help="写到哪里 · where to write it")],
    force: Annotated[bool, typer.Option("--force", help="已有的文件也覆盖 · overwrite")] = False,
    as_json: JsonFlag = False,
) -> None:
    from qianxun.engine.admin.examples import write_template

    if file.suffix.lower() != ".xlsx":
        raise BadInput(
            tr(f"模板是 Excel 工作簿，{file.name} 的后缀不对", f"The template is a workbook; {file.name} is not .xlsx"),
            hint=tr(f"改成 {file.with_suffix('.xlsx')}", f"Write {file.with_suffix('.xlsx')}"),
        )
    if file.exists() and not force:
        raise AlreadyThere(
            tr(f"已有文件 {file}", f"{file} is there already"),
            hint=tr("换个名字，或加 --force 覆盖它", "Choose another name, or overwrite it with --force"),
        )
    try:
        write_template(file)
    except OSError as error:
        raise BadInput(
            tr(f"写不了 {file}：{error.strerror}", f"Cannot write {file}: {error.strerror}"),
            hint=tr("换一个可写的地方", "Choose another place"),
        ) from error
    if as_json:
        print_json({"written": str(file)})
        return
    _done(f"已写好 {file}", f"Written: {file}")
    start = f"{called()} examples import {quoted(str(file))}"
    hint(f"填好之后：{start}（说明在第一页）", f"Once it is filled in: {start}")


@app.command(help="找最像的示例 · the examples most like a question")
def search(
    context: typer.Context,
    query: Annotated[str, typer.Argument(metavar="QUERY", help="用户的话 · what somebody says")],
    keyword: Annotated[list[str] | None, typer.Option(metavar="W", help="关键词，可多次 · repeatable")] = None,
    table: Annotated[
        list[str] | None, typer.Option(metavar="T", help="只在这类里找（qa_examples 或 问答），可多次 · repeatable")
    ] = None,
    top_k: Annotated[int | None, typer.Option(metavar="N", help="最多几条 · at most")] = None,
    threshold: Annotated[float | None, typer.Option(metavar="X", help="相似度下限 · least similarity")] = None,
    as_json: JsonFlag = False,
) -> None:
    from qianxun.engine.example_library import open_library

    settings = _settings(context)
    started = time.perf_counter()
    with open_library(settings) as library:
        defaults = library.settings
        found = library.vector_db_search(
            query,
            keyword,
            defaults.global_top_k if top_k is None else top_k,
            defaults.similarity_threshold if threshold is None else threshold,
            [_category(name, settings) for name in table] if table else None,
            min_results=defaults.min_results if threshold is None else 0,
            top_k_per_table=defaults.top_k_per_table,
        )
    seconds = time.perf_counter() - started
    if as_json:
        print_json({"query": query, "time_cost_ms": round(seconds * 1000), "examples": found})
    else:
        show_found(program(settings), found, seconds)


@app.command(help="数目、等级、标签与近似重复 · counts, grades, tags and near-duplicates")
def stats(
    context: typer.Context,
    near: Annotated[
        float, typer.Option(metavar="X", help="相似到多少算近似重复 · from which cosine two are near-duplicates")
    ] = 0.95,
    as_json: JsonFlag = False,
) -> None:
    from qianxun.engine.admin.examples import library_statistics

    settings = _settings(context)
    found = library_statistics(settings, near)
    if as_json:
        print_json(described_statistics(found))
    else:
        show_statistics(program(settings), found)


@app.command(help="换了模型以后，重算所有示例的向量 · embed every example anew, after a change of model")
def reembed(context: typer.Context, as_json: JsonFlag = False) -> None:
    from qianxun.engine.admin import examples

    settings = _settings(context)
    with _progress(quiet=as_json) as watch:
        count, name, dimension = examples.reembed(settings, watch)
    if as_json:
        print_json({"examples": count, "model": name, "dimension": dimension})
        return
    model = f"{name}（{dimension}）"
    _done(f"{count} 条示例已换用 {model}", f"{count} examples now use {model}")


@app.command(help="删去示例，编号见 search 与 stats · remove examples by their ids")
def remove(
    context: typer.Context,
    table: Annotated[str, typer.Argument(metavar="TABLE", help="哪一类（qa_examples 或 问答） · the category")],
    ids: Annotated[list[int], typer.Argument(metavar="ID...", help="编号 · ids")],
    as_json: JsonFlag = False,
) -> int:
    from qianxun.engine.admin.examples import remove_examples

    settings = _settings(context)
    removed = remove_examples(settings, _category(table, settings), ids)
    missing = sorted(set(ids) - set(removed))
    if as_json:
        print_json({"removed": removed, "missing": missing})
        return 1 if missing else 0
    _done(f"已删去 {len(removed)} 条", f"Removed {len(removed)}")
    if missing:
        ids_missing = "、".join(map(str, missing))
        warn(f"没有这些编号：{ids_missing}", f"There is no such example: {ids_missing}")
    return 1 if missing else 0


@app.command(help="把评为好的对话收进示例库（.json、.jsonl） · take dialogues rated as good into the library")
def adopt(
    context: typer.Context,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="每段有 user_input、agent_response 或 messages，与 rating")
    ],
    table: Annotated[str, typer.Option(metavar="T", help="收进哪一类 · the category")] = "qa_examples",
    near: Annotated[
        float, typer.Option(metavar="X", help="相似到多少算已经有了 · from which cosine it is known")
    ] = 0.95,
    as_json: JsonFlag = False,
) -> int:
    from qianxun.engine.admin import examples

    settings = _settings(context)
    report = examples.adopt(settings, file, _category(table, settings), near)
    if as_json:
        print_json(asdict(report))
        return 1 if report.rejected else 0
    _done(
        f"收进 {report.added} 条；没有评为好的 {report.unrated} 条，已经有了的 {report.near} 条",
        f"Added {report.added}; not rated as good {report.unrated}, known already {report.near}",
    )
    for reason in report.rejected:
        warn(reason, reason)
    return 1 if report.rejected else 0


@app.command(help="两份设置做 A/B 测试：哪一份更能找到标注的示例 · compare two settings on labelled questions")
def compare(
    context: typer.Context,
    labelled: Annotated[Path, typer.Argument(metavar="FILE", help='[{"query": "问题", "expected": ["用户输入"]}]')],
    config: Annotated[list[Path], typer.Option("--config", metavar="FILE", help="两份设置，A 与 B · two settings")],
    as_json: JsonFlag = False,
) -> None:
    from qianxun.engine.admin import examples
    from qianxun.engine.settings import load

    if len(config) != 2:
        raise BadInput(tr("要两份设置", "Two settings are needed"), hint="--config A.yaml --config B.yaml")
    own = {"data": _settings(context).data}
    found = examples.compare_settings(labelled, *(load(file, arguments=own) for file in config))
    if as_json:
        print_json({**asdict(found), "is_significant": found.is_significant})
        return
    first, second = found.mean_scores
    chance, verdict = f"p = {found.p_value:.3f}", "有" if found.is_significant else "没有"
    _done(
        f"{found.metric}：A {first:.3f}，B {second:.3f}（{found.queries} 问，{chance}，{verdict}显著差别）",
        f"{found.metric}: A {first:.3f}, B {second:.3f} ({found.queries} questions, {chance})",
    )


def _done(zh: str, en: str) -> None:
    out().print(f"✓ {tr(zh, en)}", markup=False, style="green")


def _category(name: str, settings: Settings) -> str:
    from qianxun.engine.admin.examples import category_of, expected_names
    from qianxun.engine.example_library import more_tables

    if not (category := category_of(name, settings.examples.prefix, more_tables(settings))):
        raise NotFound(
            tr(f"没有叫“{name}”的一类示例", f"There is no category “{name}”"),
            hint=tr(f"可用：{expected_names()}", f"There are: {expected_names()}"),
        )
    return category


def _settings(context: typer.Context) -> Settings:
    """Raises NotFound where there is no library yet."""
    settings = session_of(context).settings()
    first = f"{program(settings)} examples import FILE.xlsx"
    expect_records(
        settings,
        ("示例库", "no example library"),
        (
            f"先运行 {first}；数据若在别处，用 --data DIR 指明",
            f"First run: {first}; or say where it is with --data DIR",
        ),
    )
    return settings


@contextmanager
def _progress(*, quiet: bool) -> Iterator[Watch]:
    """A bar while vectors are made. Stopping it then changes nothing."""
    with bars(quiet=quiet) as shown:
        task = shown.task(tr("向量化", "embedding"), tr("条", "examples"))
        try:
            yield lambda done, total: shown.update(task, completed=done, total=total)
        except KeyboardInterrupt:
            shown.stop()
            raise Stopped(tr("已停下，示例库没有变化。", "Stopped; the library is as it was.")) from None
