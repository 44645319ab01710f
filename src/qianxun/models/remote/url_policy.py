"""Which addresses a model service may have: public ones, and those that the operator allows. Opens no connection.

Host names are checked when they are resolved, at every connect and for all their addresses (`pinned_transport`).
`check_url` only refuses early what could never be reached.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import TypeAlias
from urllib.parse import SplitResult, quote, urlsplit

from qianxun.core.errors import BadInput, BadSettings

Address: TypeAlias = IPv4Address | IPv6Address
Network: TypeAlias = IPv4Network | IPv6Network

# The IANA registries of special addresses, written out: `ipaddress.is_global` differs between versions of Python, and
# none of them checks an address inside another.
SPECIAL_V4 = (
    "0.0.0.0/8",  # this host
    "10.0.0.0/8",
    "100.64.0.0/10",  # carrier-grade NAT; the metadata service of some clouds
    "127.0.0.0/8",
    "168.63.129.16/32",  # not special to IANA, but a cloud's access to its machines
    "169.254.0.0/16",  # link-local, with the metadata service of most clouds
    "172.16.0.0/12",
    "192.0.0.0/24",
    "192.0.2.0/24",
    "192.88.99.0/24",
    "192.168.0.0/16",
    "198.18.0.0/15",
    "198.51.100.0/24",
    "203.0.113.0/24",
    "224.0.0.0/4",
    "240.0.0.0/4",  # reserved, and broadcast
)
GLOBAL_V6 = "2000::/3"  # anything else is loopback, link-local, private, multicast, mapped, reserved …
SPECIAL_V6 = (
    "2001::/23",  # protocols, Teredo among them
    "2001:db8::/32",
    "2002::/16",  # 6to4: an IPv4 address in disguise, and out of use
    "3fff::/20",
)
NAT64 = "64:ff9b::/96"  # IPv4 from an IPv6-only network: checked by the address inside
ISATAP = (0x00005EFE, 0x02005EFE)  # the middle of an address that tunnels to the IPv4 address at its end
LOCAL_NAMES = ("localhost", "localhost.localdomain", "ip6-localhost", "ip6-loopback")
EXAMPLES = {"base_url": "https://example.com/v1", "url": "https://example.com/hooks"}  # by the field that has it

_LABEL = r"(?!-)[a-z0-9_-]{1,63}(?<!-)"
_NAME = re.compile(rf"{_LABEL}(\.{_LABEL})*\.?")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_BRACKETED = re.compile(r"\[[^\[\]]*\](:[0-9]*)?")
_UNSAFE = re.compile(r"[\x00-\x20\x7f\\]")  # URL parsers differ in how they drop or replace these


@dataclass(frozen=True, slots=True)
class Rule:
    """An allowed host or network, at one port or any."""

    name: str = ""
    network: Network | None = None
    port: int | None = None

    def covers(self, host: str, address: Address | None, port: int) -> bool:
        if self.port is not None and self.port != port:
            return False
        if self.network is None:
            return self.name == host.removesuffix(".")
        return address is not None and address.version == self.network.version and address in self.network


@dataclass(frozen=True, slots=True)
class UrlPolicy:
    """Allows public addresses and what ``allow`` names: hosts, addresses, networks, each with or without a port.

    ``127.0.0.1:11434``, ``10.0.0.0/8``, ``[fd00::/8]:8000``, ``ollama.lan``. Raises BadSettings for any other form.
    """

    allow: tuple[str, ...] = ()
    everywhere: bool = False
    rules: tuple[Rule, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "rules", tuple(read_rule(line) for line in self.allow))

    @classmethod
    def anywhere(cls) -> UrlPolicy:
        """For endpoints of the operator, who may use the internal network."""
        return cls(everywhere=True)

    def covers(self, host: str, address: Address, port: int) -> bool:
        """Whether a connection to this address of ``host`` may be opened."""
        if self.everywhere or is_public(address):
            return True
        return any(rule.covers(host, unmapped(address), port) for rule in self.rules)


@dataclass(frozen=True, slots=True)
class ServiceUrl:
    """A base URL, parsed once: what is connected to is what was checked."""

    scheme: str
    host: str  # ASCII, lower case, no brackets
    port: int
    path: str  # percent-encoded, without the last slash
    query: str

    @property
    def authority(self) -> str:
        """For the Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _default_port(self.scheme) else f"{host}:{self.port}"

    def target(self, path: str) -> str:
        return f"{self.path}/{path}" + (f"?{self.query}" if self.query else "")


def is_public(address: Address) -> bool:
    """Whether it is no address of a machine, an internal network or a cloud's infrastructure."""
    address = unmapped(address)
    if isinstance(address, IPv4Address):
        return not any(address in network for network in _networks(SPECIAL_V4))
    last = IPv4Address(int(address) & 0xFFFFFFFF)
    if address in _networks((NAT64,))[0]:
        return is_public(last)
    if (int(address) >> 32) & 0xFFFFFFFF in ISATAP and not is_public(last):
        return False
    if address.scope_id is not None or address not in _networks((GLOBAL_V6,))[0]:
        return False
    return not any(address in network for network in _networks(SPECIAL_V6))


