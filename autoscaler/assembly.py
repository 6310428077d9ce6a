"""Puts a controller together, on whatever cluster it is given access to."""

from dataclasses import dataclass
from typing import NamedTuple

from autoscaler.completion import CompletionRequester, PodAnnotator
from autoscaler.controller import Clock, Components, Controller, Observer, Page, Timing
from autoscaler.decide import ClusterMemory, Decider, DecisionConfig
from autoscaler.executor import LastReads, Reader, RescaleAccess, Rescales, Writer
from autoscaler.logs.last_words import LastWords
from autoscaler.logs.poller import LogPoller
from autoscaler.logs.rotation import WorkerRotation
from autoscaler.metrics import Metrics
from autoscaler.preemption import GangPreemption, PreemptionConfig
from autoscaler.profile.events import EventRecorder, Events
from autoscaler.profile.workloads import WorkloadRecorder, Workloads
from autoscaler.profile.writer import ProfileRecorder, Profiles
from autoscaler.stragglers import ReplacementConfig, StragglerReplacer
from optimus.kube.stored_settings import ClusterSettings
from optimus.rescale.machine import RescaleConfig


class ClusterAccess(NamedTuple):
    """All reads and writes of a cluster."""

    observer: Observer
    reader: Reader
    jobs: Writer
    profiles: Profiles
    events: Events
    pods: PodAnnotator
    workloads: Workloads
    memory: ClusterMemory | None = None
    """``None``: what a policy remembers of the whole cluster is not stored, and the extender is not
    told of kinds of nodes."""


class ControllerConfig(NamedTuple):
    """The settings by which a controller decides and acts."""

    decisions: DecisionConfig
    rescales: RescaleConfig
    timing: Timing
    settings: ClusterSettings
    """Stored with each job, for the command line's answers."""

    report_seconds: float
    """The least seconds between two writes of a profile that shows nothing urgent."""

    preemption: PreemptionConfig | None = None
    """``None``: no job is paused for a gang, and those that are paused for one are resumed."""

    replacement: ReplacementConfig | None = None
    """``None``: workers are not compared."""


@dataclass(frozen=True, slots=True)
class Process:
    """The rest that a controller has around it."""

    metrics: Metrics
    clock: Clock
    logs: LogPoller
    rotation: WorkerRotation
    last_reads: LastReads
    page: Page | None = None
    instance: str = ""
    dry_run: bool = False
    last_words: LastWords | None = None


def assemble(access: ClusterAccess, config: ControllerConfig, process: Process) -> Controller:
    """The controller with all its parts."""
    metrics, instance, timer = process.metrics, process.instance, process.clock.timer
    events = EventRecorder(access.events, metrics, timer)
    recorder = ProfileRecorder(
        access.profiles,
        events,
        spacing_seconds=config.report_seconds,
        instance=instance,
        settings=config.settings,
        timer=timer,
    )
    carried_out = RescaleAccess(access.reader, access.jobs, recorder, events, process.last_reads)
    components = Components(
        access.observer,
        process.logs,
        Decider(
            config.decisions,
            metrics,
            dry_run=process.dry_run,
            memory=access.memory,
            instance=instance,
        ),
        Rescales(carried_out, config.rescales),
        recorder,
        events,
        metrics,
        WorkloadRecorder(access.workloads, metrics, instance=instance, timer=timer),
        CompletionRequester(access.pods, events),
        _stragglers(config.replacement, process.rotation, events, metrics),
        process.page,
        config.preemption and GangPreemption(config.preemption, events, metrics),
        process.last_words,
    )
    return Controller(
        components, config.timing, process.clock, dry_run=process.dry_run, instance=instance
    )


def _stragglers(
    config: ReplacementConfig | None,
    rotation: WorkerRotation,
    events: EventRecorder,
    metrics: Metrics,
) -> StragglerReplacer | None:
    return None if config is None else StragglerReplacer(rotation, events, metrics, config)
