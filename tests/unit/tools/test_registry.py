"""Loading the agents of modules and files, and saying what is wrong with them."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from app.agents import refund_desk
from app.tools.errors import AgentDefinitionError, AgentLoadError, ToolDefinitionError
from app.tools.registry import Registry, load

DESK = "from app import Agent\ndesk = Agent(name='desk', model='claude-sonnet-5')\n"
Write = Callable[[str, str], Path]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Write]:
    """Writes a file of the user's project, which is the current directory."""
    path, modules = list(sys.path), set(sys.modules)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def write(name: str, text: str) -> Path:
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    yield write
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        del sys.modules[name]


def refusal(spec: str) -> str:
    with pytest.raises(AgentLoadError) as refused:
        load(spec)
    return str(refused.value)


def test_the_default_is_the_built_in_desk() -> None:
    registry = load("app.agents")
    assert registry.agents == {"refund-desk": refund_desk}
    assert registry.tool("refund-desk", "refund") is refund_desk.tool("refund")
    assert registry.tool("refund-desk", "nothing") is None
    assert registry.tool("nothing", "refund") is None
    assert registry.agent("nothing") is None


def test_a_file_is_loaded_by_its_path(write: Write) -> None:
    file = write("deep/agents.py", DESK)
    assert list(load("deep/agents.py").agents) == ["desk"]
    assert list(load(str(file)).agents) == ["desk"]


def test_a_module_is_found_in_the_current_directory(write: Write) -> None:
    write("support_team/desks.py", DESK)
    assert list(load("support_team.desks").agents) == ["desk"]


def test_a_package_may_re_export_its_agents(write: Write) -> None:
    write("crew/desks.py", DESK)
    write("crew/__init__.py", "from crew.desks import desk\n")
    assert list(load("crew").agents) == ["desk"]


def test_a_file_may_import_its_neighbours(write: Write) -> None:
    write("deep/neighbour_words.py", "NAME = 'desk'\n")
    write("deep/agents.py", "from neighbour_words import NAME\n" + DESK.replace("'desk'", "NAME"))
    assert list(load("deep/agents.py").agents) == ["desk"]


def test_the_neighbours_of_a_file_hide_no_module(write: Write) -> None:
    write("deep/tabnanny.py", "raise ValueError('imported')\n")
    write("deep/agents.py", "import tabnanny\n" + DESK)
    assert list(load("deep/agents.py").agents) == ["desk"]


def test_a_list_gives_all_agents(write: Write) -> None:
    write("a_desk.py", DESK)
    write("b_desk.py", DESK.replace("'desk'", "'other'"))
    assert list(load(" a_desk.py , b_desk ,").agents) == ["desk", "other"]


def test_one_file_twice_is_harmless(write: Write) -> None:
    file = write("twice_desk.py", DESK + "again = desk\n")
    assert list(load(f"twice_desk.py,{file},twice_desk,./twice_desk.py").agents) == ["desk"]


def test_two_agents_of_one_name_are_refused_with_both_places(write: Write) -> None:
    first, second = write("one_desk.py", DESK), write("two_desk.py", "\n" + DESK)
    text = refusal("one_desk,two_desk")
    assert f"two agents are named 'desk': {first}:2 and {second}:3" in text


def test_the_same_tool_name_in_two_agents_is_fine(write: Write) -> None:
    desk = (
        "from app import Agent, tool\n"
        "@tool\n"
        "def pay(cents: int) -> None: ...\n"
        "{0} = Agent(name='{0}', model='claude-sonnet-5', tools=[pay])\n"
    )
    write("left_desk.py", desk.format("left"))
    write("right_desk.py", desk.format("right"))
    registry = load("left_desk,right_desk")
    assert registry.tool("left", "pay") is not registry.tool("right", "pay")


@pytest.mark.parametrize("spec", ["", " , "])
def test_an_empty_list_is_refused(spec: str) -> None:
    assert "names no module" in refusal(spec)


def test_a_missing_file_is_named(write: Write) -> None:
    assert "missing.py: there is no such file" in refusal("missing.py")


