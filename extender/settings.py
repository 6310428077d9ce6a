"""The extender's settings, from flags and environment."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

from optimus.kube.contract import SCHEDULER_NAME
from optimus.placement import PLACEMENT_RULES
from optimus.runtime.settings import (
    LOG_LEVELS,
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtenderConfig:
    """The section ``extender`` of the file of ``--config``: what few operators change, and what
    tests and demos shorten."""

    topology_labels: tuple[str, ...] = ()
    """Labels of nodes, the most specific last: [topology.kubernetes.io/zone, rack]. A gang goes
    into the smallest domain that holds it whole. Default: no preference."""

    one_kind: bool = True
    """Prefer nodes of one kind (instance type, accelerator) for a gang, where they hold it."""

    bind_gangs: bool = True
    """Bind the rest of a gang when kube-scheduler is answered for its first pod; false: each pod is
    bound by kube-scheduler."""

    leader_identity: str = ""
    """Prefix of the Lease holder's identity that means this kube-scheduler. Default: the host
    name."""

    reservation_seconds: float = 60.0
    """Seconds for which capacity is reserved for planned pods that are not bound; each bound pod of
    the gang restarts the time. Longer than kube-scheduler's longest back-off."""

    binding_seconds: float = 600.0
    """Seconds for which a pod that kube-scheduler was answered for counts as placed while it is not
    bound: at least as long as kube-scheduler waits for volumes (bindTimeoutSeconds)."""

    rescale_hold_seconds: float = 600.0
    """Most seconds for which capacity is reserved for a job that is being rescaled, or that others
    are paused for, as start-timeout-seconds of the autoscaler."""

    age_limit_seconds: float = 600.0
    """A gang that has waited for more seconds goes before those that have not run, and closes the
    nodes of its own future plan for the gangs behind it: a large one does not wait for ever."""

    cache_age_limit_seconds: float = 120.0
    """No new plans are made while the API server has sent nothing for more seconds about a kind of
    object that is watched; a watch lasts for half of it to five eighths. What is reserved is still
    answered."""

    check_invariants: bool = False
    """Check after every change that no node is reserved beyond its capacity; log where one is.
    For tests: it takes time."""

    exclusion_seconds: ClassVar[float] = 60.0
    """Longest time that a gang is not asked about again whose planned nodes kube-scheduler does not
    offer: a second at first, then twice as long each time, until such a node changes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(ExtenderConfig):
    """The extender's settings: flags, and the values of the file."""

    config: Path | None = None
    """Path of a YAML file with the settings that have no flag. Default: no file."""

    kubeconfig: Path | None = None
    """Path of a kubeconfig. Default: the pod's own service account."""

    listen: str = "127.0.0.1:8888"
    """Address and port of /filter, /prioritize and /preempt; loopback, since any client of it can
    reserve capacity."""

    tls_cert_file: Path | None = None
    """A certificate in PEM for TLS at --listen, with --tls-private-key-file and --client-ca-file.
    Default: no TLS."""

    tls_private_key_file: Path | None = None
    """The key of that certificate, in PEM."""

    client_ca_file: Path | None = None
    """CA certificates in PEM: only clients with a certificate of one of them are answered at
    --listen."""

    health_listen: str = ""
    """A second address and port for /healthz, /readyz and /metrics alone; in a pod, its own."""

    scheduler_name: str = SCHEDULER_NAME
    """Pods that name this scheduler are planned."""

    node_selector: str = ""
    """Label selector (key=value,...) of the nodes that jobs may be planned on. Default: all."""

    ignored_resources: str = ""
    """Extended resources, comma-separated, that another extender of kube-scheduler accounts for
    (managedResources with ignoredByScheduler): no node offers them, and nothing is planned by them.
    Default: none."""

    placement: str = "theorem1"
    """What places a gang: theorem1 (fewest nodes, evenly), spread or pack (replica by replica)."""

    leader_lease: str = "kube-system/optimus-scheduler"
    """Namespace/name of kube-scheduler's Lease: plans are made only while the kube-scheduler beside
    this process leads. Empty: it is the only one."""

    autoscaler_lease: str = "optimus-system/optimus-autoscaler"
    """Namespace/name of the autoscaler's Lease, its --leader-lease: it says on which kind of nodes
    new jobs are to start. Empty: on any."""

    operator_version: str = "1.7.0"
    """The training-operator's version: before 1.8.1 it never finishes suspending a job with
    ttlSecondsAfterFinished, and such a job is not managed."""

    log_level: str = "info"
    """debug, info, warning or error."""

    @property
    def binds_gangs(self) -> bool:
        """Whether the rest of a gang is bound here; not where another extender is to be asked."""
        return self.bind_gangs and not self.ignored_resources


def parse(arguments: Sequence[str], environment: Mapping[str, str]) -> Settings:
    """Settings from the command line, the environment and the file.

    Raises:
        SettingsError: naming every value that is wrong, and what would be right.
    """
    description = (
        "The kube-scheduler extender of Optimus: which node each pod of a training job goes to."
    )
    program = Program(
        "python -m extender", description, Settings, _PREFIX, _contradictions, "extender"
    )
    return program.parse(arguments, {**_shared(environment), **environment})


_PREFIX: Final = "OPTIMUS_EXTENDER_"
_SHARED: Final = (
    *("config", "scheduler_name", "node_selector", "operator_version", "ignored_resources"),
    "placement",
)
"""What both processes have to agree on: without a variable of its own the extender reads the
autoscaler's."""


def _shared(environment: Mapping[str, str]) -> dict[str, str]:
    names = {f"OPTIMUS_{name.upper()}": f"{_PREFIX}{name.upper()}" for name in _SHARED}
    names["OPTIMUS_LEADER_LEASE"] = f"{_PREFIX}AUTOSCALER_LEASE"
    return {own: environment[name] for name, own in names.items() if name in environment}


_SECONDS = (
    "reservation_seconds",
    "binding_seconds",
    "rescale_hold_seconds",
    "age_limit_seconds",
    "cache_age_limit_seconds",
)


def _contradictions(settings: Settings) -> list[Problem]:
    health = settings.health_listen
    problems = not_positive(settings, *_SECONDS)
    problems += not_an_address("listen", settings.listen)
    for label in settings.topology_labels:
        problems += not_a_label("topology_labels", label)
    if health:
        problems += not_an_address("health_listen", health)
    if health == settings.listen:
        expected = "an address other than that of --listen"
        problems += check(False, "health_listen", health, expected)
    files = [settings.tls_cert_file, settings.tls_private_key_file, settings.client_ca_file]
    if any(files) and not all(files):
        names = "--tls-cert-file, --tls-private-key-file and --client-ca-file"
        problems.append(Problem("", f"{names}: all three or none are expected"))
    problems += not_a_lease("leader_lease", settings.leader_lease)
    problems += not_a_lease("autoscaler_lease", settings.autoscaler_lease)
    problems += not_a_selector("node_selector", settings.node_selector)
    problems += not_resources("ignored_resources", settings.ignored_resources)
    problems += not_one_of("placement", settings.placement, sorted(PLACEMENT_RULES))
    problems += not_a_version("operator_version", settings.operator_version)
    return problems + not_one_of("log_level", settings.log_level, LOG_LEVELS)
