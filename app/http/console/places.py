"""Where a browser may be sent."""


def inside(wanted: str) -> str:
    """A place of this service; anything that a browser might read as another's is the start."""
    is_plain = wanted.isascii() and wanted.isprintable() and "\\" not in wanted
    is_own = wanted.startswith("/") and not wanted.startswith("//")
    return wanted if is_plain and is_own else "/"
