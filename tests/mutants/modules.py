"""Which modules are mutated, and the tests that have to notice."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]

TESTS: Final = {
    "extender": ("tests/unit/extender",),
    "optimus/placement": ("tests/unit/placement",),
    "optimus/lifecycle": ("tests/unit/lifecycle",),
    "optimus/rescale": ("tests/unit/rescale",),
    "optimus/interval": ("tests/unit/interval", "tests/unit/profiling"),
}
"""By folder of the sources, the tests below which all of its mutants have to fail."""

_OWN: Final = {
    "extender/application.py": ("application",),
    "extender/cache_age.py": ("cache_age",),
    "extender/filter.py": (
        "cache_age",
        "filter",
        "foreign_pods",
        "gang_membership",
        "pod_rules",
        "rescale_reservations",
    ),
    "extender/gang_membership.py": ("gang_membership", "filter", "prioritize"),
    "extender/gang_queue.py": (
        "avoided_nodes",
        "filter",
        "gang_membership",
        "gang_queue",
        "priority",
    ),
    "extender/gang_report.py": ("gang_report", "inspection", "job_events"),
    "extender/gang_states.py": ("gang_preemption", "inspection", "job_events"),
    "extender/http/app.py": ("app", "application", "direct"),
    "extender/http/direct.py": ("direct",),
    "extender/http/parent_watch.py": ("parent_watch",),
    "extender/http/wire.py": ("wire",),
    "extender/http/wsgi.py": ("direct", "settings", "wsgi"),
    "extender/inspection.py": ("inspection", "job_events"),
    "extender/job_events.py": ("half_placed", "job_events"),
    "extender/leadership.py": ("leadership",),
    "extender/metrics.py": ("app", "metrics"),
    "extender/node_room.py": ("inspection", "node_room"),
    "extender/nominator.py": ("nominator",),
    "extender/planner.py": (
        "cache_age",
        "event_handlers",
        "filter",
        "gang_membership",
        "gang_preemption",
        "gang_queue",
        "half_placed",
        "leader_change",
        "pending_nominations",
        "pod_rules",
        "prioritize",
        "priority",
        "rescale_reservations",
        "unknown_rules",
    ),
    "extender/planning.py": ("backfill", "gang_queue", "planning", "pod_rules", "shortfall"),
    "extender/state/cluster.py": (
        "avoided_nodes",
        "cluster",
        "event_handlers",
        "filter",
        "foreign_pods",
        "gang_membership",
        "gang_queue",
        "priority",
        "rescale_reservations",
        "unknown_rules",
    ),
    "extender/state/event_handlers.py": (
        "avoided_nodes",
        "backfill",
        "event_handlers",
        "filter",
        "foreign_pods",
        "gang_preemption",
        "gang_queue",
        "leader_change",
        "rescale_reservations",
        "volumes",
    ),
    "extender/state/future_room.py": ("filter", "gang_preemption"),
    "extender/state/occupancy.py": ("occupancy",),
    "extender/preemption/candidates.py": ("gang_preemption",),
    "extender/preemption/controller.py": ("gang_preemption",),
    "extender/preemption/trial.py": ("gang_preemption",),
    "extender/preemption/victims.py": ("gang_preemption", "victims"),
    "extender/prioritize.py": ("prioritize",),
    "extender/settings.py": ("settings",),
    "extender/state/offers.py": ("offers",),
    "extender/state/rescale_reservations.py": ("leader_change", "rescale_reservations"),
    "extender/state/reservations.py": ("reservations", "reserved_nodes", "priority"),
    "extender/state/unknown_rules.py": ("unknown_rules",),
    "extender/state/volumes.py": ("volumes",),
    "extender/status_writes.py": ("status_writes",),
    "extender/waiting_notices.py": ("gang_report", "job_events"),
    "optimus/rescale/machine.py": ("machine", "observed", "verify"),
    "optimus/interval/capacity_plan.py": ("headroom", "interval", "quota", "starting"),
    "optimus/interval/classify.py": (
        "expectation",
        "floor",
        "interval",
        "lifecycle",
        "recommendation",
    ),
    "optimus/interval/driver.py": (
        "checkpoints",
        "disruption",
        "driver",
        "expectation",
        "lifecycle",
    ),
    "optimus/interval/fair_share.py": ("fair_share",),
    "optimus/interval/plan.py": ("interval", "reclaim", "starting"),
    "optimus/interval/share.py": ("headroom", "interval", "pools", "starting"),
    "optimus/interval/what_if.py": ("what_if",),
    "optimus/placement/incremental.py": ("incremental",),
    "optimus/placement/capacity.py": ("capacity", "classes", "fixed_roles"),
    "optimus/placement/gang.py": ("avoided_nodes", "gang", "theorem1", "topology"),
    "optimus/placement/ledger.py": ("ledger",),
    "optimus/placement/min_transfer.py": ("classes", "theorem1", "uneven"),
    "optimus/placement/per_pod.py": ("capacity", "rules"),
    "optimus/placement/queue_order.py": ("rules",),
    "optimus/placement/request.py": ("capacity", "fixed_roles", "theorem1"),
    "optimus/placement/rule_search.py": ("pod_rules", "volume_rules"),
    "optimus/placement/rules.py": ("pod_rules",),
    "optimus/placement/scoring.py": ("rules",),
    "optimus/placement/theorem1.py": ("capacity", "classes", "fixed_roles", "theorem1"),
    "optimus/placement/topology.py": ("topology",),
}
"""Of single modules, those of the test files in the (first) folder that hold them: a run of all
takes some minutes more."""

NOT_MUTATED: Final = ("extender/__main__.py",)
"""Started as a process by the tests in ``tests/integration`` and ``tests/scenarios`` alone."""


def mutated_modules() -> Iterator[str]:
    """The path of every module that is mutated, from the root of the checkout."""
    for folder in TESTS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            name = path.relative_to(ROOT).as_posix()
            if path.name != "__init__.py" and name not in NOT_MUTATED:
                yield name


def tests_of(module: str) -> tuple[str, ...]:
    """The folders, or the files, with the tests of a module."""
    folder = next(each for each in TESTS if module.startswith(f"{each}/"))
    if module not in _OWN:
        return TESTS[folder]
    tests = TESTS[folder][0]
    return tuple(f"{tests}/test_{name}.py" for name in _OWN[module])
