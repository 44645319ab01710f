"""What a client calls the file that it sends, in whichever of the ways its library writes that down.

Browsers, curl, Go, OkHttp and httpx write ``filename="价目表.xlsx"`` in UTF-8. .NET writes it twice, as an encoded word
(RFC 2047) and as ``filename*`` (RFC 5987); aiohttp percent-encodes it; an old urllib3 has ``filename*`` alone.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from email.errors import HeaderParseError
from email.header import decode_header, make_header
from typing import Final
from urllib.parse import unquote_to_bytes

NAME_LIMIT: Final = 255

_QUOTED: Final = re.compile(rb'"(?:\\.|[^"\\])*"', re.DOTALL)
_EXTENDED: Final = re.compile(rb";\s*filename\*\s*=\s*([\w.-]+)'[^']*'([^;\s]+)", re.ASCII | re.IGNORECASE)
_WORDS: Final = re.compile(r"=\?[\w.-]+\?[BbQq]\?[^?\s]*\?=(?:\s+=\?[\w.-]+\?[BbQq]\?[^?\s]*\?=)*", re.ASCII)


def file_name(disposition: bytes, options: Mapping[bytes, bytes]) -> str | None:
    """The name in a part's Content-Disposition, ``options`` being its plain parameters; None where it names no file."""
    plain = options.get(b"filename")
    extended = _extended(disposition)
    if extended is not None:
        return plain_name(extended)
    return None if plain is None else plain_name(_decoded(plain.decode("utf-8", "replace")))


def plain_name(told: str) -> str:
    """A file's own name without the folders that some clients send along, or anything that cannot be seen."""
    last = re.split(r"[/\\]", unicodedata.normalize("NFC", told))[-1]
    seen = "".join(sign for sign in last if sign.isprintable()).strip()
    return seen[-NAME_LIMIT:] or "未命名"


def _extended(disposition: bytes) -> str | None:
    """``filename*=UTF-8''…``, where it stands as a parameter and not within the value of another."""
    found = _EXTENDED.search(_QUOTED.sub(b'""', disposition))
    if found is None:
        return None
    charset, value = found.groups()
    try:
        return unquote_to_bytes(value).decode(charset.decode("ascii"))
    except (LookupError, UnicodeDecodeError):
        return None


def _decoded(name: str) -> str:
    """The name behind an encoded word or percent signs; one that only looks like that is left as it is."""
    if not name.isascii():
        return name
    if _WORDS.fullmatch(name):
        try:
            return str(make_header(decode_header(name))) or name
        except (LookupError, UnicodeDecodeError, HeaderParseError):
            return name
    try:
        read = unquote_to_bytes(name).decode("utf-8")
    except UnicodeDecodeError:
        return name
    # With plain letters alone nobody can say whether "100%25.txt" was meant; a quotation mark is always written so.
    return name.replace("%22", '"') if read.isascii() else read
