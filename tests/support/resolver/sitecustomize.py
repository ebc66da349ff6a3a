"""Loaded by processes under test: a file says which names resolve, and to what."""

import os
import socket
from pathlib import Path
from typing import Any

resolve = socket.getaddrinfo
hosts = Path(os.environ["PERDURE_TEST_HOSTS"])


def getaddrinfo(host: Any, *args: Any, **options: Any) -> Any:  # noqa: ANN401 - whatever it is
    if isinstance(host, str) and host.endswith(".test"):
        known = dict(line.split() for line in hosts.read_text().splitlines())
        if host not in known:
            raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
        host = known[host]
    return resolve(host, *args, **options)


socket.getaddrinfo = getaddrinfo
