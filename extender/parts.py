"""The parts that decide, wired over one state: what the application, benchmarks and tests use."""

from collections.abc import Callable
from typing import NamedTuple

from extender.gang_scheduling import GangScheduling
from extender.planner.leading import Leading
from extender.planner.offers_check import OffersCheck
from extender.planner.pending_pods import PendingPods
from extender.planner.slices import Planner
from extender.settings import Settings
from extender.state.event_handlers import EventHandlers
from extender.state.extender_state import Callbacks, ExtenderState, read_clocks
from optimus.placement import rule_on_cluster
from optimus.placement.queue.order import Instant
from optimus.placement.topology import NodePreferences


class Parts(NamedTuple):
    """Everything over one state."""

    state: ExtenderState
    handlers: EventHandlers
    offers_check: OffersCheck
    planner: Planner
    pending: PendingPods
    leading: Leading
    gangs: GangScheduling

    @classmethod
    def of(
        cls,
        settings: Settings,
        clock: Callable[[], Instant] = read_clocks,
        callbacks: Callbacks = Callbacks(),  # noqa: B008 - it never changes,
    ) -> "Parts":
        """The parts of one process."""
        preferences = NodePreferences(settings.topology_labels, settings.one_kind)
        rule = rule_on_cluster(settings.placement, preferences)
        state = ExtenderState(settings, rule, clock, callbacks)
        check, planner = OffersCheck(state), Planner(state)
        return cls(
            state,
            EventHandlers(state),
            check,
            planner,
            PendingPods(state, check),
            Leading(state),
            GangScheduling(state, check, planner),
        )
