"""The settings of the autoscaler's decisions as a profile's ``state`` has them.

The command line answers by them what another decision would bring. A profile of an autoscaler that
stored none, or ones that this version does not understand, leaves the defaults, and that is said.
"""

from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from optimus.allocation.options import Options
from optimus.errors import NotReady
from optimus.interval import IntervalConfig
from optimus.interval.decision_settings import DecisionSettings
from optimus.jobs import Job
from optimus.kube.profile_codec import StoredSettings
from optimus.placement import PLACEMENT_RULES
from optimus.policies import policy_named


class _StoredSettings(msgspec.Struct, frozen=True, omit_defaults=True):
    """Every limit is stored, also one with its default: that of another version may differ."""

    policy: str
    placement: str
    expects: bool
    interval: IntervalConfig
    node_selector: str = ""
    ignored_resources: tuple[str, ...] = ()
    policy_options: dict[str, Any] = {}


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """The settings that decisions depend on, and the part of the cluster that they are for."""

    decision: DecisionSettings = field(default_factory=DecisionSettings)
    node_selector: str = ""
    """Labels of the nodes whose capacity is allocated; empty: all nodes."""

    ignored_resources: frozenset[str] = frozenset()
    """The resources that another extender accounts for: no job is planned by them."""

    policy_options: Options = field(default_factory=dict)
    """The options that the policy of ``decision`` was made with."""

    def planned(self, job: Job) -> Job:
        """The job with what it is planned by."""
        return job.without(self.ignored_resources)

    def stored(self) -> StoredSettings:
        """The form for profiles."""
        decision = self.decision
        found: StoredSettings = msgspec.to_builtins(
            _StoredSettings(
                decision.policy.name,
                _name_of(decision),
                decision.expects,
                decision.interval,
                self.node_selector,
                tuple(sorted(self.ignored_resources)),
                dict(self.policy_options),
            ),
            enc_hook=dict,  # the read-only mappings of weights
        )
        return found


def _name_of(decision: DecisionSettings) -> str:
    names = (name for name, rule in PLACEMENT_RULES.items() if rule == decision.placement)
    return next(names, "")


UNKNOWN: Final = NotReady(
    "no profile has the settings by which the autoscaler decides; the default ones are assumed"
)


def settings_of(stored: StoredSettings | None) -> ClusterSettings | NotReady:
    """Return what a profile has stored, or why that cannot be used."""
    if not stored:
        return UNKNOWN
    try:
        found = msgspec.convert(stored, _StoredSettings)
        policy = policy_named(found.policy, found.policy_options)
        placement = PLACEMENT_RULES[found.placement]
    except (KeyError, ValueError) as error:
        said = "the autoscaler decides by settings that this version of optimus does not know"
        return NotReady(f"{said} ({error}); the default ones are assumed")
    decision = DecisionSettings(policy, placement, found.interval, found.expects)
    ignored = frozenset(found.ignored_resources)
    return ClusterSettings(decision, found.node_selector, ignored, found.policy_options)
