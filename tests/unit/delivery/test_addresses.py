"""What a callback may not lead to, however it is spelled."""

import ipaddress

import pytest

from app.delivery.addresses import Refused, check, is_public, literal

PRIVATE_HOSTS = [
    *("127.0.0.1", "127.1", "127.0.1", "2130706433", "0x7f000001", "0x7f.0.0.1", "017700000001"),
    *("127.0.0.1.", "0", "0.0.0.0", "10.0.0.1", "10.1", "167772161", "172.16.0.1", "192.168.1.1"),
    *("169.254.169.254", "2852039166", "0xa9fea9fe", "100.64.0.1", "100.127.255.254"),
    *("192.0.0.1", "192.0.2.1", "198.18.0.1", "224.0.0.1", "239.1.1.1", "240.0.0.1"),
    *("255.255.255.255", "[::]", "[::1]", "[::127.0.0.1]", "[::ffff:127.0.0.1]"),
    *("[::ffff:7f00:1]", "[::ffff:a9fe:a9fe]", "[::ffff:0:127.0.0.1]", "[fe80::1]", "[fec0::1]"),
    *("[fd00::1]", "[fc00::1]", "[fd00:ec2::254]", "[ff02::1]", "[64:ff9b::7f00:1]"),
    *("[64:ff9b::10.0.0.1]", "[64:ff9b:1::8.8.8.8]", "[2002:7f00:1::]", "[2001:0:1::]"),
    *("[2001:db8::1]", "[100::1]", "localhost", "LOCALHOST", "localhost.", "a.localhost"),
]
PUBLIC_HOSTS = [
    *("example.com", "EXAMPLE.com.", "b\u00fccher.example", "xn--bcher-kva.example", "hooks"),
    *("8.8.8.8", "[2606:4700:4700::1111]", "[64:ff9b::8.8.8.8]", "[::ffff:8.8.8.8]"),
    *("127.0.0.1.example", "localhost.example", "notlocalhost", "127-0-0-1.example", "100.63.1.1"),
]


@pytest.mark.parametrize("host", PRIVATE_HOSTS)
@pytest.mark.parametrize("url", ["https://{}/hook", "http://{}:8080"])
def test_a_private_host_is_refused_at_once(host: str, url: str) -> None:
    with pytest.raises(Refused, match=r"not to a public address|not a public address"):
        check(url.format(host), allow_private=False)


@pytest.mark.parametrize("host", PRIVATE_HOSTS)
def test_a_private_host_may_be_allowed(host: str) -> None:
    assert check(f"http://{host}/", allow_private=True).path == "/"


@pytest.mark.parametrize("host", PUBLIC_HOSTS)
def test_a_public_host_and_any_name_pass(host: str) -> None:
    assert check(f"https://{host}/hook?key=1", allow_private=False).scheme == "https"


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("", "must begin with https://"),
        ("example.com", "must begin with https://"),
        ("//example.com/", "must begin with https://"),
        ("/hook", "must begin with https://"),
        ("ftp://example.com/", "must begin with https://"),
        ("file:///etc/passwd", "must begin with https://"),
        ("gopher://example.com/", "must begin with https://"),
        ("javascript:alert(1)", "must begin with https://"),
        ("http:///hook", "must begin with https://"),
        ("http:example.com", "must begin with https://"),
        ("https://exa mple.com/", "must begin with https://"),
        ("https://%31%32%37.0.0.1/", "must begin with https://"),
        ("https://[fe80::1%25lo]/", "must begin with https://"),
        ("https://user@example.com/", "user or password"),
        ("https://:pass@example.com/", "user or password"),
        ("https://example.com\\@127.0.0.1/", "user or password"),
        ("https://example.com/#part", "fragment"),
        ("https://example.com:0/", "port"),
        ("https://example.com:65536/", "port"),
        ("https://example.com:x/", "is no URL"),
        ("https://[::1/", "is no URL"),
        ("https://0177.0.0.1/", "is no URL"),
        ("https://\u2460\u2461\u2466.0.0.1/", "is no URL"),
        ("https://example.com/\r\nX: y", "is no URL"),
        ("https://example.com/\ud800", "is no URL"),
    ],
)
@pytest.mark.parametrize("allow_private", [False, True])
def test_what_is_no_plain_url_is_refused(url: str, why: str, allow_private: bool) -> None:
    with pytest.raises(Refused, match=why):
        check(url, allow_private=allow_private)


def test_a_name_is_no_literal() -> None:
    assert literal("example.com") is None
    assert literal("a..b") is None
    assert literal("1.2.3.4.5") is None
    assert literal("0x7f.1") == ipaddress.ip_address("127.0.0.1")


@pytest.mark.parametrize("address", ["8.8.8.8", "1.1.1.1", "2606:4700::1", "2a00::1"])
def test_a_public_address_is_one(address: str) -> None:
    assert is_public(ipaddress.ip_address(address))
