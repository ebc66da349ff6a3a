"""The demo's own database, which can be killed like everything else."""

from contextlib import suppress

import psutil

from app.cli.embedded import Cluster


class Database(Cluster):
    def kill(self) -> None:
        """kill -9 to the server and each process of it; the data stays as it is."""
        server = psutil.Process(self.pid)
        for process in [server, *server.children(recursive=True)]:
            with suppress(psutil.NoSuchProcess):
                process.kill()
