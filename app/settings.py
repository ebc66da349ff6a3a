"""What an operator can set: `PERDURE_*` in the environment, described in docs/settings.md."""

import base64
import binascii
import difflib
import ipaddress
from collections.abc import Mapping
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    ValidationInfo,
)
from pydantic_core import ErrorDetails

from app.errors import ConfigurationError

PREFIX = "PERDURE_"
# The test suite's own switches reach the processes it starts.
IGNORED_PREFIX = "PERDURE_TEST_"
# A rate over more than a day would need more of the past than is kept.
LONGEST_PERIOD = 86400


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _split(value: object) -> object:
    if not isinstance(value, str):
        return value
    parts = tuple(part.strip() for part in value.split(",") if part.strip())
    if not parts:
        raise ValueError("names no module")
    return parts


def _check_url(value: SecretStr) -> SecretStr:
    url = urlsplit(value.get_secret_value())
    if url.scheme != "postgresql":
        raise ValueError("must start with postgresql://")
    if not url.path.strip("/"):
        raise ValueError("must name a database: postgresql://host/database")
    return value


def _check_service(value: str) -> str:
    url = urlsplit(value)
    if url.scheme not in ("http", "https") or not url.hostname:
        raise ValueError("must be the address of a service, such as http://127.0.0.1:8000")
    return value


def _check_key(value: SecretStr) -> SecretStr:
    key = value.get_secret_value()
    if not key.isascii() or not key.isprintable() or " " in key:
        raise ValueError("must be printable ASCII without spaces")
    return value


def _keys(secrets: str) -> tuple[bytes, ...]:
    """Of one secret, or of several while one is being replaced."""
    keys = []
    for secret in secrets.replace(",", " ").split():
        kind, _, text = secret.partition("_")
        try:
            key = base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
        except binascii.Error:
            key = b""
        if kind != "whsec" or not 24 <= len(key) <= 64:
            raise ValueError(
                "must be whsec_ and then 24 to 64 bytes in base64, as `openssl rand -base64 32` "
                "makes them"
            )
        keys.append(key)
    return tuple(keys)


def _check_webhook_secret(value: SecretStr) -> SecretStr:
    if not _keys(value.get_secret_value()):
        raise ValueError("names no secret")
    return value


def _to_rate(value: object) -> object:
    if not isinstance(value, str):
        return value
    count, slash, seconds = value.partition("/")
    try:
        rate = int(count), float(seconds)
    except ValueError:
        rate = 0, 0.0
    if not slash or rate[0] < 1 or not 0 < rate[1] <= LONGEST_PERIOD:
        raise ValueError(
            f"must be runs/seconds such as 10/60, at least one in at most {LONGEST_PERIOD} s, "
            f"not {value!r}"
        )
    return rate


def _check_share(value: int | None, info: ValidationInfo) -> int | None:
    """What one key may take of a worker is part of what the worker, and the key, may take."""
    for name in ("worker_concurrency", "queue_key_concurrency"):
        most = info.data.get(name)
        if value is not None and most is not None and value > most:
            raise ValueError(f"must be at most {PREFIX}{name.upper()}, which is {most}")
    return value


def _require_key(value: SecretStr | None, info: ValidationInfo) -> SecretStr | None:
    host = info.data.get("host", "127.0.0.1")
    if value is None and not is_loopback(host):
        raise ValueError(
            f"must be set, because {PREFIX}HOST={host} lets other machines in; "
            "without a key only a loopback host such as 127.0.0.1 is allowed"
        )
    return value


class Settings(BaseModel):
    """Built once in a root by `load` and handed down; nothing else reads `PERDURE_*`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    database_url: Annotated[SecretStr, AfterValidator(_check_url)]
    agents: Annotated[tuple[str, ...], BeforeValidator(_split)] = ("app.agents",)
    host: str = Field("127.0.0.1", min_length=1)
    port: int = Field(8000, ge=1, le=65535)
    api_key: Annotated[
        Annotated[SecretStr, AfterValidator(_check_key)] | None, AfterValidator(_require_key)
    ] = Field(None, validate_default=True)
    grace_seconds: float = Field(20, ge=0, le=3600)
    lease_seconds: float = Field(10, ge=3, le=300)
    worker_concurrency: int = Field(100, ge=1, le=1000)
    queue_key_concurrency: int | None = Field(None, ge=1, le=100_000)
    queue_key_worker_concurrency: Annotated[
        Annotated[int, Field(ge=1)] | None, AfterValidator(_check_share)
    ] = None
    queue_key_rate: Annotated[tuple[int, float] | None, BeforeValidator(_to_rate)] = None
    queue_limit: int = Field(10_000, ge=1, le=10_000_000)
    model_attempts: int = Field(6, ge=1, le=100)
    model_concurrency: int | None = Field(None, ge=1, le=100_000)
    retention_days: float = Field(30, ge=0, le=36500)
    webhook_secret: Annotated[SecretStr, AfterValidator(_check_webhook_secret)] | None = None
    webhook_allow_private: bool = False
    allow_unsafe_database: bool = False
    # Of clients alone, which may share an environment with the service.
    url: Annotated[str, AfterValidator(_check_service)] = "http://127.0.0.1:8000"
    log_level: Annotated[
        Literal["DEBUG", "INFO", "WARNING", "ERROR"], BeforeValidator(str.upper)
    ] = "INFO"

    @property
    def webhook_keys(self) -> tuple[bytes, ...]:
        """What webhooks are signed with; without a key none are sent."""
        return () if self.webhook_secret is None else _keys(self.webhook_secret.get_secret_value())


def load(environ: Mapping[str, str]) -> Settings:
    """Read `PERDURE_*`, an empty value as unset; all that is wrong is told in one error."""
    given = {
        name.removeprefix(PREFIX).lower(): value
        for name, value in environ.items()
        if name.startswith(PREFIX) and not name.startswith(IGNORED_PREFIX) and value
    }
    try:
        return Settings.model_validate(given)
    except ValidationError as error:
        problems = [_describe(detail) for detail in error.errors()]
    raise ConfigurationError(
        "Perdure cannot start with these settings:",
        problems,
        hint="Every setting is described in docs/settings.md.",
    )


def _describe(detail: ErrorDetails) -> str:
    message = detail["msg"].removeprefix("Value error, ")
    name = str(detail["loc"][0])
    match detail["type"]:
        case "extra_forbidden":
            return f"{PREFIX}{name.upper()}: there is no such setting{_suggest(name)}"
        case "missing":
            return f"{PREFIX}{name.upper()}: must be set"
        case "value_error":
            return f"{PREFIX}{name.upper()}: {message}"
        case _:
            return f"{PREFIX}{name.upper()}: {message}, not {detail['input']!r}"


def _suggest(name: str) -> str:
    nearest = difflib.get_close_matches(name, Settings.model_fields, n=1, cutoff=0.5)
    return f"; did you mean {PREFIX}{nearest[0].upper()}?" if nearest else ""
