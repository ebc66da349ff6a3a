"""The process that a worker starts for what workers have died of, as its worker ends."""

import subprocess

from app.durable.isolation import Isolation


def test_a_child_that_ends_just_as_its_time_is_up_is_no_error() -> None:
    """Another thread finds it ended between the end of the waiting and the kill."""

    class Child(subprocess.Popen[bytes]):
        def wait(self, timeout: float | None = None) -> int:
            super().wait()
            assert not isolation._may_start()
            raise subprocess.TimeoutExpired(self.args, timeout or 0.0)

    isolation = Isolation("w")
    isolation._process = Child(["true"])
    isolation.leave(0.0)
    isolation.end()
    assert isolation._process is None
