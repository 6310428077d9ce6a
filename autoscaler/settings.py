"""The autoscaler's settings; ``optimus.runtime.settings`` says how they are read."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from optimus.allocation.fairness import PROPORTIONAL, Fairness
from optimus.allocation.options import Options
from optimus.kube.contract import SCHEDULER_NAME
from optimus.placement import PLACEMENT_RULES
from optimus.policies import POLICIES, policy_named
from optimus.rescale.disruption import DEFAULT_LIMITS, Limit
from optimus.runtime.settings import (
    LOG_LEVELS,
    SECTION,
    Problem,
    Program,
    check,
    not_a_label,
    not_a_lease,
    not_a_selector,
    not_a_version,
    not_an_address,
    not_one_of,
    not_positive,
    not_resources,
)
from optimus.runtime.settings_file import unknown

_LOG: Final = "log"
_USUAL_FAIRNESS: Final = "-1.5"
"""Value of ``fairness`` for the sum of -2 / sqrt(remaining time)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoscalerConfig:
    """The section ``autoscaler`` of the file of ``--config``: what few operators change, and what
    tests and demos shorten."""

    node_kind_label: str = "node.kubernetes.io/instance-type"
    """The node label that distinguishes kinds of nodes: a job may train faster on one kind than on
    another. Nodes without it are of one kind."""

    lease_seconds: float = 10.0
    """Seconds after the last renewal of the Lease until another instance may act; its holder stops
    after seven tenths of this time. Shorter: another takes over sooner, and there are more
    writes."""

    cache_age_limit_seconds: float = 120.0
    """While the API server has sent nothing about some kind of object for more seconds, nothing is
    decided and no job is stopped. What has begun goes on."""

    early_interval_seconds: float = 60.0
    """Least seconds between two decisions when jobs arrive, end or meet a goal, or nodes change; 20
    at most where a young job came or was measured, and more on a cluster of over 100 managed jobs.
    Shorter: waiting jobs start sooner, and running ones are restarted more often."""

    tick_seconds: float = 2.0
    """Seconds between two ticks, which advance rescales and profiling runs and read logs. A
    rescale takes several."""

    log_poll_seconds: float = 10.0
    """Seconds between two reads of one pod's log. Shorter: checkpoints and goals are seen sooner,
    and the API server and kubelets have more to do."""

    log_readers: int = 16
    """Maximum number of logs read at the same time, over all jobs: 16 read 4,000 logs in 30 s."""

    profiling_seconds: float = 60.0
    """Seconds of steady training that one profiling run measures: a minute has little noise."""

    profiling_samples: int = 5
    """Configurations measured before a job's speed model is used (Optimus, section 6.1: 5)."""

    rescale_cost_seconds: float = 60.0
    """Seconds that a rescale is assumed to cost, until that is measured on the job's own rescales:
    pods of cached images start in half a minute, and as much is lost before and after."""

    measure_first: bool = False
    """Whether a job without a fitted forecast is only profiled. By default it is also moved by what
    is typical of such jobs."""

    rescale_spacing_seconds: float = 300.0
    """Least seconds between two rescales of one job (cooldown): half an interval, so that two early
    intervals do not restart a job twice. While it has trained for less than 10 minutes, 60 at most,
    or what a rescale of it takes. Until then it only gives back what it has borrowed."""

    moves_per_hour: int = 5
    """Rescales within an hour after which a job does not grow: five restarts of a minute are a
    twelfth of the time. Shrinking for others does not count and stays possible."""

    fairness: str = _USUAL_FAIRNESS
    """What is minimised, by a number alpha: from -2 to -1, the sum of a power of the remaining
    times, which prefers jobs that end soon (log, or -1: of their logarithms); 0, the sum of
    completion times as in the paper; the more above, the more the longest time counts."""

    keep_own_counts: bool = False
    """Whether no job goes below the counts that its user set. By default it does, not below its
    minimum, where another would wait long."""

    priority_weights: Mapping[str, float] = field(default_factory=dict)
    """Weights of the jobs of a PriorityClass: {high: 3}. Others weigh 1."""

    max_stopped_per_namespace: str = str(DEFAULT_LIMITS.namespace)
    """How many managed jobs of one namespace may be stopped at once, as --max-stopped of all."""

    replacements_per_day: int = 2
    """How often within 24 h a job is restarted because one of its workers is far slower than the
    others (a straggler). 0: workers are not compared."""

    straggler_window_seconds: float = 60.0
    """Seconds of a worker's log by which its speed is compared with the others'. A straggler is
    below half their median in five windows in a row. Shorter windows are noisier."""

    start_timeout_seconds: float = 600.0
    """A rescaled job whose pods are not placed after this goes to counts that fit; sooner, 60 s
    beyond the time in which its pods usually start, and at once where others have taken its
    capacity. Seconds, as rescale-hold-seconds of the extender."""

    resume_grace_after_break_seconds: float = 30.0
    """Seconds without a resumption after a watch or call has failed: the operator's watches may
    have broken too, and come back later."""

    report_seconds: float = 30.0
    """Least seconds between two writes of a profile in which only figures have changed. It bounds
    the writes of large clusters."""

    policy_options: Mapping[str, Options] = field(
        default_factory=dict, metadata={SECTION: "policy"}
    )
    """The section ``policy``: options of policies, by their names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(AutoscalerConfig):
    """The autoscaler's settings: flags, and the values of the file."""

    config: Path | None = None
    """Path of a YAML file with the settings that have no flag. Default: no file."""

    kubeconfig: Path | None = None
    """Path of a kubeconfig. Default: the pod's own service account."""

    listen: str = "127.0.0.1:8080"
    """Address and port of /metrics, /healthz and /readyz; in a pod, its own address."""

    page_listen: str = ""
    """Address and port of the page that shows jobs and nodes in a browser, to anybody who reaches
    it. Default: it is not served."""

    scheduler_name: str = SCHEDULER_NAME
    """Only jobs whose pods name this scheduler are managed."""

    node_selector: str = ""
    """Label selector (key=value,...) of the nodes whose capacity is allocated. Default: every
    node."""

    operator_version: str = "1.7.0"
    """The training-operator's version: before 1.8.1 it never finishes suspending a job with
    ttlSecondsAfterFinished, and such a job is not managed."""

    ignored_resources: str = ""
    """Extended resources, comma-separated, that another extender of kube-scheduler accounts for
    (managedResources with ignoredByScheduler): no node offers them, and nothing is planned by them.
    Default: none."""

    policy: str = "optimus"
    """The allocation policy."""

    placement: str = ""
    """The placement rule by which counts are planned: theorem1, spread or pack. That of the
    extender has to be the same. Default: the one that goes with the policy."""

    dry_run: bool = False
    """Decide and print, but change no job and write no profile."""

    recommend: bool = False
    """Change nothing in the whole cluster, and recommend in profiles and Events what would be
    decided."""

    preempt: bool = False
    """Pause running jobs of a lower priority for a gang that does not fit, managed or not, and
    resume them: whole jobs, the youngest of the lowest priority first, and only where the whole
    gang then fits."""

    once: bool = False
    """Plan one interval, print the decisions, carry them out and exit."""

    leader_lease: str = "optimus-system/optimus-autoscaler"
    """Namespace/name of the Lease of the instance that acts; the others stand by. Empty: there is
    only one. A dry run needs none."""

    interval_seconds: float = 600.0
    """Seconds between two decisions about all counts (Optimus, section 5: 10 minutes)."""

    least_gain_percent: float = 5.0
    """A rescale must shorten a job's remaining time by more than this, including the cost of the
    rescale."""

    max_stopped: str = str(DEFAULT_LIMITS.cluster)
    """How many managed jobs may be stopped for rescales at once: a number, or a percentage of which
    there is always at least one. Rescales that gain most begin first. A job whose pods have not
    ended within 600 s counts in its own namespace alone."""

    log_level: str = "info"
    """debug, info, warning or error."""


