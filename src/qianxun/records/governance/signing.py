"""Signs receipts with a key of the data folder, and checks signatures without it.

Ed25519, whose private half is derived from the secret that also seals the keys of models (`sealing`): every process
with the same secret signs alike, and nothing more has to be kept safe. Without the package `cryptography` the
signature is an HMAC, which only the folder itself can check; the receipt says so.
"""

from __future__ import annotations

import hmac
from dataclasses import replace
from typing import Any, Final

from qianxun.core.errors import MissingExtra
from qianxun.core.governance.receipts import Receipt, signed_bytes
from qianxun.records.secrets.sealing import Sealing

PURPOSE: Final = "deletion receipts"
ED25519, HMAC = "ed25519", "hmac-sha256"


def sign(receipt: Receipt, sealing: Sealing) -> Receipt:
    """Raises BadSettings where there is no secret to sign with, and none can be made."""
    seed = sealing.token_key(PURPOSE)
    private = _private(seed)
    if private is None:
        named = replace(receipt, algorithm=HMAC, public_key="")
        return replace(named, signature=hmac.new(seed, signed_bytes(named), "sha256").hexdigest())
    named = replace(receipt, algorithm=ED25519, public_key=_public(private))
    return replace(named, signature=private.sign(signed_bytes(named)).hex())


def public_key(sealing: Sealing) -> str:
    """By which others check receipts of this folder; "" without `cryptography`."""
    private = _private(sealing.token_key(PURPOSE))
    return "" if private is None else _public(private)


def is_signed(receipt: Receipt, sealing: Sealing | None = None) -> bool:
    """Whether the signature is that of the key which the receipt names. ``sealing`` is needed for an HMAC only.

    Raises MissingExtra where a signature cannot be checked for want of a package.
    """
    if receipt.algorithm == HMAC:
        if sealing is None:
            return False
        expected = hmac.new(sealing.token_key(PURPOSE), signed_bytes(receipt), "sha256").hexdigest()
        return hmac.compare_digest(expected, receipt.signature)
    return receipt.algorithm == ED25519 and _is_of(receipt)


def _is_of(receipt: Receipt) -> bool:
    try:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    except ImportError as error:
        raise MissingExtra("cryptography", "service") from error
    try:
        key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(receipt.public_key))
        key.verify(bytes.fromhex(receipt.signature), signed_bytes(receipt))
    except (InvalidSignature, ValueError):
        return False
    return True


def _private(seed: bytes) -> Any:
    """None without `cryptography`."""
    try:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    except ImportError:
        return None
    return Ed25519PrivateKey.from_private_bytes(seed)


def _public(private: Any) -> str:
    written: bytes = private.public_key().public_bytes_raw()
    return written.hex()
