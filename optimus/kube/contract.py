"""The names that both processes and their users share: annotations, profile fields and phases.

Of a job the TrainingProfile is the only channel between the autoscaler, which writes it, and the
extender, which reads it. Of the cluster it is the autoscaler's Lease.
"""

from enum import StrEnum
from typing import Final

GROUP: Final = "optimus.dl"
VERSION: Final = "v1alpha1"
PROFILES: Final = "trainingprofiles"
PROFILE_KIND: Final = "TrainingProfile"
WORKLOAD_PROFILES: Final = "workloadprofiles"
WORKLOAD_PROFILE_KIND: Final = "WorkloadProfile"

SCHEDULER_NAME: Final = "optimus-scheduler"
"""The default ``schedulerName``; both processes take another by flag."""


class Annotation:
    """Annotations on a job; the user's, but for the last three."""

    TARGET: Final = "optimus.dl/target"
    TARGET_LOSS: Final = "optimus.dl/target-loss"
    CONVERGENCE_THRESHOLD: Final = "optimus.dl/convergence-threshold"
    TARGET_EPOCHS: Final = "optimus.dl/target-epochs"
    TARGET_STEPS: Final = "optimus.dl/target-steps"
    FINISH_BY: Final = "optimus.dl/finish-by"
    AT_TARGET: Final = "optimus.dl/at-target"
    TRAINING_MODE: Final = "optimus.dl/training-mode"
    GLOBAL_BATCH_SIZE: Final = "optimus.dl/global-batch-size"
    WORKER_BATCH_SIZE: Final = "optimus.dl/worker-batch-size"
    STEPS_PER_EPOCH: Final = "optimus.dl/steps-per-epoch"
    PS_UNEVENNESS: Final = "optimus.dl/ps-unevenness"
    LR_SCHEDULE: Final = "optimus.dl/lr-schedule"
    LR_SCALING: Final = "optimus.dl/lr-scaling"
    LOSS_METRIC: Final = "optimus.dl/loss-metric"
    METRICS_FORMAT: Final = "optimus.dl/metrics-format"
    MIN_PS: Final = "optimus.dl/min-ps"
    MAX_PS: Final = "optimus.dl/max-ps"
    MIN_WORKERS: Final = "optimus.dl/min-workers"
    MAX_WORKERS: Final = "optimus.dl/max-workers"
    WORKLOAD: Final = "optimus.dl/workload"
    RESCALE: Final = "optimus.dl/rescale"
    SAVES_ON_STOP: Final = "optimus.dl/saves-on-stop"
    MANAGE: Final = "optimus.dl/manage"
    PAUSE: Final = "optimus.dl/pause"
    CHECKPOINT_FORMAT: Final = "optimus.dl/checkpoint-format"
    CHIEF_TRAINS: Final = "optimus.dl/chief-trains"

    SUSPENDED_BY: Final = "optimus.dl/suspended-by"
    """It marks a job that the autoscaler suspended or paused (``SuspensionMark``). Without it the
    user did."""

    GOAL_MET: Final = "optimus.dl/goal-met"
    """It tells the pods of a job that is to end by itself since when its goal is met, RFC 3339."""

    REQUEUED: Final = "optimus.dl/requeued"
    """It makes kube-scheduler try a pending pod again; the text says why, and when."""


class Phase(StrEnum):
    """The phases of a job, as ``kubectl get trainingprofiles`` prints them."""

    WAITING = "Waiting"
    PROFILING = "Profiling"
    TRAINING = "Training"
    FAILING = "Failing"
    WAITING_FOR_CHECKPOINT = "WaitingForCheckpoint"
    SUSPENDING = "Suspending"
    RESIZING = "Resizing"
    STARTING = "Starting"
    AT_TARGET = "AtTarget"
    SUSPENDED = "Suspended"
    PAUSED = "Paused"
    WAITING_FOR_ITS_TURN = "WaitingForItsTurn"
    COMPLETED = "Completed"
    FAILED = "Failed"
    LEFT_ALONE = "LeftAlone"


RESCALING: Final = frozenset({Phase.SUSPENDING, Phase.RESIZING, Phase.STARTING})
"""The phases in which the extender holds room for the job's target counts."""

WAITING_EVENT: Final = "Waiting"
"""The reason of the extender's Event that says why a gang waits for nodes."""

NOT_CREATED: Final = "pods cannot be created"
"""A profile's reason with these words tells what refuses pods of its job, such as a quota."""

WAIT_ANNOTATION: Final = "optimus.dl/wait"
"""The annotation on that Event that says the same as values
(``optimus.kube.waiting_events.Wait``)."""

POLICY_MEMORY: Final = "optimus.dl/policy-memory"
"""The annotation on the leader's Lease that holds what the policy remembers of the whole
cluster."""

KIND_ORDERS: Final = "optimus.dl/kind-orders"
"""The annotation on it that orders the kinds of nodes for new jobs
(``optimus.kube.kind_orders``)."""

EXTENDER_COMPONENT: Final = "optimus-extender"
"""The component that the extender's Events name as their source."""
