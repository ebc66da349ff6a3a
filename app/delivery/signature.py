"""Standard Webhooks: how a receiver knows who sent what it got."""

import base64
import hashlib
import hmac
from collections.abc import Sequence


def sign(keys: Sequence[bytes], id: str, timestamp: int, body: str) -> dict[str, str]:
    """The headers. While a secret is being replaced there are two keys, and two signatures."""
    signed = f"{id}.{timestamp}.{body}".encode()
    digests = [hmac.digest(key, signed, hashlib.sha256) for key in keys]
    return {
        "webhook-id": id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": " ".join(f"v1,{base64.b64encode(each).decode()}" for each in digests),
    }
