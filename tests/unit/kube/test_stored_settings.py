"""The settings of decisions as they are stored with a job."""

from dataclasses import fields
from typing import Any

import msgspec
import pytest

from optimus.allocation.fairness import Fairness
from optimus.errors import NotReady
from optimus.interval import IntervalConfig, ProfilingConfig
from optimus.interval.decision_settings import DecisionSettings
from optimus.kube.stored_settings import ClusterSettings, settings_of
from optimus.placement import PLACEMENT_RULES
from optimus.policies import POLICIES, policy_named
from tests.cases import cases


def other(config: Any) -> dict[str, Any]:
    """Another value for each number and switch of a configuration."""
    numbers = {each.name: getattr(config, each.name) for each in fields(config)}
    return {
        name: not each if isinstance(each, bool) else each + 1
        for name, each in numbers.items()
        if isinstance(each, int | float)
    }


INTERVAL = IntervalConfig(
    **other(IntervalConfig()),
    profiling=ProfilingConfig(**other(ProfilingConfig())),
    fairness=Fairness(1.5, {"high": 3.0}),
)


@pytest.mark.parametrize("policy", sorted(POLICIES))
@pytest.mark.parametrize("placement", sorted(PLACEMENT_RULES))
def test_every_setting_is_read_back_as_it_was_stored(policy: str, placement: str) -> None:
    decision = DecisionSettings(
        policy_named(policy), PLACEMENT_RULES[placement], INTERVAL, expects=False
    )
    ignored = frozenset({"nvidia.com/gpumem", "nvidia.com/gpucores"})
    settings = ClusterSettings(decision, "pool=training", ignored)
    stored = msgspec.json.decode(msgspec.json.encode(settings.stored()))
    found = settings_of(stored)
    assert isinstance(found, ClusterSettings)
    assert found.decision == decision
    assert found.node_selector == "pool=training"
    assert found.ignored_resources == ignored


def test_the_weights_may_be_left_at_their_defaults() -> None:
    fair = ClusterSettings(DecisionSettings(interval=IntervalConfig(fairness=Fairness(1.0))))
    found = settings_of(fair.stored())
    assert isinstance(found, ClusterSettings)
    assert found.decision == fair.decision


STORED = ClusterSettings().stored()


@cases(
    ("stored", "fragment"),
    {
        "an older autoscaler": (None, "no profile has the settings"),
        "a new policy": ({**STORED, "policy": "newer"}, "does not know ('newer')"),
        "a new placement rule": ({**STORED, "placement": ""}, "does not know"),
        "no configuration": ({**STORED, "interval": 3}, "does not know"),
        "half of it": ({"policy": "optimus"}, "does not know"),
    },
)
def test_settings_that_cannot_be_used_say_why(stored: Any, fragment: str) -> None:
    found = settings_of(stored)
    assert isinstance(found, NotReady)
    assert fragment in found.reason


def test_a_limit_that_this_version_does_not_know_is_left_out() -> None:
    interval = {**STORED["interval"], "limit_of_a_newer_version": 3}
    found = settings_of({**STORED, "interval": interval})
    assert found == ClusterSettings()
