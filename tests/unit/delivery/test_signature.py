from datetime import UTC, datetime

from standardwebhooks import Webhook

from app.delivery.signature import sign
from app.settings import load

# The vector that the implementations of the standard are tested with.
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
ID, TIMESTAMP, BODY = "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, '{"test": 2432232314}'
SIGNATURE = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def keys_of(secret: str) -> tuple[bytes, ...]:
    settings = {"PERDURE_DATABASE_URL": "postgresql:///x", "PERDURE_WEBHOOK_SECRET": secret}
    return load(settings).webhook_keys


def test_the_standards_own_example_is_signed_as_it_says() -> None:
    assert sign(keys_of(SECRET), ID, TIMESTAMP, BODY) == {
        "webhook-id": ID,
        "webhook-timestamp": "1614265330",
        "webhook-signature": SIGNATURE,
    }


def test_each_key_signs_and_the_first_stands_first() -> None:
    other = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX"
    both = sign(keys_of(f"{other} {SECRET}"), ID, TIMESTAMP, BODY)["webhook-signature"]

    assert both.split(" ")[1] == SIGNATURE
    assert both.split(" ")[0] == sign(keys_of(other), ID, TIMESTAMP, BODY)["webhook-signature"]


def test_a_body_of_any_letters_is_signed_as_its_bytes() -> None:
    body = '{"text":"\u00e4\u2603"}'
    headers = sign(keys_of(SECRET), ID, TIMESTAMP, body)

    expected = Webhook(SECRET).sign(ID, datetime.fromtimestamp(TIMESTAMP, UTC), body)
    assert headers["webhook-signature"] == expected
