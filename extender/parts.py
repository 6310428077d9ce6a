"""The parts that decide, wired over one state: what the application, benchmarks and tests use."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from extender.gang_scheduling import GangScheduling
from extender.planner.leading import Leading
from extender.planner.offers_check import OffersCheck
from extender.planner.pending_pods import PendingPods
from extender.planner.slices import Planner
from extender.settings import Settings
from extender.state.event_handlers import EventHandlers
from extender.state.extender_state import ExtenderState, StateConfig, read_clocks
from optimus.kube.pods import Pod
from optimus.placement import rule_on_cluster
from optimus.placement.queue.order import Instant
from optimus.placement.topology import NodePreferences


class Callbacks(NamedTuple):
    """Functions that the parts call to tell others."""

    observe_wait: Callable[[float], None] = lambda _: None
    """Gets how many seconds a gang had waited when all of it was bound."""

    gang_placed: Callable[[Sequence[Pod]], None] = lambda _: None
    """Gets the pods of a gang when all of them have a node."""

    called_as_follower: Callable[[], None] = lambda: None
    """Called when kube-scheduler asks while this process does not lead."""

    count_searches: Callable[[int], object] = lambda _: None
    """Gets for how many waiting gangs a slice has searched for nodes."""


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
        callbacks: Callbacks | None = None,
    ) -> "Parts":
        """The parts of one process."""
        calls = callbacks or Callbacks()
        config = StateConfig(
            scheduler_name=settings.scheduler_name,
            reservation_seconds=settings.reservation_seconds,
            binding_seconds=settings.binding_seconds,
            exclusion_seconds=settings.exclusion_seconds,
            rescale_hold_seconds=settings.rescale_hold_seconds,
            bind_gangs=settings.bind_gangs and not settings.ignored_resources,
            check_invariants=settings.check_invariants,
        )
        preferences = NodePreferences(settings.topology_labels, settings.one_kind)
        rule = rule_on_cluster(settings.placement, preferences)
        state = ExtenderState(
            config,
            rule,
            clock=clock,
            observe_wait=calls.observe_wait,
            gang_placed=calls.gang_placed,
        )
        check = OffersCheck(state)
        planner = Planner(
            state,
            settings.age_limit_seconds,
            called_as_follower=calls.called_as_follower,
            count_searches=calls.count_searches,
        )
        return cls(
            state,
            EventHandlers(state),
            check,
            planner,
            PendingPods(state, check),
            Leading(state),
            GangScheduling(state, check, planner),
        )
