import pytest

from app.errors import ConfigurationError
from app.settings import load

URL = "postgresql://perdure:hunter2@db.internal:5432/perdure"
REQUIRED = {"PERDURE_DATABASE_URL": URL}


def refuse(**environ: str) -> list[str]:
    with pytest.raises(ConfigurationError) as refused:
        load({**REQUIRED, **environ})
    return list(refused.value.problems)


def test_defaults_serve_the_built_in_agents_on_loopback() -> None:
    settings = load(REQUIRED)

    assert (settings.host, settings.port) == ("127.0.0.1", 8000)
    assert settings.agents == ("app.agents",)
    assert (settings.grace_seconds, settings.lease_seconds) == (20, 10)
    assert (settings.worker_concurrency, settings.model_attempts) == (100, 6)
    assert settings.api_key is None
    assert settings.allow_unsafe_database is False


def test_values_are_read_from_the_environment() -> None:
    settings = load(
        {
            **REQUIRED,
            "PERDURE_AGENTS": "shop.agents, extra/agents.py",
            "PERDURE_PORT": "9000",
            "PERDURE_GRACE_SECONDS": "2.5",
            "PERDURE_ALLOW_UNSAFE_DATABASE": "1",
            "PERDURE_LOG_LEVEL": "debug",
        }
    )

    assert settings.agents == ("shop.agents", "extra/agents.py")
    assert settings.port == 9000
    assert settings.grace_seconds == 2.5
    assert settings.allow_unsafe_database is True
    assert settings.log_level == "DEBUG"


def test_what_a_queue_key_may_take_is_read_from_the_environment() -> None:
    settings = load({**REQUIRED, "PERDURE_QUEUE_KEY_RATE": "10/0.5", "PERDURE_QUEUE_LIMIT": "7"})

    assert (settings.queue_key_rate, settings.queue_limit) == ((10, 0.5), 7)
    assert (settings.queue_key_concurrency, settings.queue_key_worker_concurrency) == (None, None)
    assert settings.model_concurrency is None


@pytest.mark.parametrize(
    ("name", "most"), [("WORKER_CONCURRENCY", "10"), ("QUEUE_KEY_CONCURRENCY", "10")]
)
def test_the_part_of_a_worker_is_no_more_than_the_whole(name: str, most: str) -> None:
    share = "PERDURE_QUEUE_KEY_WORKER_CONCURRENCY"
    whole = {f"PERDURE_{name}": most}

    assert refuse(**whole, **{share: "11"}) == [
        f"{share}: must be at most PERDURE_{name}, which is 10"
    ]
    assert load({**REQUIRED, **whole, share: "10"}).queue_key_worker_concurrency == 10


def test_settings_cannot_be_changed_after_the_start() -> None:
    settings = load(REQUIRED)

    with pytest.raises(ValueError, match="frozen"):
        settings.__setattr__("port", 1)


def test_an_unknown_name_is_refused_with_the_nearest_known_one() -> None:
    assert refuse(PERDURE_PROT="1") == [
        "PERDURE_PROT: there is no such setting; did you mean PERDURE_PORT?"
    ]


def test_a_name_like_none_that_is_known_is_refused_without_a_guess() -> None:
    assert refuse(PERDURE_XYZZY="1") == ["PERDURE_XYZZY: there is no such setting"]


def test_other_programs_variables_and_the_test_suites_are_passed_over() -> None:
    assert load({**REQUIRED, "PERDURE_TEST_FULL": "1", "PERDUREX": "1", "PORT": "x"}).port == 8000


def test_an_empty_value_counts_as_unset() -> None:
    assert load({**REQUIRED, "PERDURE_PORT": "", "PERDURE_API_KEY": ""}) == load(REQUIRED)


