"""One attempt to hand a webhook over."""

import asyncio
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime

import httpx

from app.delivery import addresses
from app.delivery.addresses import Address, Refused
from app.domain.webhooks import is_delivered

TIMEOUT_SECONDS = 15.0
# So that a host's second address still gets its turn.
CONNECT_SECONDS = 5.0
LONGEST_ERROR = 300


@dataclass(frozen=True)
class Answer:
    """`status`: of the answer, if one came; `error`: why it does not count as delivered."""

    status: int | None
    error: str | None = None
    retry_after: float | None = None


class Poster:
    """No proxy, no redirect, no connection used twice: each goes to an address looked at for it."""

    def __init__(self, *, allow_private: bool) -> None:
        self._allow_private = allow_private
        self._trusted = httpx.create_ssl_context()

    async def post(self, callback: str, headers: Mapping[str, str], body: str) -> Answer:
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                url = addresses.check(callback, allow_private=self._allow_private)
                found = await addresses.resolve(url, allow_private=self._allow_private)
                return await self._post_to_any(found, url, headers, body)
        except TimeoutError:
            return Answer(None, f"there was no answer in {TIMEOUT_SECONDS:.0f} seconds")
        except Refused as error:
            return Answer(None, f"the URL {error}"[:LONGEST_ERROR])
        except (httpx.HTTPError, httpx.InvalidURL, ssl.SSLError, OSError) as error:
            return Answer(None, f"{type(error).__name__}: {error}"[:LONGEST_ERROR])

    async def _post_to_any(
        self, found: list[Address], url: httpx.URL, headers: Mapping[str, str], body: str
    ) -> Answer:
        for address in found[:-1]:
            try:
                return await self._post_to(address, url, headers, body)
            except (httpx.ConnectError, httpx.ConnectTimeout):
                continue
        return await self._post_to(found[-1], url, headers, body)

    async def _post_to(
        self, address: Address, url: httpx.URL, headers: Mapping[str, str], body: str
    ) -> Answer:
        """What an answer has to say it says in its head; its body is not read."""
        host = addresses.host_of(url)
        is_name = addresses.literal(host) is None
        fixed = {
            "Host": url.netloc.decode("ascii"),
            "Content-Type": "application/json",
            "User-Agent": "Perdure",
            "Connection": "close",
        }
        async with (
            self._client() as client,
            client.stream(
                "POST",
                url.copy_with(host=str(address)),
                content=body.encode(),
                headers={**headers, **fixed},
                extensions={"sni_hostname": host.rstrip(".")} if is_name else {},
            ) as response,
        ):
            return _answer(response)

    def _client(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(
            verify=self._trusted,
            trust_env=False,
            follow_redirects=False,
            timeout=httpx.Timeout(TIMEOUT_SECONDS, connect=CONNECT_SECONDS),
        )


def _answer(response: httpx.Response) -> Answer:
    status = response.status_code
    if is_delivered(status):
        return Answer(status)
    followed = ", which is not followed" if response.is_redirect else ""
    error = f"the receiver answered {status}{followed}"
    return Answer(status, error, retry_after(response.headers))


def retry_after(headers: Mapping[str, str]) -> float | None:
    """In seconds; a date is compared with the receiver's own clock."""
    text = headers.get("retry-after", "")
    if text.isascii() and text.isdigit():
        return float(text[:9])
    try:
        until, now = (parsedate_to_datetime(headers[name]) for name in ("retry-after", "date"))
        return max((until - now).total_seconds(), 0.0)
    except (KeyError, ValueError, TypeError):
        return None
