"""What the documents say is so: links, code, settings, commands and the names of tests."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.cli import application
from app.settings import IGNORED_PREFIX, PREFIX, Settings

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
DOCUMENTS = [README, ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
DECISIONS = sorted((ROOT / "docs" / "adr").glob("*.md"))

FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
TEST = re.compile(r"`(test_\w+)(?:\[([\w-]+)\])?`")

each_document = pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)


def list_blocks(document: Path, language: str) -> list[str]:
    return [code for kind, code in FENCED.findall(document.read_text()) if kind == language]


def list_commands(text: str) -> Iterator[str]:
    """What a reader is told to type."""
    for _, code in FENCED.findall(text):
        yield from code.splitlines()
    yield from SPAN.findall(FENCED.sub("", text))


def name_anchor(heading: str) -> str:
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def list_broken_links(document: Path) -> list[str]:
    broken = []
    for link in LINK.findall(FENCED.sub("", document.read_text())):
        path, _, anchor = link.partition("#")
        if "://" in path:
            continue
        target = (document.parent / path).resolve() if path else document
        if not target.exists() or (anchor and anchor not in list_anchors(target)):
            broken.append(link)
    return broken


def list_anchors(document: Path) -> list[str]:
    return [name_anchor(heading) for heading in HEADING.findall(document.read_text())]


@each_document
def test_every_link_leads_somewhere(document: Path) -> None:
    assert list_broken_links(document) == []


def test_a_link_to_nowhere_would_be_seen(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A page\n[here](#a-page) [web](https://x.example) [no](no.md) [no](#other)\n")
    assert list_broken_links(page) == ["no.md", "#other"]


@each_document
def test_every_setting_that_is_named_exists(document: Path) -> None:
    names = set(re.findall(rf"{PREFIX}[A-Z_]*[A-Z]", document.read_text()))
    settings = {f"{PREFIX}{name.upper()}" for name in Settings.model_fields}
    switches = {name for name in names if f"{name}_".startswith(IGNORED_PREFIX)}
    assert names - switches - settings == set()


@each_document
def test_every_command_that_is_named_exists(document: Path) -> None:
    made = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    known = {command.name for command in application.registered_commands}
    known |= {group.name for group in application.registered_groups}
    for command in list_commands(document.read_text()):
        if target := re.search(r"(?:^|\s)make ([a-z-]+)", command):
            assert target[1] in made, command
        if word := re.search(r"(?:^|[\s/])perdure ([a-z][a-z-]*)", command):
            assert word[1] in known, command


@each_document
def test_python_code_compiles(document: Path) -> None:
    for code in list_blocks(document, "python"):
        compile(code, str(document), "exec")


def test_the_agent_of_the_readme_is_one(tmp_path: Path) -> None:
    from app.tools.registry import load

    (code,) = list_blocks(README, "python")
    agents = tmp_path / "readme_agents.py"
    agents.write_text(code)
    registry = load(str(agents))
    assert [tool.replay for tool in registry.agents["desk"].tools] == ["idempotent"]


def test_the_readme_is_short() -> None:
    assert 450 <= len(README.read_text().split()) <= 900


def test_every_test_that_proves_a_guarantee_exists() -> None:
    places = (ROOT / "tests" / "acceptance", ROOT / "tests" / "migration")
    sources = [path.read_text() for place in places for path in place.glob("test_*.py")]
    named = TEST.findall((ROOT / "docs" / "guarantees.md").read_text())
    assert len(named) > 30
    for name, parameter in named:
        source = next((text for text in sources if f"def {name}(" in text), None)
        assert source is not None, name
        assert f'"{parameter}"' in source or not parameter, f"{name}[{parameter}]"


def test_decisions_are_numbered_and_of_one_form() -> None:
    assert [path.name[:5] for path in DECISIONS] == [
        f"{n:04}-" for n in range(1, len(DECISIONS) + 1)
    ]
    for path in DECISIONS:
        text = path.read_text()
        title, *sections = HEADING.findall(text)
        assert title.startswith(f"{int(path.name[:4])}. "), path.name
        assert sections == ["Context", "Decision", "Consequences", "Alternatives"], path.name
        assert 200 <= len(text.split()) <= 500, path.name
