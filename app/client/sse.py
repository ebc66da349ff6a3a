"""Server-sent events as the WHATWG specifies them, out of chunks that are cut anywhere."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

_LINE_END = re.compile(rb"[\r\n]")


@dataclass(frozen=True, slots=True)
class Frame:
    """`id` is the last one that the stream has set."""

    event: str
    data: str
    id: str = ""


class Parser:
    """Fed with bytes, it gives the frames that are complete."""

    def __init__(self) -> None:
        self._buffer = b""
        self._data: list[str] = []
        self._event = ""
        self._id = ""
        self._is_first = True
        self._skips_newline = False

    def feed(self, chunk: bytes) -> Iterator[Frame]:
        for line in self._lines(chunk):
            frame = self._take(line.decode(errors="replace"))
            if frame is not None:
                yield frame

    def _lines(self, chunk: bytes) -> Iterator[bytes]:
        """A line ends with LF, CR or CRLF; a CR at the end of a chunk may be half of a CRLF."""
        if self._skips_newline and chunk:
            chunk = chunk.removeprefix(b"\n")
            self._skips_newline = False
        buffer, start = self._buffer + chunk, 0
        while end := _LINE_END.search(buffer, start):
            line, start = buffer[start : end.start()], end.end()
            if end[0] == b"\r":
                self._skips_newline = start == len(buffer)
                start += buffer[start : start + 1] == b"\n"
            yield self._without_mark(line)
        self._buffer = buffer[start:]

    def _without_mark(self, line: bytes) -> bytes:
        is_first, self._is_first = self._is_first, False
        return line.removeprefix(b"\xef\xbb\xbf") if is_first else line

    def _take(self, line: str) -> Frame | None:
        if not line:
            return self._dispatch()
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        match name:
            case "data":
                self._data.append(value)
            case "event":
                self._event = value
            case "id" if "\0" not in value:
                self._id = value
            case _:
                pass  # a comment, `retry`, or what a later version sends
        return None

    def _dispatch(self) -> Frame | None:
        data, self._data = self._data, []
        event, self._event = self._event, ""
        return Frame(event or "message", "\n".join(data), self._id) if data else None
