"""A directory and an embedded Postgres for each test."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.cli.embedded import Cluster


@pytest.fixture
def open_directory() -> Iterator[Path]:
    """One that every account may enter; pytest's own are root's alone if root runs it."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture
def embedded(open_directory: Path) -> Iterator[Cluster]:
    """An embedded Postgres of the test's own, not started."""
    cluster = Cluster(open_directory / "postgres")
    yield cluster
    cluster.destroy()
