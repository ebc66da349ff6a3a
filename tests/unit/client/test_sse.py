"""Frames come out whole, wherever the network cuts the stream."""

import pytest

from app.client.sse import Frame, Parser

LOG = (
    b"\xef\xbb\xbf: hello\n\n"
    b'id: 1\nevent: run.queued\ndata: {"a":\ndata:  1}\n\n'
    b"retry: 10\nevent: nothing\n\n"
    b"event: call.started\r\ndata: two\r\n\r\n"
    b"id: 3\rdata\rdata:\r\r"
    b"id: bad\0id\ndata: \xc3\xa9\xe2\x82\xac\n\n"
    b"data: unfinished\n"
)
FRAMES = [
    Frame("run.queued", '{"a":\n 1}', "1"),
    Frame("call.started", "two", "1"),
    Frame("message", "\n", "3"),
    Frame("message", "é€", "3"),
]


def parse(chunks: list[bytes]) -> list[Frame]:
    parser = Parser()
    return [frame for chunk in chunks for frame in parser.feed(chunk)]


def test_a_stream_in_one_piece_is_read() -> None:
    assert parse([LOG]) == FRAMES


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 11])
def test_a_stream_in_small_pieces_is_read_the_same(size: int) -> None:
    assert parse([LOG[at : at + size] for at in range(0, len(LOG), size)]) == FRAMES


def test_a_stream_cut_at_any_one_place_is_read_the_same() -> None:
    for at in range(len(LOG)):
        assert parse([LOG[:at], b"", LOG[at:]]) == FRAMES, at
