"""The lines of an exported base, read as something that a stranger may have written: bounded, and refused aloud.

`checked` reads a file to its end, `lines` gives its lines; what cannot be understood in one is Refused by `understood`.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from qianxun.core.codec.typed import fits
from qianxun.core.errors import BadInput, Refused
from qianxun.core.limits import MIB

FORMAT: Final = "qianxun knowledge base"
HEAD: Final[Mapping[str, Any]] = {
    "version": int,
    "name": str,
    "kind": str,
    "embedding_model": str,
    "dimension": int,
    "config": Mapping[str, Any],
}
NOT_UNDERSTOOD: Final = (
    KeyError, TypeError, ValueError, AttributeError, IndexError, RecursionError, OverflowError
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Limits:
    """How much of a file is in memory at a time, and how much may come out of it.

    A line is one document with its chunks and vectors. Gzip makes a thousand bytes of one: without a bound a file of
    3 MB took 9 GB of the process that serves everybody. And a list takes three bytes of a line, but seventy of memory:
    ten million of them, in a file of 180 KB, took 800 MB and let nobody else in for half a minute.
    """

    line_bytes: int
    expansion: float = float("inf")  # all bytes of the lines by those of the file
    line_values: float = float("inf")  # of a line, as far as brackets and commas tell


KINDS: Final = frozenset(("document", "correction", "alias", "section", "sha256"))  # of lines, below the first
OWN: Final = Limits(1024 * MIB)
# A document of two and a half million characters, with vectors.
UPLOADED: Final = Limits(32 * MIB, expansion=200.0, line_values=1_000_000)


@contextmanager
def understood(file: Path, number: int) -> Iterator[None]:
    """What is written otherwise than it should be is Refused, with its line; errors of a database pass."""
    try:
        yield
    except NOT_UNDERSTOOD as error:
        raise Refused(f"{file.name} 的第 {number} 行读不懂", hint="重新导出，或换一个没有损坏的副本") from error


def lines(file: Path, limits: Limits = OWN) -> Iterator[tuple[bytes, dict[str, Any]]]:
    """Raises Refused for what cannot be read, or is larger than the limits."""
    try:
        most = max(limits.line_bytes, file.stat().st_size * limits.expansion)
        with gzip.open(file, "rb") as stream:
            read = 0
            while data := stream.readline(limits.line_bytes + 1):
                read += len(data)
                if len(data) > limits.line_bytes or read > most or _values(data) > limits.line_values:
                    raise Refused(f"{file.name} 展开后过大", hint="在服务所在的机器上用 qianxun kb import 导入")
                line = json.loads(data.decode("utf-8", "surrogatepass"))
                if not isinstance(line, dict):
                    raise ValueError("no object")
                yield data, line
    except FileNotFoundError as error:
        raise BadInput(f"没有文件 {file}", hint="检查路径") from error
    except gzip.BadGzipFile as error:
        raise Refused(f"{file.name} 不是知识库文件", hint="应是 qianxun kb export 写出的文件") from error
    except (OSError, EOFError, ValueError, RecursionError, zlib.error) as error:
        raise Refused(f"{file.name} 不是完整的知识库文件：{error}", hint="重新导出，或换一个没有损坏的副本") from error


def _values(line: bytes) -> int:
    """No less than the values of a line of JSON: commas and brackets within texts count as well."""
    return line.count(b",") + line.count(b"[") + line.count(b"{")


def checked(file: Path, limits: Limits, newest: int, sections: Mapping[str, int]) -> tuple[dict[str, Any], int, int]:
    """The first line, and what the last one says there is, if that is true."""
    digest, head, last, number = hashlib.sha256(), dict[str, Any](), dict[str, Any](), 0
    for data, line in lines(file, limits):
        if not head:
            head = line
            _check_head(file, head, newest, sections)
        elif KINDS.isdisjoint(
            line
        ):  # a few kilobytes unpack to millions of such lines, which take minutes to pass over
            raise Refused(f"{file.name} 里有读不懂的一行", hint="重新导出，或换一个没有损坏的副本")
        if "sha256" in last:
            raise Refused(f"{file.name} 在结尾之后还有内容", hint="重新导出")
        number += "document" in line
        if "sha256" in line and line["sha256"] != digest.hexdigest():
            raise Refused(f"{file.name} 的内容与它的校验和不符", hint="重新导出，或换一个没有损坏的副本")
        digest.update(data)
        last = line
    if "sha256" not in last or last.get("documents") != number or not fits(last.get("chunks"), int):
        raise Refused(f"{file.name} 不完整：没有结尾", hint="重新导出，或换一个完整的副本")
    return head, number, last["chunks"]


def _check_head(file: Path, head: Mapping[str, Any], newest: int, known: Mapping[str, int]) -> None:
    if head.get("format") != FORMAT:
        raise Refused(f"{file.name} 不是导出的知识库", hint="用 qianxun kb export 导出")
    if not fits(head.get("version"), int) or not fits(head.get("sections", {}), Mapping[str, int]):
        raise Refused(f"{file.name} 的第 1 行读不懂", hint="重新导出，或换一个没有损坏的副本")
    if head["version"] > newest:
        reason = f"{file.name} 是第 {head['version']} 版的格式，这里只认到第 {newest} 版"
        raise Refused(reason, hint="用同一版或更新的 qianxun 导入")
    for name, version in head.get("sections", {}).items():
        if version > known.get(name, 0):
            raise Refused(f"{file.name} 里有这里不认得的“{name}”", hint="用同一版或更新的 qianxun 导入")
    if not all(name in head and fits(head[name], hint) for name, hint in HEAD.items()):
        raise Refused(f"{file.name} 的第 1 行读不懂", hint="重新导出，或换一个没有损坏的副本")
