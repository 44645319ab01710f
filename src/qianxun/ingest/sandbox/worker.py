"""The worker process that reads untrusted documents: ``python -m qianxun.ingest.sandbox.worker``, run by the pool.

Reads requests from its standard input and replies on what was its standard output, both as a length of eight bytes
and that many bytes of JSON; the first byte of a reply is its kind. Texts follow their request in slices, each of them
ended by an empty one. It opens no connection, starts no program and writes no file.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO, Final

from qianxun.core.documents import ParsedFile, Text
from qianxun.core.errors import BadInput, MissingExtra, Refused, TooLarge, Unreadable
from qianxun.core.filters import Metadata
from qianxun.ingest.assemble import assemble
from qianxun.ingest.parse import parse
from qianxun.ingest.parse.plugins import PluginFailed
from qianxun.ingest.parse.sniff import OldFormat
from qianxun.ingest.sandbox import budget
from qianxun.ingest.sandbox.limits import ParseLimits
from qianxun.ingest.sandbox.serial import to_json
from qianxun.ingest.sandbox.text_messages import messages_of
from qianxun.ingest.tables.from_metadata import read_content

ALIVE: Final = b"."  # a page is done
PART: Final = b"*"  # of the reply
PARSED: Final = b"+"  # the last part of it
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
        fields = json.loads(request)
        fields["texts"] = [(_receive_text(requests), *about) for about in fields.get("texts", ())]
        if not _serve(fields, replies):
            return


def _receive(stream: BinaryIO) -> bytes | None:
    head = stream.read(8)
    return stream.read(int.from_bytes(head, "big")) if len(head) == 8 else None


def _receive_text(stream: BinaryIO) -> str:
    return b"".join(iter(lambda: _receive(stream) or b"", b"")).decode("utf-8", "surrogatepass")


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


def _serve(request: dict[str, Any], replies: BinaryIO) -> bool:
    """Answers one request; False when this process should not go on afterwards."""
    limits = ParseLimits(**request["limits"])
    try:
        if request["texts"]:
            budget.begin(limits, sum(len(content) for content, *_ in request["texts"]))
            _send_parts(replies, (_read(limits, *text) for text in request["texts"]))
        else:
            path = Path(request["path"])
            with path.open("rb") as opened:
                budget.begin(limits, path.stat().st_size, is_packed=opened.read(4) in (b"PK\x03\x04", b"%PDF"))
            _serve_file(request["output"], path, limits, replies)
        return True
    except PluginFailed as failure:
        _send_refusal(replies, failure)
    except (Refused, MissingExtra, BadInput) as refusal:
        _send_refusal(replies, refusal, sound=True)
        return True
    except MemoryError:
        budget.relax()
        _send_refusal(replies, TooLarge("解析时内存超限", hint="请拆分文件"))
    except RecursionError:
        _send_refusal(replies, TooLarge("嵌套过深", hint="请简化文件结构"))
    except OSError as failure:
        _send_refusal(replies, Unreadable(f"读不了文件（{type(failure).__name__}）", hint="请检查文件与权限"))
    except Exception as failure:  # the outer door of a process whose libraries may raise anything
        _send_refusal(replies, Unreadable(f"解析失败（{type(failure).__name__}）", hint="文件可能已损坏，请重新导出"))
    return False


def _serve_file(output: str, path: Path, limits: ParseLimits, replies: BinaryIO) -> None:
    def on_page() -> None:
        budget.renew()
        send(replies, ALIVE)

    if output == "text":
        _send_parts(replies, [_file_text(path, limits, on_page)])
        return
    if output == "picture":
        from qianxun.ingest.parse.pages.ocr import upright_jpeg  # with numpy, which most files do without

        body = upright_jpeg(path, limits)
    elif output == "recognised":
        from qianxun.ingest.parse.pages import image

        body = to_json(image.parse(path, limits))
    else:
        body = to_json(parse(path, limits, on_page))
    if len(body) > limits.result_bytes:
        raise TooLarge("解析结果过大", hint="请拆分文件")
    send(replies, PARSED, body)


def _file_text(path: Path, limits: ParseLimits, on_page: Callable[[], None]) -> ParsedFile:
    parsed = parse(path, limits, on_page)
    if len(parsed.pairs) > limits.parts:
        raise TooLarge(f"问答超过 {limits.parts} 条", hint="请拆分文件")
    return replace(parsed, blocks=(), text=_checked(assemble(parsed), limits))


def _read(limits: ParseLimits, content: str, format: Any, name: str, table: Metadata) -> Text:
    return _checked(read_content(content, format, name, table, limits), limits)


def _checked(text: Text, limits: ParseLimits) -> Text:
    """Raises TooLarge for a text that would become very many chunks."""
    if len(text.content) > limits.characters:
        raise TooLarge(f"正文超过 {limits.characters} 字", hint="请拆分成几个文档，或调大 parsing.characters")
    if len(text.marks) + len(text.tables) > limits.parts:
        raise TooLarge(f"标题与表格超过 {limits.parts} 个", hint="请拆分成几个文档")
    if sum(len(span.table.columns) * len(span.table.rows) for span in text.tables) > limits.cells:
        raise TooLarge(f"表格超过 {limits.cells} 个单元格", hint="请拆分成几个文档")
    return text


def _send_parts(replies: BinaryIO, texts: Iterable[Text | ParsedFile]) -> None:
    for message in messages_of(texts):
        send(replies, PART, message)
    send(replies, PARSED)


def _send_refusal(replies: BinaryIO, refusal: Refused | MissingExtra | BadInput, sound: bool = False) -> None:
    fields = {"word": refusal.word, "message": refusal.message, "hint": refusal.hint, "sound": sound}
    if isinstance(refusal, OldFormat):
        fields["target"] = refusal.target
    if isinstance(refusal, MissingExtra):
        fields |= {"package": refusal.package, "extra": refusal.extra}
    send(replies, REFUSED, json.dumps(fields).encode("ascii"))


if __name__ == "__main__":
    main()
