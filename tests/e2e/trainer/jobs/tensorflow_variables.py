"""Print what each PS holds of a model whose first variable is most of it, as JSON.

`python tensorflow_variables.py 1|2 PS default|balanced`: the version of TensorFlow's interface.
All of the cluster is in this process; in version 2 it trains a step."""

import json
import os
import sys
from collections import Counter
from typing import Any

import tensorflow as tf  # type: ignore[import-untyped]  # lives only in the environment of a framework

from optimus_trainer.parameters import VariablePlan

v1 = tf.compat.v1
SHAPES = ((2_000, 64), (64, 256), (256,), (256, 256), (256,), (256, 10), (10,), (600, 64))


def _first(ps: int, balanced: bool) -> list[Any]:
    shapes = SHAPES
    cluster = tf.train.ClusterSpec({"ps": [f"ps{n}:1" for n in range(ps)], "worker": ["w:1"]})
    with tf.Graph().as_default():
        if balanced:
            plan = VariablePlan(shapes, ps)
            setter = v1.train.replica_device_setter(cluster=cluster, ps_strategy=plan.ps_strategy)
            scope = v1.variable_scope("", partitioner=plan.partitioner)
        else:
            setter = v1.train.replica_device_setter(cluster=cluster)
            scope = v1.variable_scope("")
        with v1.device(setter), scope:
            made = [v1.get_variable(f"v{n}", shape) for n, shape in enumerate(shapes)]
            loss = tf.add_n([tf.reduce_sum(tf.convert_to_tensor(each)) for each in made])
            v1.train.AdamOptimizer().minimize(loss, v1.train.get_or_create_global_step())
        slots = [each for each in v1.global_variables() if "Adam" in each.op.name]
        for slot in slots:  # beside their variables
            (owner,) = {
                each.device
                for each in v1.trainable_variables()
                if slot.op.name.startswith(f"{each.op.name}/")
            }
            assert slot.device == owner, slot
        return list(v1.trainable_variables())


def _second(ps: int, balanced: bool) -> list[Any]:
    from localcluster.ports import pick_ports

    names = ["worker", *["ps"] * ps]
    addresses = [f"127.0.0.1:{port}" for port in pick_ports(len(names))]
    spec = tf.train.ClusterSpec({"worker": addresses[:1], "ps": addresses[1:]})
    servers = [tf.distribute.Server(spec, "worker", 0, "grpc")]
    servers += [tf.distribute.Server(spec, "ps", number, "grpc") for number in range(ps)]
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(spec, rpc_layer="grpc")

    def build() -> list[Any]:
        return [tf.Variable(tf.ones(shape), name=f"v{n}") for n, shape in enumerate(SHAPES)]

    if balanced:
        plan = VariablePlan([variable.shape for variable in build()], ps)
        partitioner = plan.partitioner
        strategy = tf.distribute.ParameterServerStrategy(resolver, variable_partitioner=partitioner)
        with tf.variable_creator_scope(plan.place), strategy.scope():
            variables = build()
            step = tf.Variable(0)
    else:
        strategy = tf.distribute.ParameterServerStrategy(resolver)
        with strategy.scope():
            variables = build()
            step = tf.Variable(0)
    parts = [part for each in variables for part in getattr(each, "variables", [each])]
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)

    @tf.function  # type: ignore[untyped-decorator]
    def train() -> Any:
        rows = tf.nn.embedding_lookup(variables[0], tf.constant([0, 999, 1_999]))
        for part in parts:
            part.assign_sub(0.5 * tf.ones(part.shape))
        step.assign_add(1)
        return tf.reduce_sum(rows)

    loss = coordinator.schedule(train)
    coordinator.join()
    assert loss.fetch() == 3 * 64
    assert step.numpy() == 1
    assert all(float(tf.reduce_max(tf.abs(part - 0.5))) == 0 for part in parts)
    print(len(servers), "servers", file=sys.stderr)
    return parts


def main() -> None:
    """Print bytes and requests by PS."""
    version, ps, how = sys.argv[1:]
    parts = (_first if version == "1" else _second)(int(ps), how == "balanced")
    held: Counter[str] = Counter()
    requests: Counter[str] = Counter()
    for part in parts:
        task = part.device.partition("task:")[2].partition("/")[0]
        held[task] += 4 * part.shape.num_elements()
        requests[task] += 1
    print(json.dumps([[held[str(n)], requests[str(n)]] for n in range(int(ps))]), flush=True)
    os._exit(0)  # servers do not end


if __name__ == "__main__":
    main()
