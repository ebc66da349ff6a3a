"""What the client and the console's scripts say for themselves is what the service says."""

import json
import re
from typing import get_args

import pytest

from app.client import connection, decisions, models, runs
from app.domain import states
from app.settings import Settings
from tests.support.environment import ROOT

FOLLOW = ROOT / "app" / "http" / "console" / "static" / "follow.js"


def test_the_client_knows_how_runs_end() -> None:
    assert models.ENDED == states.ENDED
    assert models.TERMINAL == states.TERMINAL
    assert set(get_args(states.Status)) > states.ENDED


@pytest.mark.parametrize(
    ("client", "service"),
    [(runs.OnBusy, states.OnBusy), (decisions.Outcome, states.Outcome)],
)
def test_the_client_takes_the_words_that_the_service_takes(client: object, service: object) -> None:
    assert get_args(client) == get_args(service)


def test_the_client_knows_the_kinds_of_waits_that_nobody_is_asked() -> None:
    assert set(get_args(states.WaitKind)) > models.PASSIVE


def test_the_client_looks_for_a_service_where_the_settings_say() -> None:
    assert Settings.model_fields["url"].default == connection.DEFAULT_URL


def test_a_page_stops_following_when_the_run_has_ended() -> None:
    (found,) = re.findall(r"^const TERMINAL = (\[.*?\]);", FOLLOW.read_text(), re.DOTALL | re.M)
    assert sorted(json.loads(found)) == sorted(states.TERMINAL)
