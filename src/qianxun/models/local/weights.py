"""Model files on disk: finding them and checking their hashes."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from hashlib import file_digest
from pathlib import Path

from qianxun.core.errors import HashMismatch, ModelUnavailable
from qianxun.models.cards import AnyCard, ModelFile, any_card

SUMS = "SHA256SUMS"  # in the form of `sha256sum -c`; the hashes of files that no card pins


def find_local(name: str | AnyCard, folders: Sequence[Path]) -> Path | None:
    """The first folder with every file of the model: a folder itself, or one in it with the model's name."""
    model = any_card(name)
    for folder in folders:
        for place in (folder, *(folder / known for known in (model.name, *model.aliases))):
            if all((place / file.path).is_file() for file in model.files):
                return place
    return None


def sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return file_digest(stream, "sha256").hexdigest()


def recorded_sums(folder: Path) -> Mapping[str, str]:
    """The hashes recorded when the files were first accepted."""
    try:
        lines = (folder / SUMS).read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return {}
    pairs = (line.split(maxsplit=1) for line in lines if line.strip())
    return {pair[1].lstrip("*").strip(): pair[0].lower() for pair in pairs if len(pair) == 2}


def record_sums(folder: Path, sums: Mapping[str, str]) -> None:
    """Writes the record atomically."""
    temporary = folder / f".{SUMS}.{os.getpid()}"
    temporary.write_text("".join(f"{digest}  {path}\n" for path, digest in sorted(sums.items())), encoding="utf-8")
    temporary.replace(folder / SUMS)


def check_file(model: AnyCard, file: ModelFile, path: Path, recorded: Mapping[str, str]) -> str:
    """The file's hash, if it is the card's or else the recorded one. Raises HashMismatch, also without both."""
    expected = file.sha256 or recorded.get(file.path, "")
    if not expected:
        raise HashMismatch(
            f"模型 {model.name} 的 {file.path} 没有固定或登记过的哈希，不能使用",
            hint=f"若信任其来源，请运行 qianxun models pull {model.name} --accept-unpinned 登记它",
        )
    actual = sha256(path)
    if actual != expected:
        raise HashMismatch(
            f"模型 {model.name} 的 {file.path} 与登记的哈希不符：应为 {expected[:12]}…，实为 {actual[:12]}…",
            hint=f"文件可能损坏或被替换；请删除 {path} 后运行 qianxun models pull {model.name}",
        )
    return actual


def check_folder(model: AnyCard, folder: Path) -> None:
    """Checks the hash of every file of the model. Raises ModelUnavailable or HashMismatch."""
    recorded = recorded_sums(folder)
    for file in model.files:
        path = folder / file.path
        if not path.is_file():
            raise ModelUnavailable(
                f"在 {folder} 中找不到模型 {model.name} 的 {file.path}",
                hint=f"请运行 qianxun models pull {model.name}",
            )
        check_file(model, file, path, recorded)
