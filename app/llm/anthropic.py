"""The Anthropic Messages API behind the model port; the only module that knows the SDK.

The SDK opens the request (key, base url, version header, tracing). The answer is read from the raw
events: see `assembly` for what the SDK's own reading would lose.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any, cast

import anthropic
import httpx2

from app.llm.assembly import Assembly, MalformedAnswer, ProviderError, read_json, read_message
from app.llm.body import build_body
from app.llm.client import ModelAnswer, ModelFailure, ModelRequest
from app.llm.failures import is_maybe_paid, judge_status, judge_type, read_retry_after
from app.llm.text import replace_lone_halves

CONNECT_SECONDS = 10.0
READ_SECONDS = 120.0
"""Between two bytes; the provider pings more often."""
DRAIN_SECONDS = 0.5
CREDENTIAL_HEADERS = ("authorization", "x-api-key")
DETAIL_LENGTH = 2000

_NOT_SENT = (
    httpx2.ConnectError,
    httpx2.ConnectTimeout,
    httpx2.PoolTimeout,
    httpx2.ProxyError,
)


class AnthropicModel:
    """`api_key` and `base_url` are read from the environment by the SDK unless given."""

    def __init__(
        self,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        read_seconds: float = READ_SECONDS,
    ) -> None:
        self._client = anthropic.AsyncAnthropic(
            api_key=api_key,
            base_url=base_url,
            max_retries=0,
            timeout=httpx2.Timeout(read_seconds, connect=CONNECT_SECONDS),
        )
        self.provider = _name_provider(self._client.base_url)

    @property
    def has_credentials(self) -> bool:
        """Of whatever kind the SDK knows. Without any, it sends no request."""
        names = {name.lower() for name in self._client.default_headers}
        return self._client.credentials is not None or not names.isdisjoint(CREDENTIAL_HEADERS)

    async def find_trouble(self) -> str | None:
        """Why the provider would answer no request, as far as one can know without paying."""
        if not self.has_credentials:
            return "There are no credentials for it: ANTHROPIC_API_KEY is not set."
        try:
            await self._client.models.list(limit=1)
        except anthropic.APIStatusError as error:
            if error.status_code in (401, 403):
                return f"It refuses the credentials: {error.message}"
        except anthropic.APIConnectionError as error:
            return f"It cannot be reached: {error.__cause__ or error}"
        return None

    async def answer(
        self, request: ModelRequest, on_text: Callable[[str], None] | None = None
    ) -> ModelAnswer | ModelFailure:
        try:
            response = await self._open(request)
        except Exception as error:  # noqa: BLE001 - none of our code runs in there
            return self._explain_unopened(error)
        try:
            return await _read(response, on_text)
        except (httpx2.HTTPError, MalformedAnswer, ProviderError, UnicodeDecodeError) as error:
            return self._explain_broken(error, response)
        finally:
            with suppress(httpx2.HTTPError, OSError):
                await response.aclose()

    async def close(self) -> None:
        await self._client.close()

    async def _open(self, request: ModelRequest) -> httpx2.Response:
        create = cast(Any, self._client.messages.with_raw_response.create)
        opened = await create(stream=True, **build_body(request))
        return cast(httpx2.Response, opened.http_response)

    def _explain_unopened(self, error: Exception) -> ModelFailure:
        match error:
            case anthropic.APIStatusError():
                return self._explain_status(error)
            case anthropic.APIConnectionError():
                return self._explain_transport(error.__cause__ or error)
            case httpx2.HTTPError():  # the body of an error answer broke off
                return self._explain_transport(error)
            case _:
                # Its text may hold the key (a header that cannot be sent): name the class only.
                return _fatal(type(error).__name__)

    def _explain_status(self, error: anthropic.APIStatusError) -> ModelFailure:
        status = error.status_code
        return ModelFailure(
            verdict=judge_status(status),
            status=status,
            type=error.type or f"http_{status}",
            detail=self._presentable(_describe(error)),
            retry_after=read_retry_after(error.response.headers),
            maybe_paid=is_maybe_paid(status),
        )

    def _explain_transport(self, cause: BaseException) -> ModelFailure:
        unusable = (httpx2.LocalProtocolError, httpx2.UnsupportedProtocol, httpx2.TooManyRedirects)
        if isinstance(cause, unusable) or not isinstance(cause, httpx2.HTTPError | OSError):
            return _fatal(type(cause).__name__)
        return ModelFailure(
            verdict="retry",
            status=None,
            type=_name_transport_error(cause),
            detail=self._presentable(f"{type(cause).__name__}: {cause}"),
            retry_after=None,
            maybe_paid=not isinstance(cause, _NOT_SENT),
        )

    def _explain_broken(self, error: Exception, response: httpx2.Response) -> ModelFailure:
        """After the 200: the answer had begun, so it may have been paid for."""
        is_told = isinstance(error, ProviderError)
        kind = error.type if isinstance(error, ProviderError) else _name_transport_error(error)
        return ModelFailure(
            verdict=judge_type(kind) if is_told else "retry",
            status=response.status_code,
            type=kind,
            detail=self._presentable(str(error) if is_told else f"{type(error).__name__}: {error}"),
            retry_after=read_retry_after(response.headers),
            maybe_paid=True,
        )

    def _presentable(self, detail: str) -> str:
        for secret in (self._client.api_key, self._client.auth_token):
            if secret:
                detail = detail.replace(secret, "[key]")
        cleaned: str = replace_lone_halves(detail.replace("\0", ""))
        return cleaned[:DETAIL_LENGTH]


def _name_provider(url: httpx2.URL) -> str:
    host = url.netloc.decode()
    return "anthropic" if host == "api.anthropic.com" else host


async def _read(response: httpx2.Response, on_text: Callable[[str], None] | None) -> ModelAnswer:
    if "json" in response.headers.get("content-type", ""):
        return await _read_plain(response)
    assembly = Assembly()
    events = anthropic.AsyncStream.raw_events(response)
    async for event in events:
        text = assembly.feed(event.data) if event.data else None
        if text and on_text is not None:
            on_text(text)
        if assembly.finished:
            await _drain(events)
            return assembly.answer()
    raise httpx2.RemoteProtocolError("the stream ended before message_stop")


async def _drain(events: AsyncIterator[object]) -> None:
    """A connection read to its end is kept for the next call; the answer is whole either way."""
    with suppress(TimeoutError, httpx2.HTTPError, UnicodeDecodeError):
        async with asyncio.timeout(DRAIN_SECONDS):
            async for _ in events:
                pass


async def _read_plain(response: httpx2.Response) -> ModelAnswer:
    body = await response.aread()
    try:
        payload = read_json(body)
    except (ValueError, RecursionError) as error:
        raise MalformedAnswer("the answer is no JSON") from error
    return read_message(payload)


def _describe(error: anthropic.APIStatusError) -> str:
    if not error.api_message:
        return str(error.message)
    return f"{error.api_message} (request {error.request_id})"


def _name_transport_error(error: BaseException) -> str:
    match error:
        case httpx2.TimeoutException():
            return "timeout"
        case MalformedAnswer() | UnicodeDecodeError() | httpx2.DecodingError():
            return "malformed_answer"
        case httpx2.RemoteProtocolError():
            return "cut_stream"
        case _:
            return "connection_error"


def _fatal(kind: str) -> ModelFailure:
    return ModelFailure(
        verdict="fatal",
        status=None,
        type="request_error",
        detail=f"the request could not be sent ({kind}): check the API key, the base url and what "
        "the request holds",
        retry_after=None,
        maybe_paid=False,
    )
