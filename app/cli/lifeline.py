"""A pipe that only the parent holds open: its end, however it came, ends the children too."""

import os
import signal
import threading


def hold(descriptor: int | None) -> None:
    """End this process as by SIGTERM once the other end of the pipe is closed."""
    if descriptor is not None:
        threading.Thread(target=_await_end, args=(descriptor,), daemon=True).start()


def _await_end(descriptor: int) -> None:
    while os.read(descriptor, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
