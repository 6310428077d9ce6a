"""The kinds of training job, and everything in which they differ.

Adding a kind means a row here, the RBAC rules of ``manifests/`` and the documentation. Labels and
environment variables are those of the Kubeflow training operator, version 1.6 and newer, and of
JobSet, 0.9 and newer.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from optimus.jobs import Role

OPERATOR_GROUP: Final = "kubeflow.org"
OPERATOR_VERSION: Final = "v1"
API_VERSION: Final = f"{OPERATOR_GROUP}/{OPERATOR_VERSION}"

JOB_NAME: Final = "training.kubeflow.org/job-name"
REPLICA_TYPE: Final = "training.kubeflow.org/replica-type"
REPLICA_INDEX: Final = "training.kubeflow.org/replica-index"
JOBSET_NAME: Final = "jobset.sigs.k8s.io/jobset-name"

MOST_REPLICAS: Final = 10_000
"""The most replicas of one role that are believed: any creator of a pod can write labels."""


@dataclass(frozen=True, slots=True)
class JobKind:
    """One kind of training job."""

    name: str
    plural: str
    """The resource name in the API server's paths and in RBAC rules."""

    replica_specs: str
    """The key of the map of replica types in the job's spec; of a list, for a JobSet."""

    gang_variable: str
    """The environment variable that tells a pod of all replicas of its job; "": there is none."""

    container: str
    """The container that trains, as the operator requires it to be named; "": any name will do."""

    roles: Mapping[str, Role]
    """The roles by replica type, in lower case."""

    group: str = OPERATOR_GROUP
    version: str = OPERATOR_VERSION
    name_label: str = JOB_NAME
    """The label of its pods that holds the job's name."""

    @property
    def is_resized(self) -> bool:
        """The operator starts its jobs anew at other counts."""
        return self.group == OPERATOR_GROUP

    @property
    def crd(self) -> str:
        """The name of the CustomResourceDefinition."""
        return f"{self.plural}.{self.group}"

    @property
    def api_version(self) -> str:
        """The ``apiVersion`` of its objects."""
        return f"{self.group}/{self.version}"


TFJOB: Final = JobKind(
    "TFJob",
    "tfjobs",
    "tfReplicaSpecs",
    "TF_CONFIG",
    "tensorflow",
    {role.value: role for role in (Role.PS, Role.WORKER, Role.CHIEF, Role.MASTER, Role.EVALUATOR)},
)
MXJOB: Final = JobKind(
    "MXJob",
    "mxjobs",
    "mxReplicaSpecs",
    "MX_CONFIG",
    "mxnet",
    {"server": Role.PS, "worker": Role.WORKER, "scheduler": Role.SCHEDULER},
)
PYTORCHJOB: Final = JobKind(
    "PyTorchJob",
    "pytorchjobs",
    "pytorchReplicaSpecs",
    "PET_NNODES",
    "pytorch",
    {role.value: role for role in (Role.MASTER, Role.WORKER)},
)
JOBSET: Final = JobKind(
    "JobSet",
    "jobsets",
    "replicatedJobs",
    "",
    "node",
    {Role.WORKER.value: Role.WORKER},
    "jobset.x-k8s.io",
    "v1alpha2",
    JOBSET_NAME,
)
"""All its pods are workers, also those of a TrainJob: its JobSet has the TrainJob's name. The
container is the one that Kubeflow Trainer's runtimes train in."""

TRAINJOB: Final = "TrainJob"
TRAINER_GROUP: Final = "trainer.kubeflow.org"

JOB_KINDS: Final[Mapping[str, JobKind]] = {
    kind.name: kind for kind in (TFJOB, MXJOB, PYTORCHJOB, JOBSET)
}
"""All kinds by the name that a job's ``kind`` carries."""

NAME_LABELS: Final = tuple(dict.fromkeys(kind.name_label for kind in JOB_KINDS.values()))
"""Each pod of a job has one of these labels."""

ANY_KIND: Final = "TFJob, MXJob, PyTorchJob, JobSet or TrainJob"
"""All kinds, for sentences."""

_ROLES: Final = {text: role for kind in JOB_KINDS.values() for text, role in kind.roles.items()}


def role_named(replica_type: str) -> Role | None:
    """The role of a replica type, written in any casing; ``None`` for an unknown one."""
    return _ROLES.get(replica_type.lower())


def replica_of(labels: Mapping[str, str]) -> tuple[Role, int] | None:
    """Role and index of the replica that a pod's labels name; ``None`` where they name none."""
    role = role_named(labels.get(REPLICA_TYPE, ""))
    index = labels.get(REPLICA_INDEX, "")
    if role is None or not (
        index.isascii() and index.isdigit() and len(index) < 10 and int(index) < MOST_REPLICAS
    ):
        return None
    return role, int(index)


def pod_selector(kind: str, job_name: str) -> str:
    """The label selector of one job's pods. Jobs of another kind may share it: compare owners."""
    return f"{JOB_KINDS[kind].name_label}={job_name}"
