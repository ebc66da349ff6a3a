"""Documents whose text changes by version, and plain counters for tools that only need counting."""

import threading
from collections import Counter
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Documents:
    """Named texts with a version that grows with every write."""

    reads: list[str] = field(default_factory=list)
    _texts: dict[str, tuple[int, str]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def write(self, name: str, text: str) -> int:
        with self._lock:
            version = self._texts.get(name, (0, ""))[0] + 1
            self._texts[name] = (version, text)
            return version

    def note_read(self, name: str) -> None:
        with self._lock:
            self.reads.append(name)

    def read(self, name: str) -> dict[str, Any]:
        with self._lock:
            version, text = self._texts.get(name, (0, ""))
            return {"name": name, "version": version, "text": text}


@dataclass
class Effects:
    """How often each named body reached the outside world, and with which details."""

    seen: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def record(self, name: str, details: dict[str, Any]) -> None:
        with self._lock:
            self.seen.append((name, details))

    def count(self, name: str) -> int:
        with self._lock:
            return Counter(seen for seen, _ in self.seen)[name]

    def details(self, name: str) -> list[dict[str, Any]]:
        with self._lock:
            return [details for seen, details in self.seen if seen == name]
