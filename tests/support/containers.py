"""Postgres in a container, where there is a Docker engine. Only its start differs from others."""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

IMAGE = "postgres:18"
COMMAND = "postgres -c max_connections=300"


@contextmanager
def in_container() -> Iterator[str]:
    """The URL of a server that is gone afterwards."""
    # Its packages are not touched unless somebody asks for a container.
    from testcontainers.community.postgres import PostgresContainer

    with PostgresContainer(IMAGE, driver=None).with_command(COMMAND) as container:
        yield container.get_connection_url()


def is_there() -> bool:
    """Whether a Docker engine answers."""
    if shutil.which("docker") is None:
        return False
    asked = ["docker", "version", "--format", "{{.Server.Version}}"]
    return subprocess.run(asked, capture_output=True, check=False, timeout=30).returncode == 0
