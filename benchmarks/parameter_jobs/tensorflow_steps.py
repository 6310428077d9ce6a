"""Read and change all variables of these shapes from each worker; print the seconds of each step.

The chief schedules one step for each worker and waits for all of them: synchronous."""

import json
import os
import sys
import time

import tensorflow as tf  # type: ignore[import-untyped]  # lives only in the environment of a framework

from optimus_trainer.parameters import VariablePlan

shapes, how, steps = json.loads(sys.argv[1]), sys.argv[2], int(sys.argv[3])
resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
spec = resolver.cluster_spec()
if resolver.task_type != "chief":
    tf.distribute.Server(
        spec, job_name=resolver.task_type, task_index=resolver.task_id, protocol="grpc"
    ).join()


def build() -> list[tf.Variable]:
    """The model."""
    return [tf.Variable(tf.zeros(shape)) for shape in shapes]


if how == "balanced":
    plan = VariablePlan(shapes, spec.num_tasks("ps"))
    partitioner = plan.partitioner
    strategy = tf.distribute.ParameterServerStrategy(resolver, variable_partitioner=partitioner)
    with tf.variable_creator_scope(plan.place), strategy.scope():
        made = build()
else:
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    with strategy.scope():
        made = build()
variables = [part for each in made for part in getattr(each, "variables", [each])]
coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)


@tf.function  # type: ignore[untyped-decorator]
def step() -> None:
    """Of one worker."""
    read = [tf.convert_to_tensor(each) for each in variables]
    for variable, value in zip(variables, read, strict=True):
        variable.assign_sub(0.1 * (value + 1.0))


workers, seconds = spec.num_tasks("worker"), []
for _ in range(steps):
    began = time.monotonic()
    for _ in range(workers):
        coordinator.schedule(step)
    coordinator.join()
    seconds.append(time.monotonic() - began)
print(json.dumps(seconds), flush=True)
os._exit(0)
