"""Secrets at rest: AES-256-GCM, under a key from the settings or from a file that only its owner can read.

A sealed secret is bound to its row: moved to another row, or changed in one bit, it does not open. Form:
``version ‖ source ‖ salt (16) ‖ nonce (12) ‖ ciphertext and tag``. The source names its key, so that secrets
sealed by the file still open after the operator has put a key in the settings.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import secrets
import stat
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from qianxun.core.errors import BadSettings, MissingExtra
from qianxun.core.system.durable import sync

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

FILE_NAME: Final = "secret.key"
_VERSION: Final = b"\x01"
_FROM_SETTINGS, _FROM_FILE = b"s", b"f"
_SALT, _NONCE, _TAG, _KEY = 16, 12, 16, 32
_HEAD: Final = 2 + _SALT + _NONCE
# 32 MiB and about a tenth of a second for each guess at a passphrase; once for each salt in a process.
_COST: Final[Mapping[str, int]] = {"n": 1 << 15, "r": 8, "p": 1, "maxmem": 64 << 20}


class Sealing:
    """Seals and opens. Makes no key before the first secret is sealed; safe to use from several threads."""

    def __init__(self, secret: str, file: Path) -> None:
        """``secret`` is the operator's passphrase; where it is empty the key is that of ``file``."""
        self._secret = secret
        self._file = file
        self._salt = secrets.token_bytes(_SALT)  # one for all that this process seals

    def seal(self, secret: str, row: tuple[str, ...]) -> bytes:
        """The secret, sealed for this row alone. Raises BadSettings, or MissingExtra without `cryptography`."""
        source = _FROM_SETTINGS if self._secret else _FROM_FILE
        key = _derived(self._secret, self._salt) if self._secret else _file_key(self._file, make=True)
        head = _VERSION + source + self._salt + secrets.token_bytes(_NONCE)
        return head + _cipher(key).encrypt(head[-_NONCE:], secret.encode(), _bound(head, row))

    def open(self, sealed: bytes, row: tuple[str, ...]) -> str:
        """The secret that was sealed for this row. Raises BadSettings where the key is another one or missing."""
        if len(sealed) < _HEAD + _TAG or sealed[:1] != _VERSION:
            raise BadSettings("存下的密钥已损坏，不能解密", hint="请重新登记这个模型的 api_key")
        head, body = sealed[:_HEAD], sealed[_HEAD:]
        key = self._key_of(head)
        opened = _decrypted(key, head, body, row)
        if opened is None:
            raise BadSettings(
                "解不开存下的密钥：加密用的不是现在的口令或密钥文件，或记录被改动过",
                hint=f"恢复原来的 secrets.key 或 {self._file.name}；找不回时，请重新登记这个模型的 api_key",
            )
        return opened

    def token_key(self, purpose: str) -> bytes:
        """A key to authenticate what this service gives out and gets back, the same in every process that has the same
        passphrase or file; another one for every purpose. Raises BadSettings."""
        salt = hashlib.sha256(purpose.encode()).digest()[:_SALT]
        key = _derived(self._secret, salt) if self._secret else _file_key(self._file, make=True)
        return hmac.digest(key, purpose.encode(), "sha256")

    def _key_of(self, head: bytes) -> bytes:
        if head[1:2] == _FROM_FILE:
            return _file_key(self._file, make=False)
        if not self._secret:
            raise BadSettings("存下的密钥是用 secrets.key 加密的，现在没有设置它", hint="请恢复原来的 secrets.key")
        return _derived(self._secret, head[2 : 2 + _SALT])

    def __repr__(self) -> str:
        return f"Sealing(file={self._file.name!r})"


def _bound(head: bytes, row: tuple[str, ...]) -> bytes:
    return head[:2] + json.dumps(row, ensure_ascii=True).encode()


def _decrypted(key: bytes, head: bytes, body: bytes, row: tuple[str, ...]) -> str | None:
    cipher = _cipher(key)
    from cryptography.exceptions import InvalidTag

    try:
        return cipher.decrypt(head[-_NONCE:], body, _bound(head, row)).decode()
    except InvalidTag:
        return None


def _cipher(key: bytes) -> AESGCM:
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ImportError as error:
        raise MissingExtra("cryptography", "service") from error
    return AESGCM(key)


@lru_cache(maxsize=256)
def _derived(secret: str, salt: bytes) -> bytes:
    return hashlib.scrypt(secret.encode("utf-8", "surrogateescape"), salt=salt, dklen=_KEY, **_COST)


# ── the key file ─────────────────────────────────────────────────────────────────────────────────


def _file_key(file: Path, *, make: bool) -> bytes:
    """The key in the file. With ``make`` it is made first where there is none, by one process alone."""
    try:
        return _read(file)
    except FileNotFoundError as error:
        if not make:
            raise BadSettings(
                f"加密用的密钥文件 {file} 不见了", hint="从备份恢复它；找不回时，请重新登记各模型的 api_key"
            ) from error
    try:
        _make(file)
        return _read(file)
    except OSError as error:
        raise BadSettings(
            f"不能建立密钥文件 {file}：{error.strerror}", hint="检查数据目录的权限，或设置 secrets.key"
        ) from error


def _read(file: Path) -> bytes:
    try:
        handle = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise BadSettings(f"读不了密钥文件 {file}：{error.strerror}", hint="检查它的权限与属主") from error
    with open(handle, "rb") as opened:
        about = os.fstat(handle)
        if not stat.S_ISREG(about.st_mode) or stat.S_IMODE(about.st_mode) & 0o077:
            raise BadSettings(f"密钥文件 {file} 能被别人读到，不用它", hint=f"请运行 chmod 600 {file}")
        text = opened.read(200).strip()
    try:
        key = base64.urlsafe_b64decode(text)
    except ValueError as error:
        raise _damaged(file) from error
    if len(key) != _KEY:
        raise _damaged(file)
    return key


def _damaged(file: Path) -> BadSettings:
    return BadSettings(f"密钥文件 {file} 的内容不对", hint="从备份恢复它；找不回时删去它，再重新登记各模型的 api_key")


def _make(file: Path) -> None:
    """Written to another name and linked into place: readers see no file or a whole one, and the first one stays."""
    aside = file.with_name(f"{file.name}.{secrets.token_hex(8)}")
    handle = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with open(handle, "wb") as opened:
            opened.write(base64.urlsafe_b64encode(secrets.token_bytes(_KEY)) + b"\n")
            opened.flush()
            os.fsync(handle)
        try:
            os.link(aside, file)
        except FileExistsError:
            return  # another process was first
        sync([file.parent])
    finally:
        os.unlink(aside)
