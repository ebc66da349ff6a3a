"""Fixtures for every layer: a Postgres cluster per session and a database per test."""

import signal
import sys
import threading
from collections.abc import Callable, Generator, Iterator

import pytest

from tests.guarantees import recorder
from tests.support.database import Cluster, open_cluster
from tests.support.deployment import Deployment

DEPLOYMENTS = pytest.StashKey[list[Deployment]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    recorder.add_option(parser)


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):  # a worker of xdist sees only its own share
        config.pluginmanager.register(recorder.Recorder(config), "guarantees")
    config.addinivalue_line("markers", "case(*ids): the acceptance cases that a test proves")
    config.addinivalue_line("markers", "calm: kills nothing and shares a service with its like")
    config.addinivalue_line(
        "markers", "mended: shares a service with its like, each finds whole what others killed"
    )
    config.addinivalue_line("markers", "limits: shares a service that limits each queue key")
    if threading.current_thread() is threading.main_thread():
        # Asked to end, the suite still stops what it has started.
        signal.signal(signal.SIGTERM, signal.default_int_handler)


@pytest.fixture(scope="session")
def cluster(pytestconfig: pytest.Config) -> Iterator[Cluster]:
    with open_cluster() as cluster:
        recorder.note_server(pytestconfig, cluster.version())
        yield cluster


@pytest.fixture
def say_aloud(capfd: pytest.CaptureFixture[str]) -> Callable[[str], None]:
    """Shows a figure in the report of a run that passes."""

    def say(text: str) -> None:
        with capfd.disabled():
            sys.stdout.write(f"\n{text}\n")

    return say


@pytest.fixture
def database_url(cluster: Cluster) -> Iterator[str]:
    """A migrated, empty database of the test's own."""
    url = cluster.clone()
    yield url
    cluster.drop(url)


@pytest.fixture
def empty_database_url(cluster: Cluster) -> Iterator[str]:
    """A database that no migration has seen."""
    url = cluster.create_empty()
    yield url
    cluster.drop(url)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Shows what the processes of a failed test logged."""
    report = yield
    if report.failed:
        for deployment in item.stash.get(DEPLOYMENTS, []):
            report.sections += [(f"log of {title}", tail) for title, tail in deployment.tails()]
    return report
