import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main

from app.cli import application
from app.cli.remote.exits import Exit

DOCUMENT = Path(__file__).parents[2] / "docs" / "cli.md"


def list_commands(command: Any, name: str) -> Iterator[tuple[str, Any]]:  # noqa: ANN401 - of click
    if hasattr(command, "commands"):
        for word, each in command.commands.items():
            yield from list_commands(each, f"{name} {word}")
    else:
        yield name, command


COMMANDS = dict(list_commands(typer.main.get_command(application), "perdure"))


def read_sections() -> dict[str, str]:
    parts = re.split(r"^## (perdure .+)$", DOCUMENT.read_text(), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_every_command_has_a_heading_and_every_heading_a_command() -> None:
    assert read_sections().keys() == COMMANDS.keys()


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_is_described(name: str) -> None:
    section = read_sections()[name]
    told = set(re.findall(r"(--[a-z-]+)", section))
    options = {
        option
        for parameter in COMMANDS[name].params
        if parameter.param_type_name == "option" and not parameter.hidden
        for option in parameter.opts
    }
    assert options - {"--help"} == {option for option in told if option in options}
    assert not {option for option in told - options if f"`{option}`" in section}, "no such option"


def test_every_command_has_help_and_those_that_ask_a_service_an_example() -> None:
    for name, command in COMMANDS.items():
        assert command.help, name
        if name.startswith(("perdure runs", "perdure waits")):
            assert command.epilog.startswith(f"Example: {name} "), name


def test_every_exit_code_is_described() -> None:
    table = DOCUMENT.read_text().partition("## Exit codes")[2].partition("\n## ")[0]
    assert re.findall(r"^\| (\d+) \|", table, re.MULTILINE) == [str(int(code)) for code in Exit]
