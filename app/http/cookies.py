"""The cookie that stands for the key in a browser. Made of the key, it holds in every API process
and over restarts, and ends when the key is changed; the key itself is not in it."""

import hashlib
import hmac
import secrets
import time

LIFETIME_SECONDS = 12 * 3600


def name_for(key: str) -> str:
    """Cookies do not tell ports apart: two services of one host must not take each other's."""
    return f"perdure_{_derived(key, 'name').hex()[:8]}"


def issue(key: str) -> str:
    return _signed(key, f"{_now() + LIFETIME_SECONDS}.{secrets.token_hex(8)}")


def is_valid(key: str, cookie: str) -> bool:
    said, _, _ = cookie.rpartition(".")
    if not is_same(cookie, _signed(key, said)):
        return False
    expiry, _, _ = said.partition(".")
    return expiry.isdigit() and _now() < int(expiry)


def is_same(given: str, expected: str) -> bool:
    """In a time that tells nothing of where they differ."""
    return hmac.compare_digest(given.encode(), expected.encode())


def _signed(key: str, said: str) -> str:
    mark = hmac.digest(_derived(key, "sign"), said.encode(), hashlib.sha256).hex()
    return f"{said}.{mark}"


def _derived(key: str, purpose: str) -> bytes:
    return hmac.digest(key.encode(), f"perdure console {purpose}".encode(), hashlib.sha256)


def _now() -> int:
    """No fact of a run depends on it."""
    return int(time.time())  # noqa: TID251 - a cookie is checked without the database