def unmapped(address: Address) -> Address:
    """``::ffff:127.0.0.1`` is 127.0.0.1: sockets connect to that."""
    return getattr(address, "ipv4_mapped", None) or address


def check_url(given: str, policy: UrlPolicy, field_name: str = "base_url") -> ServiceUrl:
    """Parses the URL. Raises BadInput, which speaks of ``field_name``, for one that is malformed or could never be
    reached.

    Resolves no name: private addresses of a name are refused at each connect.
    """
    url = read_url(given, field_name)
    if policy.everywhere or any(rule.covers(url.host, None, url.port) for rule in policy.rules):
        return url
    if url.host.removesuffix(".") in LOCAL_NAMES or url.host.rstrip(".").endswith(".localhost"):
        addresses: list[Address] = [IPv4Address("127.0.0.1"), IPv6Address("::1")]
    elif (literal := as_address(url.host)) is not None:
        addresses = [literal]
    elif _NUMBER.fullmatch(url.host.removesuffix(".").rpartition(".")[2]):
        raise BadInput(f"{field_name} 里的 IP 地址写法不规范", hint="请写成 203.0.114.7 这样的四段十进制数")
    else:
        return url
    if not any(policy.covers(url.host, address, url.port) for address in addresses):
        raise BadInput(
            f"{field_name} 的主机 {url.host} 是本机或内网地址，不允许访问", hint=allow_hint(url.host, url.port)
        )
    return url


def allow_hint(host: str, port: int) -> str:
    line = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return f"请改用公网地址；若确需访问，请管理员在设置 outbound.allow 中加入 {line}"


def read_url(given: str, field_name: str = "base_url") -> ServiceUrl:
    """Raises BadInput unless it is a plain HTTP URL. Messages never contain it: people paste keys into URLs."""
    try:
        if _UNSAFE.search(given.strip(" ")):
            raise ValueError("space, control character or backslash")
        parts = urlsplit(given.strip(" "))
        host, port = _host(parts), parts.port
        path = quote(parts.path.rstrip("/"), safe="/%:@!$&'()*+,;=~")
        query = quote(parts.query, safe="/%:@!$&'()*+,;=~?")
    except ValueError as error:
        raise BadInput(f"{field_name} 不是合法的地址", hint=f"例如 {EXAMPLES[field_name]}") from error
    if parts.scheme not in ("http", "https") or not host or "@" in parts.netloc or parts.fragment or port == 0:
        elsewhere = "；密钥请写在 api_key" if field_name == "base_url" else ""
        raise BadInput(
            f"{field_name} 必须是不含用户名、密码和 # 的 HTTP 地址", hint=f"例如 {EXAMPLES[field_name]}{elsewhere}"
        )
    return ServiceUrl(parts.scheme, host, port or _default_port(parts.scheme), path, query)


def _host(parts: SplitResult) -> str:
    """The host in ASCII. Raises ValueError (UnicodeError is one) for neither a name nor an address."""
    host = parts.hostname or ""
    if "[" in parts.netloc or "]" in parts.netloc:
        if "%" in host or not _BRACKETED.fullmatch(parts.netloc):
            raise ValueError("zone, or text around the brackets")
        return str(IPv6Address(host))
    ascii_host = host if host.isascii() else host.encode("idna").decode("ascii").lower()
    if ascii_host and not (_NAME.fullmatch(ascii_host) and len(ascii_host) <= 253):
        raise ValueError("host")
    return ascii_host


def as_address(host: str) -> Address | None:
    """The address that a host is in standard form; None for a name."""
    try:
        return ip_address(host)
    except ValueError:
        return None


def read_rule(line: str) -> Rule:
    """Raises BadSettings."""
    text = line.strip().lower()
    bracketed = re.fullmatch(r"\[([^\[\]]*)\](?::([0-9]{1,5}))?", text)
    found = bracketed or re.fullmatch(r"([^:]*)(?::([0-9]{1,5}))?", text)
    place, port = (found[1], int(found[2]) if found[2] else None) if found else (text, None)
    network = _network(place)
    name = "" if network or bracketed else place.removesuffix(".")
    understood = network is not None or (_NAME.fullmatch(name) and not _NUMBER.fullmatch(name.rpartition(".")[2]))
    if not understood or not (port is None or 0 < port < 65536):
        raise BadSettings(
            f"outbound.allow 里的“{line}”不是主机、地址或网段", hint="例如 127.0.0.1:11434、10.0.0.0/8、[fd00::/8]:8000"
        )
    return Rule(name, network, port)


def _network(place: str) -> Network | None:
    try:
        return None if "%" in place else ip_network(place)
    except ValueError:
        return None


@cache
def _networks(lines: tuple[str, ...]) -> tuple[Network, ...]:
    return tuple(ip_network(line) for line in lines)


def _default_port(scheme: str) -> int:
    return 443 if scheme == "https" else 80