def test_everything_that_is_wrong_is_told_at_once() -> None:
    with pytest.raises(ConfigurationError) as refused:
        load({"PERDURE_PORT": "http", "PERDURE_HSOT": "x", "PERDURE_LEASE_SECONDS": "1"})

    text = str(refused.value)
    assert "PERDURE_DATABASE_URL: must be set" in text
    assert "PERDURE_PORT: Input should be a valid integer" in text
    assert "'http'" in text
    assert "PERDURE_LEASE_SECONDS: Input should be greater than or equal to 3" in text
    assert "did you mean PERDURE_HOST?" in text
    assert "docs/settings.md" in text


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("DATABASE_URL", "mysql://u:hunter2@h/db", "must start with postgresql://"),
        ("DATABASE_URL", "postgresql+psycopg://u:hunter2@h/db", "must start with postgresql://"),
        ("DATABASE_URL", "postgresql://u:hunter2@h", "must name a database"),
        ("DATABASE_URL", "postgresql://u:hunter2@[h/db", "Invalid IPv6 URL"),
        ("API_KEY", "hunter2 two words", "must be printable ASCII without spaces"),
        ("API_KEY", "hunter2ü", "must be printable ASCII without spaces"),
        ("WEBHOOK_SECRET", "hunter2", "must be whsec_ and then 24 to 64 bytes"),
        ("WEBHOOK_SECRET", "whsec_hunter2!", "must be whsec_ and then 24 to 64 bytes"),
        ("WEBHOOK_SECRET", "whsec_", "must be whsec_ and then 24 to 64 bytes"),
        ("WEBHOOK_SECRET", "whpk_hunter22", "must be whsec_ and then 24 to 64 bytes"),
        ("WEBHOOK_SECRET", "whsec_aHVudGVyMg==", "must be whsec_ and then 24 to 64 bytes"),
        ("WEBHOOK_SECRET", "whsec_hunter22,hunter2", "must be whsec_ and then 24 to 64 bytes"),
        ("WEBHOOK_SECRET", " , ", "names no secret"),
    ],
)
def test_a_wrong_secret_is_not_repeated(name: str, value: str, problem: str) -> None:
    (told,) = refuse(**{f"PERDURE_{name}": value})

    assert problem in told
    assert "hunter2" not in told


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("AGENTS", " , "),
        ("PORT", "0"),
        ("PORT", "65536"),
        ("GRACE_SECONDS", "-1"),
        ("GRACE_SECONDS", "nan"),
        ("LEASE_SECONDS", "inf"),
        ("WORKER_CONCURRENCY", "0"),
        ("MODEL_ATTEMPTS", "0"),
        ("MODEL_CONCURRENCY", "0"),
        ("QUEUE_LIMIT", "0"),
        ("QUEUE_KEY_CONCURRENCY", "0"),
        ("QUEUE_KEY_WORKER_CONCURRENCY", "0"),
        ("QUEUE_KEY_RATE", "10"),
        ("QUEUE_KEY_RATE", "0/60"),
        ("QUEUE_KEY_RATE", "10/0"),
        ("QUEUE_KEY_RATE", "10/inf"),
        ("QUEUE_KEY_RATE", "10/nan"),
        ("QUEUE_KEY_RATE", "ten/60"),
        ("QUEUE_KEY_RATE", "10/60/1"),
        ("ALLOW_UNSAFE_DATABASE", "perhaps"),
        ("LOG_LEVEL", "loud"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_by_name(name: str, value: str) -> None:
    (told,) = refuse(**{f"PERDURE_{name}": value})

    assert told.startswith(f"PERDURE_{name}: ")


@pytest.mark.parametrize(
    ("secret", "keys"),
    [
        ("", ()),
        (f"whsec_{'QUFB' * 8}", (b"A" * 24,)),
        (f"whsec_{'QUFB' * 8}QQ", (b"A" * 25,)),
        (f"whsec_{'QUFB' * 8} whsec_{'QkJC' * 8}QkI=", (b"A" * 24, b"B" * 26)),
        (f"whsec_{'QUFB' * 8}, whsec_{'QkJC' * 8}QkI=", (b"A" * 24, b"B" * 26)),
    ],
)
def test_webhooks_are_signed_with_one_key_or_two(secret: str, keys: tuple[bytes, ...]) -> None:
    assert load({**REQUIRED, "PERDURE_WEBHOOK_SECRET": secret}).webhook_keys == keys


def test_a_secret_is_not_shown_by_repr() -> None:
    settings = load({**REQUIRED, "PERDURE_API_KEY": "s3cr3t"})

    assert "s3cr3t" not in repr(settings)
    assert "hunter2" not in repr(settings)
    assert settings.api_key is not None
    assert settings.api_key.get_secret_value() == "s3cr3t"


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.4", "perdure.example"])
def test_a_host_that_others_can_reach_needs_a_key(host: str) -> None:
    (told,) = refuse(PERDURE_HOST=host)

    assert told.startswith("PERDURE_API_KEY: must be set, because PERDURE_HOST=")
    assert load({**REQUIRED, "PERDURE_HOST": host, "PERDURE_API_KEY": "k"}).host == host


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_a_loopback_host_needs_no_key(host: str) -> None:
    assert load({**REQUIRED, "PERDURE_HOST": host}).api_key is None
