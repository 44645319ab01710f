"""Who a request comes from where a trusted proxy stands in between."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Sequence

from starlette.types import Scope

from qianxun.core.errors import BadSettings


def trust(proxies: Sequence[str]) -> Callable[[str], bool]:
    """Whether an address is one of these addresses and networks. Raises BadSettings for what is neither."""
    try:
        networks = [ipaddress.ip_network(proxy.strip(), strict=False) for proxy in proxies if proxy.strip()]
    except ValueError as error:
        hint = "写成地址或网段，如 127.0.0.1,10.0.0.0/8"
        raise BadSettings("service.trusted_proxies 里有的不是地址", hint=hint) from error

    def is_trusted(address: str) -> bool:
        try:
            parsed = ipaddress.ip_address(address.partition("%")[0])
        except ValueError:
            return False
        parsed = getattr(parsed, "ipv4_mapped", None) or parsed
        return any(parsed in network for network in networks)

    return is_trusted


def client_address(scope: Scope, is_trusted: Callable[[str], bool]) -> str:
    """Who connected or, if that is a trusted proxy, the last in ``X-Forwarded-For`` that is none: what stands before it
    anybody could have written. "" if it is not known."""
    address = str((scope.get("client") or ("",))[0])
    named = [value.decode("latin-1") for name, value in scope["headers"] if name == b"x-forwarded-for"]
    hops = [hop.strip() for value in named for hop in value.split(",")]
    while is_trusted(address) and hops:
        hop = hops.pop()
        try:
            address = str(ipaddress.ip_address(hop))
        except ValueError:
            break
    return address
