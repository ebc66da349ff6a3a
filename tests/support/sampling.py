"""How much of a matrix of cases is run: a sample, or with PERDURE_TEST_FULL=1 the whole."""

import os
from collections.abc import Sequence
from itertools import product
from random import Random as Random  # noqa: TID251 - seeded

FULL = os.environ.get("PERDURE_TEST_FULL") == "1"


def sampled(*axes: Sequence[str]) -> list[tuple[str, ...]]:
    """The combinations of `axes`; of three or more, half of them hold every pair of values."""
    whole = list(product(*(enumerate(axis) for axis in axes)))
    kept = whole if FULL else [case for case in whole if sum(place for place, _ in case) % 2 == 0]
    return [tuple(value for _, value in case) for case in kept]


def dice(seed: int) -> Random:
    """Chance that falls the same way each time."""
    return Random(seed)
