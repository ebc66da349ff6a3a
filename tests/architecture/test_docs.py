"""What the documents say is so: links, code, settings, commands and the names of tests."""

import json
import re
import runpy
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.cli import application
from app.settings import IGNORED_PREFIX, PREFIX, Settings
from tests.support.pages import PAGES, Block, all_blocks, blocks_of

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
DOCUMENTS = [README, ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
DECISIONS = sorted((ROOT / "docs" / "adr").glob("*.md"))

FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)

# Blocks of the manual that no test runs, and why. All others are run, or checked by what they are.
NOT_RUN = {
    ("quickstart.md", "it installs Perdure"),
    ("quickstart.md", "it starts what the other blocks talk to"),
    ("tools.md", "tests/acceptance/test_verify.py runs it"),
    ("verify.md", "tests/acceptance/test_verify.py runs it"),
    ("performance.md", "it takes most of an hour"),
    ("streams.md", "frames of a stream"),
    ("operations.md", "nginx is not part of the suite"),
}
# Without a note, sh, sql and what uses the client are run by tests/acceptance/test_pages.py.
CHECKED = {"sh", "sql", "python", "json"}
NOTES = {"answer", "request", "shape", "file", "refused", "not run"}

each_document = pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)


def list_blocks(document: Path, language: str) -> list[str]:
    return [code for kind, code in FENCED.findall(document.read_text()) if kind == language]


def list_commands(text: str) -> Iterator[str]:
    """What a reader is told to type."""
    for language, code in FENCED.findall(text):
        if language in ("", "sh"):
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


def test_no_block_is_left_out_without_a_reason() -> None:
    left_out = {(block.page, block.said("not run")) for block in all_blocks()}
    assert {each for each in left_out if each[1] is not None} == NOT_RUN
    for block in all_blocks():
        assert block.language in CHECKED or block.said("not run"), f"{block}: {block.language}"
        assert block.note.partition(":")[0] in NOTES | {""}, f"{block}: {block.note}"


def test_every_fence_is_read_as_a_block() -> None:
    for page in PAGES:
        assert page.read_text().count("\n```") == 2 * len(blocks_of(page)), page.name


@pytest.mark.parametrize("block", [b for b in all_blocks() if b.language == "json"], ids=str)
def test_json_is_json(block: Block) -> None:
    json.loads(block.code)


@pytest.mark.parametrize("block", [b for b in all_blocks() if b.language == "python"], ids=str)
def test_python_code_runs(block: Block, tmp_path: Path) -> None:
    if block.is_live or block.said("not run") is not None:
        return
    module = tmp_path / "page.py"
    module.write_text(block.code)
    runpy.run_path(str(module))


def test_the_agent_of_the_readme_is_one(tmp_path: Path) -> None:
    from app.tools.registry import load

    (code,) = list_blocks(README, "python")
    agents = tmp_path / "readme_agents.py"
    agents.write_text(code)
    registry = load(str(agents))
    assert [tool.replay for tool in registry.agents["desk"].tools] == ["idempotent"]


def test_the_readme_is_short() -> None:
    assert 450 <= len(README.read_text().split()) <= 900


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
