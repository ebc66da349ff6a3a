"""Where a browser may be sent."""

from urllib.parse import urlsplit


def inside(wanted: str) -> str:
    """A place of this service; anything that a browser might read as another's is the start."""
    parts = urlsplit(wanted) if wanted.isascii() and wanted.isprintable() else None
    if parts is None or parts.scheme or parts.netloc or "\\" in wanted:
        return "/"
    return wanted if wanted.startswith("/") and not wanted.startswith("//") else "/"
