"""A worker or a parameter server: TensorFlow's own server, which does what the chief asks of it
until it is ended."""

from __future__ import annotations

import tensorflow as tf  # type: ignore[import-untyped]  # lives only in the environment of this example


def serve() -> None:
    """Serve this process's task of TF_CONFIG for ever."""
    tf.config.threading.set_intra_op_parallelism_threads(1)
    task = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    server = tf.distribute.Server(
        task.cluster_spec(), job_name=task.task_type, task_index=task.task_id, protocol="grpc"
    )
    print(f"serving as {task.task_type} {task.task_id}", flush=True)
    server.join()
