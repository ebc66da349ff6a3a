"""What the tests of the embedded Postgres share."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import psycopg

ROOT = Path(__file__).parents[3]
STARTER = """
import sys
from pathlib import Path
from app.cli.embedded import Cluster
print(Cluster(Path(sys.argv[1])).start(), flush=True)
sys.stdin.read()
"""


def query(url: str, statement: str) -> object:
    """The first value of the first row, if the statement gives rows."""
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(statement.encode())
        row = cursor.fetchone() if cursor.description else None
        return row[0] if row else None


def begin_start(directory: Path) -> subprocess.Popen[str]:
    """Another process, in a group of its own, that starts the cluster and then waits."""
    return subprocess.Popen(
        [sys.executable, "-c", STARTER, str(directory)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def read_url(starter: subprocess.Popen[str]) -> str:
    assert starter.stdout is not None
    return starter.stdout.readline().strip()


def kill_group(starter: subprocess.Popen[str]) -> None:
    os.killpg(starter.pid, signal.SIGKILL)
    with starter:
        starter.wait(10)


def kill_server(pid: int) -> None:
    server = psutil.Process(pid)
    server.kill()
    psutil.wait_procs([server], timeout=10)
