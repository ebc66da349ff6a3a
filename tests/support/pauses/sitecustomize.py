"""Loaded under libfaketime, which takes the end of a pause for a time of day and may refuse it."""

import select
import time
from typing import Any


def sleep(seconds: Any) -> None:  # noqa: ANN401 - whatever counts as a number
    select.select([], [], [], seconds)


time.sleep = sleep
