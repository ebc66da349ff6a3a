"""A person at a browser: pages of one service, and all that the browser complains of."""

from dataclasses import dataclass, field
from typing import Any

from playwright.async_api import Browser, BrowserContext, ConsoleMessage, Page

PATIENCE_MS = 15_000


@dataclass
class Looking:
    """`expected`: parts of complaints that a test asks for."""

    browser: Browser
    url: str
    complaints: list[str] = field(default_factory=list)
    expected: list[str] = field(default_factory=list)
    contexts: list[BrowserContext] = field(default_factory=list)

    async def context(self, **options: Any) -> BrowserContext:
        """A browser of its own: no cookie of another is in it."""
        context = await self.browser.new_context(**options)
        context.set_default_timeout(PATIENCE_MS)
        context.on("console", self._hear)
        context.on("weberror", lambda error: self.complaints.append(str(error.error)))
        self.contexts.append(context)
        return context

    async def at(self, path: str, **options: Any) -> Page:
        page = await (await self.context(**options)).new_page()
        await page.goto(self.url + path)
        return page

    async def close(self) -> None:
        for context in self.contexts:
            await context.close()
        self.contexts.clear()

    def unexpected(self) -> list[str]:
        return [text for text in self.complaints if not any(part in text for part in self.expected)]

    def _hear(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self.complaints.append(f"{message.text} {message.location['url']}")
