"""A picture that comes with a question: from a path, base64 or a data URL to bytes that are a picture by their look.

Nothing is fetched and nothing is decoded here: the pixels are left to the child process (`sandbox`).
"""

from __future__ import annotations

import binascii
import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from qianxun.core.errors import BadInput, Refused, TooLarge, Unreadable, UnsupportedFile
from qianxun.core.limits import IMAGE_BYTES_LIMIT, MIB

PLACES: Final = ("img_path", "img_base64", "url")
_DATA_URL: Final = re.compile(r"data:([\w.+/-]*)((?:;[^;,]*)*),", re.ASCII | re.IGNORECASE)
_ELSEWHERE: Final = re.compile(r"\s*[a-z][a-z0-9+.-]+://", re.IGNORECASE)
_SPACE: Final = re.compile(r"\s+")
_WRITTEN: Final = IMAGE_BYTES_LIMIT * 3 // 2  # characters of base64, line breaks and all
_MAGIC: Final = (
    (b"\x89PNG\r\n\x1a\n", ".png"),
    (b"\xff\xd8\xff", ".jpg"),
    (b"GIF87a", ".gif"),
    (b"GIF89a", ".gif"),
    (b"BM", ".bmp"),
)
_OTHERS: Final = (
    (re.compile(rb"\s*(<\?xml.{0,500}?)?(<!--.{0,500}?-->|\s|<!DOCTYPE[^>]{0,300}>)*<svg\b", re.S | re.I), "SVG"),
    (re.compile(rb"II\*\x00|MM\x00\*"), "TIFF"),
    (re.compile(rb".{4}ftyp(?:heic|heix|mif1|msf1|heim)", re.S), "HEIC"),
    (re.compile(rb".{4}ftypavi[fs]", re.S), "AVIF"),
    (re.compile(rb"\x00\x00\x01\x00"), "ICO"),
    (re.compile(rb"8BPS"), "PSD"),
    (re.compile(rb"%PDF-"), "PDF"),
)
_KINDS: Final = "PNG、JPEG、WebP、BMP 或 GIF"


@dataclass(frozen=True, slots=True)
class AttachedImage:
    """The bytes of a picture; ``suffix`` is by what they are, whatever the name said."""

    data: bytes
    suffix: str
    name: str = ""  # of its file, where it has one


def attached_image(item: Mapping[str, Any]) -> AttachedImage:
    """The picture that an item brings. Blocking. Raises Refused or BadInput, saying what to do next."""
    given = [place for place in PLACES if item.get(place)]
    if len(given) != 1:
        what = "给了不止一个" if given else "没有给出"
        raise BadInput(f"图片的内容{what}", hint="请只给 img_path、img_base64、url（data: 地址）中的一个")
    (place,) = given
    value = item[place]
    if isinstance(value, bytes) and place == "img_base64":
        value = value.decode("ascii", "replace")
    if not isinstance(value, str | os.PathLike):
        raise BadInput(f"{place} 应是一段文字", hint="路径、base64 或 data: 地址")
    if place == "img_path":
        path = Path(value)
        _refuse_elsewhere(os.fspath(value))
        return _looked_at(read_bounded(path, IMAGE_BYTES_LIMIT, "图片"), path.name)
    return _looked_at(_decoded(str(value), place))


def _refuse_elsewhere(text: str) -> None:
    if _ELSEWHERE.match(text):
        raise Refused("不会去下载图片", hint="请先把图片存下来，写成 img_base64 给出；在本机提问也可用 img_path")


def read_bounded(path: Path, most: int, what: str) -> bytes:
    """The bytes of a regular file, at most so many of them."""
    try:
        held = path.stat()
        if stat.S_ISDIR(held.st_mode):
            raise Unreadable(f"{what}的路径是一个文件夹", hint="请给出文件夹里的一个文件")
        if not stat.S_ISREG(held.st_mode):
            raise Unreadable(f"{what}的路径不是普通文件", hint="请给出一个普通文件")
        if held.st_size > most:
            raise _too_large(most, what)
        with path.open("rb") as opened:
            data = opened.read(most + 1)
    except FileNotFoundError as failure:
        raise Unreadable(f"{what}文件不存在：{path.name}", hint="请检查路径") from failure
    except (OSError, ValueError) as failure:  # a name may be too long, or hold a zero
        raise Unreadable(f"读不了{what}文件（{type(failure).__name__}）", hint="请检查路径与权限") from failure
    if len(data) > most:
        raise _too_large(most, what)
    return data


def _too_large(most: int, what: str) -> TooLarge:
    return TooLarge(f"{what}超过 {most // MIB} MB", hint=f"请缩小或压缩{what}后再试")


def _decoded(text: str, place: str) -> bytes:
    if len(text) > _WRITTEN:
        raise _too_large(IMAGE_BYTES_LIMIT, "图片")
    if text[:5].lower().lstrip() == "data:" or place == "url":
        text = _after_head(text.lstrip(), place)
    packed = _SPACE.sub("", text).replace("-", "+").replace("_", "/").rstrip("=")
    try:
        data = binascii.a2b_base64(packed + "=" * (-len(packed) % 4), strict_mode=True)
    except (binascii.Error, ValueError) as failure:
        raise BadInput(f"{place} 不是有效的 base64", hint="请把图片文件的字节整个编码为 base64") from failure
    if len(data) > IMAGE_BYTES_LIMIT:
        raise _too_large(IMAGE_BYTES_LIMIT, "图片")
    return data


def _after_head(text: str, place: str) -> str:
    head = _DATA_URL.match(text[:300])
    if head is None:
        _refuse_elsewhere(text[:300])
        raise BadInput(f"{place} 不是 data: 地址", hint="形如 data:image/png;base64,……；别的地址不会去取")
    if ";base64" not in head[2].lower():
        raise BadInput("data: 地址不是 base64 的", hint="形如 data:image/png;base64,……")
    return text[head.end() :]


def _looked_at(data: bytes, name: str = "") -> AttachedImage:
    if not data:
        raise Unreadable("图片是空的", hint="请检查图片是否写完")
    for magic, suffix in _MAGIC:
        if data.startswith(magic):
            return AttachedImage(data, suffix, name)
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return AttachedImage(data, ".webp", name)
    known = next((kind for pattern, kind in _OTHERS if pattern.match(data[:2_000])), "")
    if known:
        raise UnsupportedFile(f"不支持 {known} 图片", hint=f"请导出为 {_KINDS} 再试")
    raise UnsupportedFile("这不是图片，或是不支持的图片格式", hint=f"请给出 {_KINDS} 图片")