def test_a_missing_module_is_named(write: Write) -> None:
    assert "there is no module 'missing_desks'" in refusal("missing_desks.agents")


def test_a_module_without_agents_is_named(write: Write) -> None:
    file = write("empty_desk.py", "X = 1\n")
    assert refusal("empty_desk") == (
        f"{file}: defines no Agent at top level; add `desk = Agent(...)`"
    )


@pytest.mark.parametrize("spec", ["broken_desk", "broken_desk.py"])
def test_a_syntax_error_is_named_with_its_line(write: Write, spec: str) -> None:
    file = write("broken_desk.py", "X = 1\n\ndef (:\n")
    assert refusal(spec) == f"{file}:3: SyntaxError: invalid syntax"


@pytest.mark.parametrize("spec", ["failing_desk", "failing_desk.py"])
def test_an_import_error_is_named_with_its_line(write: Write, spec: str) -> None:
    file = write("failing_desk.py", "import os\n\nimport no_such_package_at_all\n")
    assert refusal(spec).startswith(
        f"{file}:3: could not be imported: ModuleNotFoundError: "
        "No module named 'no_such_package_at_all'"
    )


@pytest.mark.parametrize("spec", ["raising_desk", "raising_desk.py"])
@pytest.mark.parametrize("error", ["ValueError('boom')", "SystemExit(3)"])
def test_an_exception_at_import_is_named_with_its_line(write: Write, spec: str, error: str) -> None:
    file = write("raising_desk.py", f"def go():\n    raise {error}\n\n\ngo()\n")
    assert refusal(spec).startswith(f"{file}:2: could not be imported: {error.split('(')[0]}")


def test_the_users_line_is_named_and_where_it_led(write: Write) -> None:
    inner = write("inner_words.py", "\nraise ValueError('boom')\n")
    file = write("outer_desk.py", "X = 1\nimport inner_words\n")
    assert refusal("outer_desk") == (
        f"{file}:2: could not be imported: ValueError: boom (raised at {inner}:2)"
    )


def test_a_failing_parent_package_is_named_with_its_line(write: Write) -> None:
    write("failing_crew/desks.py", DESK)
    file = write("failing_crew/__init__.py", "\nraise ValueError('boom')\n")
    assert refusal("failing_crew.desks") == f"{file}:2: could not be imported: ValueError: boom"


def test_a_syntax_error_in_an_imported_file_is_named_there(write: Write) -> None:
    file = write("broken_words.py", "\nX = (\n")
    write("using_desk.py", "import broken_words\n" + DESK)
    assert refusal("using_desk").startswith(f"{file}:2: SyntaxError: '(' was never closed")


def test_the_cause_is_kept(write: Write) -> None:
    write("caused_desk.py", "1 / 0\n")
    with pytest.raises(AgentLoadError) as refused:
        load("caused_desk.py")
    assert isinstance(refused.value.__cause__, ZeroDivisionError)


def test_a_wrong_tool_or_agent_keeps_its_own_words(write: Write) -> None:
    file = write("wrong_tool.py", "from app import tool\n\n@tool\ndef pay(cents): ...\n")
    for spec in ("wrong_tool", "wrong_tool.py"):
        with pytest.raises(ToolDefinitionError) as refused:
            load(spec)
        assert str(refused.value).startswith(f"{file}:3: tool 'pay': parameter 'cents' has no")
    write("wrong_agent.py", "from app import Agent\nAgent(name='a', model='')\n")
    with pytest.raises(AgentDefinitionError, match=r"wrong_agent\.py:2: agent 'a': model is empty"):
        load("wrong_agent.py")


def test_a_file_can_be_loaded_after_it_was_mended(write: Write) -> None:
    write("mended_desk.py", "1 / 0\n")
    refusal("mended_desk.py")
    write("mended_desk.py", DESK)
    assert list(load("mended_desk.py").agents) == ["desk"]


def test_a_registry_can_be_made_of_agents() -> None:
    assert Registry.of([refund_desk, refund_desk]).agents == {"refund-desk": refund_desk}
