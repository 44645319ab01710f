"""On whose behalf a request comes: what its key is bound to, what the header X-Principal says, or nobody."""

from __future__ import annotations

from typing import Final

from qianxun.core.errors import BadInput, Forbidden
from qianxun.core.governance.access import ANONYMOUS, Principal, principal_of, read_principal
from qianxun.engine.across_tenants import KeyHolder

X_PRINCIPAL: Final = b"x-principal"
HEADER_LIMIT: Final = 64 * 1024  # bytes


def principal_for(holder: KeyHolder, header: bytes | None, *, is_read: bool) -> Principal | None:
    """None: the owner, who sees everything. Raises Forbidden for a key that may not say on whose behalf it asks.

    Whoever forgets to say it sees what has no labels: a key that may name principals shows no more without one, and
    neither does a key that only reads, unless it was issued to see everything. What a key writes, it writes as owner.
    """
    if holder.principal:
        if header is not None:
            raise Forbidden("这个密钥绑定了主体，不能用 X-Principal 另指", hint="去掉请求头 X-Principal")
        return principal_of(holder.principal)
    if header is not None:
        if not holder.vouches:
            raise Forbidden("这个密钥不能代表别人", hint="换用可以代表别人的密钥：qianxun keys create --vouch")
        return named_principal(header)
    return None if holder.sees == "everything" or not is_read else ANONYMOUS


def named_principal(header: bytes) -> Principal:
    """``user:alice, group:%E8%B4%A2%E5%8A%A1``; UTF-8 as it is, or percent-encoded."""
    try:
        written = header.decode("utf-8")
    except UnicodeDecodeError:
        raise BadInput("请求头 X-Principal 不是 UTF-8", hint="把其中的汉字写成百分号编码") from None
    if len(header) > HEADER_LIMIT:
        raise BadInput("请求头 X-Principal 太长", hint="只给与知识库有关的组与角色")
    return read_principal(written)
