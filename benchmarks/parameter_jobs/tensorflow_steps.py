"""Read and change all variables of these shapes from each worker, by default and balanced in turn;
print the seconds of each step.

The chief schedules one step for each worker and waits for all of them: synchronous."""

import json
import os
import sys
import time
from typing import Any

import tensorflow as tf  # type: ignore[import-untyped]  # lives only in the environment of a framework

from optimus_trainer.parameters import VariablePlan

shapes, steps = json.loads(sys.argv[1]), int(sys.argv[2])
resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
spec = resolver.cluster_spec()
if resolver.task_type != "chief":
    tf.distribute.Server(
        spec, job_name=resolver.task_type, task_index=resolver.task_id, protocol="grpc"
    ).join()


def build() -> list[tf.Variable]:
    """The model."""
    return [tf.Variable(tf.zeros(shape)) for shape in shapes]


def cut(shape: Any, **given: Any) -> list[int]:
    """The partitioner of the model that is made: by default nothing is cut, as without one."""
    return plan.partitioner(shape, **given) if is_balanced else [1] * len(shape)


def step_of(made: list[Any]) -> Any:
    """A step of one worker on this model."""
    variables = [part for each in made for part in getattr(each, "variables", [each])]

    @tf.function  # type: ignore[untyped-decorator]
    def step() -> None:
        read = [tf.convert_to_tensor(each) for each in variables]
        for variable, value in zip(variables, read, strict=True):
            variable.assign_sub(0.1 * (value + 1.0))

    return step


plan = VariablePlan(shapes, spec.num_tasks("ps"))
is_balanced = False
strategy = tf.distribute.ParameterServerStrategy(resolver, variable_partitioner=cut)
with strategy.scope():
    default = build()
is_balanced = True
with tf.variable_creator_scope(plan.place), strategy.scope():
    balanced = build()
coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
functions = {"default": step_of(default), "balanced": step_of(balanced)}
seconds: dict[str, list[float]] = {how: [] for how in functions}
for _ in range(steps):
    for how, step in functions.items():
        began = time.monotonic()
        for _ in range(spec.num_tasks("worker")):
            coordinator.schedule(step)
        coordinator.join()
        seconds[how].append(time.monotonic() - began)
print(json.dumps([seconds["default"], seconds["balanced"]]), flush=True)
os._exit(0)