def parse(arguments: Sequence[str], environment: Mapping[str, str]) -> Settings:
    """Settings from the command line, the environment and the file.

    Raises:
        SettingsError: naming every value that is wrong, and what would be right.
    """
    description = "Sets each job's number of PSs and workers."
    return Program(
        "python -m autoscaler",
        description,
        Settings,
        "OPTIMUS_",
        _contradictions,
        "autoscaler",
        prefixes_of_others=("OPTIMUS_EXTENDER_",),
    ).parse(arguments, environment)


def _contradictions(settings: Settings) -> list[Problem]:
    return [
        *not_one_of("policy", settings.policy, sorted(POLICIES)),
        *(
            not_one_of("placement", settings.placement, sorted(PLACEMENT_RULES))
            if settings.placement
            else []
        ),
        *not_positive(
            settings,
            "tick_seconds",
            "log_readers",
            "moves_per_hour",
            "interval_seconds",
            "start_timeout_seconds",
            "lease_seconds",
            "straggler_window_seconds",
            "cache_age_limit_seconds",
        ),
        *not_a_lease("leader_lease", settings.leader_lease),
        *not_a_limit("max_stopped", settings.max_stopped),
        *not_a_limit("max_stopped_per_namespace", settings.max_stopped_per_namespace),
        *_not_a_fairness(settings.fairness),
        *_not_options(settings.policy_options),
        *check(
            not _is_weighted(settings) or _weighs_jobs(settings.policy),
            "policy",
            settings.policy,
            "optimus, the only policy with fairness and weights,",
        ),
        *not_an_address("listen", settings.listen),
        *(not_an_address("page_listen", settings.page_listen) if settings.page_listen else []),
        *not_a_version("operator_version", settings.operator_version),
        *not_a_selector("node_selector", settings.node_selector),
        *not_resources("ignored_resources", settings.ignored_resources),
        *not_a_label("node_kind_label", settings.node_kind_label),
        *not_one_of("log_level", settings.log_level, LOG_LEVELS),
    ]


