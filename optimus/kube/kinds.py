"""The kinds that are watched, ready for a ``Reflector``."""

from functools import partial

from optimus.kube.client import path_of
from optimus.kube.eligibility import JobRules
from optimus.kube.kind import Kind
from optimus.kube.labels import OPERATOR_GROUP
from optimus.kube.nodes import ClusterNode, decode_node
from optimus.kube.pods import Pod, decode_pod
from optimus.kube.profiles import profiles
from optimus.kube.training_jobs import PLURALS, VERSION, TrainingJob, decode_job

__all__ = ["nodes", "pods", "profiles", "training_jobs"]


def pods(label_selector: str = "", field_selector: str = "") -> Kind[Pod]:
    """Pods of every namespace."""
    return Kind("pods", path_of("", "v1", "pods"), decode_pod, label_selector, field_selector)


def nodes(label_selector: str = "") -> Kind[ClusterNode]:
    """Nodes."""
    return Kind("nodes", path_of("", "v1", "nodes"), decode_node, label_selector)


def training_jobs(kind: str, rules: JobRules) -> Kind[TrainingJob]:
    """TFJobs or MXJobs of every namespace; a cluster may lack either."""
    plural = PLURALS[kind]
    return Kind(
        plural,
        path_of(OPERATOR_GROUP, VERSION, plural),
        partial(decode_job, kind, rules=rules),
        optional=True,
    )
