"""The worker process that parses untrusted files: ``python -m qianxun.ingest.sandbox.worker``, run by the pool.

Reads requests from its standard input and replies on what was its standard output, both as a length of eight bytes
and that many bytes of JSON; the first byte of a reply is its kind. It opens no connection, starts no program and
writes no file.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import signal
import sys
from pathlib import Path
from typing import Any, BinaryIO, Final

from qianxun.core.errors import MissingExtra, Refused, TooLarge, Unreadable
from qianxun.ingest.parse import NEEDS_OCR_MEMORY, parse
from qianxun.ingest.parse.pages import image
from qianxun.ingest.parse.pages.ocr import upright_jpeg
from qianxun.ingest.parse.plugins import PluginFailed
from qianxun.ingest.parse.sniff import sniff
from qianxun.ingest.sandbox.limits import ParseLimits
from qianxun.ingest.sandbox.serial import to_json

ALIVE: Final = b"."  # a page is done
PARSED: Final = b"+"
REFUSED: Final = b"-"
_FILES: Final = 256  # descriptors of a worker
_PR_SET_PDEATHSIG: Final = 1
_FORBIDDEN: Final = (
    "socket.connect", "socket.bind", "socket.sendto", "socket.getaddrinfo", "subprocess.Popen", "os.system", "os.exec",
    "os.posix_spawn", "os.spawn", "os.fork", "os.forkpty", "os.kill", "os.remove", "os.rename", "os.chmod",
    "shutil.rmtree",
)  # fmt: skip


def main() -> None:
    replies = os.fdopen(os.dup(1), "wb")
    # What libraries print must not mix with the replies.
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    _harden()
    requests = sys.stdin.buffer
    while (request := _receive(requests)) is not None:
        if not _serve(json.loads(request), replies):
            return


def _receive(stream: BinaryIO) -> bytes | None:
    head = stream.read(8)
    return stream.read(int.from_bytes(head, "big")) if len(head) == 8 else None


def send(stream: BinaryIO, kind: bytes, body: bytes = b"") -> None:
    stream.write((len(body) + 1).to_bytes(8, "big") + kind + body)
    stream.flush()


def _harden() -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = _FILES if hard == resource.RLIM_INFINITY else min(_FILES, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    if sys.platform == "linux":
        # Dies with its parent, even one that was killed.
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    sys.setrecursionlimit(2_000)
    sys.addaudithook(_refuse)


def _refuse(event: str, args: tuple[Any, ...]) -> None:
    if event.startswith(_FORBIDDEN):
        raise PermissionError(f"a parsing worker may not do this: {event}")


def _bound(memory: int, seconds: float) -> None:
    """Soft limits for the next file, on top of what is mapped already; the hard ones stay for later files."""
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    most = _mapped() + memory
    resource.setrlimit(resource.RLIMIT_AS, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))
    used = resource.getrusage(resource.RUSAGE_SELF)
    spent = used.ru_utime + used.ru_stime
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (int(spent + seconds * (os.cpu_count() or 1)) + 5, hard))


def _mapped() -> int:
    """Bytes of address space in use: the libraries, after a first picture the recognition models."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except OSError:  # only Linux has it
        return 0
    return pages * resource.getpagesize()


def _serve(request: dict[str, Any], replies: BinaryIO) -> bool:
    """Answers one request; False when this process should not go on afterwards."""
    path, limits = Path(request["path"]), ParseLimits(**request["limits"])
    try:
        heavy = limits.ocr and sniff(path).format in NEEDS_OCR_MEMORY
        _bound(limits.ocr_memory_bytes if heavy else limits.memory_bytes, limits.total_seconds)
        body = _output(request["output"], path, limits, replies)
        if len(body) > limits.result_bytes:
            raise TooLarge("解析结果过大", hint="请拆分文件，或调大 result_bytes 上限")
        send(replies, PARSED, body)
        return True
    except PluginFailed as failure:
        _send_refusal(replies, failure)
    except (Refused, MissingExtra) as refusal:
        _send_refusal(replies, refusal, sound=True)
        return True
    except MemoryError:
        _relax()
        _send_refusal(replies, TooLarge("解析时内存超限", hint="请拆分文件，或调大内存上限"))
    except RecursionError:
        _send_refusal(replies, TooLarge("嵌套过深", hint="请简化文件结构"))
    except OSError as failure:
        _send_refusal(replies, Unreadable(f"读不了文件（{type(failure).__name__}）", hint="请检查文件与权限"))
    except Exception as failure:  # the outer door of a process whose libraries may raise anything
        _send_refusal(replies, Unreadable(f"解析失败（{type(failure).__name__}）", hint="文件可能已损坏，请重新导出"))
    return False


def _output(output: str, path: Path, limits: ParseLimits, replies: BinaryIO) -> bytes:
    if output == "picture":
        return upright_jpeg(path, limits)
    if output == "recognised":
        return to_json(image.parse(path, limits))
    return to_json(parse(path, limits, lambda: send(replies, ALIVE)))


def _relax() -> None:
    with contextlib.suppress(ValueError, OSError):
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (hard, hard))


def _send_refusal(replies: BinaryIO, refusal: Refused | MissingExtra, sound: bool = False) -> None:
    fields = {"word": refusal.word, "message": refusal.message, "hint": refusal.hint, "sound": sound}
    if isinstance(refusal, MissingExtra):
        fields |= {"package": refusal.package, "extra": refusal.extra}
    send(replies, REFUSED, json.dumps(fields).encode("ascii"))


if __name__ == "__main__":
    main()