def fairness_of(settings: Settings) -> Fairness | None:
    """The objective that is asked for; ``None`` for a policy that weighs no jobs: its changes are
    weighed against their restarts in seconds.

    Raises:
        ValueError: neither a number nor ``log`` is given.
    """
    if not _weighs_jobs(settings.policy):
        return None
    alpha = _alpha(settings.fairness)
    return Fairness(alpha, settings.priority_weights)


def _alpha(text: str) -> float:
    if text == _LOG:
        return PROPORTIONAL
    alpha = float(text)
    if not (-2 <= alpha <= PROPORTIONAL or 0 <= alpha < math.inf):
        raise ValueError(text)
    return alpha


def _not_a_fairness(text: str) -> list[Problem]:
    try:
        _alpha(text)
    except ValueError:
        return check(False, "fairness", text, "log, or a number from -2 to -1, or of 0 or more,")
    return []


def _weighs_jobs(policy: str) -> bool:
    return policy in POLICIES and policy_named(policy).traits.weighs_jobs


def _is_weighted(settings: Settings) -> bool:
    is_set = settings.fairness != _USUAL_FAIRNESS
    return bool(is_set or settings.priority_weights)


def _not_options(options: Mapping[str, Options]) -> list[Problem]:
    """Problems of the section of policies."""
    problems = []
    for name, given in options.items():
        if name not in POLICIES:
            problems.append(Problem("", unknown(f"policy.{name}", name, POLICIES)))
            continue
        try:
            if not isinstance(given, Mapping):
                raise ValueError("options with values are expected")
            policy_named(name, given)
        except ValueError as error:
            problems.append(Problem("", f"policy.{name}: {error}"))
    return problems


def not_a_limit(name: str, text: str) -> list[Problem]:
    """Problems of a number or percentage of jobs."""
    return check(Limit.parse(text) is not None, name, text, "a number such as 4, or 25%")
