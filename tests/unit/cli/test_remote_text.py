"""What models, tools and people write reaches no terminal as a command to it."""

import json

import pytest

from app.cli.remote.text import plain, shortened, shown

ATTACKS = {
    "\x1b[2J": "\\x1b[2J",
    "\x1b]0;title\x07": "\\x1b]0;title\\x07",
    "\x9b31m": "\\x9b31m",
    "a\rb": "a\\x0db",
    "a\x08b": "a\\x08b",
    "\u202egnp.exe": "\\u202egnp.exe",
    "\u2066x\u2069": "\\u2066x\\u2069",
    "\ud83d": "\\ud83d",
    "\x00": "\\x00",
}


@pytest.mark.parametrize(("text", "harmless"), ATTACKS.items())
def test_what_a_terminal_would_obey_is_written_out(text: str, harmless: str) -> None:
    assert plain(text) == harmless
    assert plain(text, lines=True) == harmless


def test_lines_are_kept_only_where_they_may_be() -> None:
    assert plain("a\n\tb") == "a  b"
    assert plain("a\n\tb", lines=True) == "a\n\tb"


def test_other_text_stays_as_it_is() -> None:
    text = "Grüße, 東京 🙂 [bold]not markup[/bold] :smile:"
    assert plain(text) == text


def test_json_is_shown_on_one_line() -> None:
    value = {"name": "Ada\x1b[2J\nB", "town": "東京"}
    assert json.loads(shown(value)) == value
    assert "東京" in shown(value)
    assert "\n" not in shown(value) + shown("a\nb")


def test_what_is_too_long_is_cut() -> None:
    assert shortened("abcdef", 4) == "abc…"
    assert shortened("abcd", 4) == "abcd"
