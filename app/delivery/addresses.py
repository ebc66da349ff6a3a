"""Where a callback may lead: to the public internet and, unless it is allowed, nowhere else.

A URL comes from a client and is called from inside. So names are resolved here, each address is
looked at, and the connection goes to what was looked at.
"""

import asyncio
import ipaddress
import re
import socket

import httpx

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_SCHEMES = ("http", "https")
_HOST = re.compile(r"[a-z0-9._-]+|[0-9a-f:.]+")
_UNICAST = ipaddress.ip_network("2000::/3")
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
# Tunnels, whose other end is an IPv4 address of the sender's choice.
_TUNNELS = (ipaddress.ip_network("2002::/16"), ipaddress.ip_network("2001::/32"))


class Refused(Exception):
    """The URL leads where it must not, or nowhere."""


def check(text: str, *, allow_private: bool) -> httpx.URL:
    """All that can be said of a URL without asking anybody."""
    try:
        url = httpx.URL(text)
        port = url.port
    except (httpx.InvalidURL, ValueError) as error:
        raise Refused(f"is no URL: {error}") from None
    if url.scheme not in _SCHEMES or not _HOST.fullmatch(host_of(url)):
        raise Refused("must begin with https:// or http:// and a host name")
    if url.userinfo:
        raise Refused("must not hold a user or password")
    if url.fragment:
        raise Refused("must not have a fragment")
    if port is not None and not 0 < port < 65536:
        raise Refused("must have a port from 1 to 65535")
    if not allow_private:
        _refuse_private_host(url)
    return url


def host_of(url: httpx.URL) -> str:
    """As names are asked for and certificates are made out."""
    return url.raw_host.decode("ascii")


def literal(host: str) -> Address | None:
    """The address that the host spells out, however oddly: 127.1 and 0x7f000001 are addresses."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except (OSError, UnicodeError):
        return None
    return ipaddress.ip_address(found[0][4][0])


async def resolve(url: httpx.URL, *, allow_private: bool) -> list[Address]:
    """All addresses of the host, none of which is private; at least one."""
    host = host_of(url)
    try:
        found = await asyncio.get_running_loop().getaddrinfo(
            host, url.port, type=socket.SOCK_STREAM
        )
    except (OSError, UnicodeError) as error:
        raise Refused(f"leads to {host}, which cannot be resolved: {error}") from None
    addresses = list(dict.fromkeys(ipaddress.ip_address(each[4][0]) for each in found))
    for address in addresses:
        if not allow_private and not is_public(address):
            raise Refused(f"leads to {host}, which is {address}, not a public address")
    return addresses


def is_public(address: Address) -> bool:
    if isinstance(address, ipaddress.IPv4Address):
        return address.is_global and not address.is_multicast
    inner = _inner(address)
    if inner is not None:
        return is_public(inner)
    return (
        address in _UNICAST
        and address.is_global
        and not any(address in tunnel for tunnel in _TUNNELS)
    )


def _inner(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    """The IPv4 address that an IPv6 one only wraps."""
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped


def _refuse_private_host(url: httpx.URL) -> None:
    host = host_of(url)
    name = host.rstrip(".")
    if name == "localhost" or name.endswith(".localhost"):
        raise Refused("leads to this machine, not to a public address")
    address = literal(name)
    if address is not None and not is_public(address):
        raise Refused(f"leads to {address}, which is not a public address")
