"""Text that would do harm in a page that let it through."""

from html.parser import HTMLParser
from typing import Any

SCRIPT = "<script>alert(1)</script>"
HOSTILE = f"""{SCRIPT}"'><img src=x onerror=alert(2)>{{{{7*7}}}}\u202egnp.exe</textarea></pre>"""
VOID = frozenset({"meta", "link", "input", "img", "wbr", "br"})


class Elements(HTMLParser):
    """All elements of a page as a browser would make them, with their attributes."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data

    def of(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.found if name == tag]


def harm(page: str) -> list[Any]:
    """Elements and attributes that are none of ours."""
    elements = Elements(page).found
    own = ("/static/", "/")
    return [
        (tag, name, value)
        for tag, attributes in elements
        for name, value in attributes.items()
        if name.startswith("on")
        or name == "style"
        or (name == "src" and not (value or "").startswith("/static/"))
        or (name == "href" and not (value or "").startswith((*own, "#", "?")))
        or (name == "href" and (value or "").startswith("//"))
    ] + [
        tag
        for tag, attributes in elements
        if tag in ("script", "iframe", "style") and "src" not in attributes
    ]
