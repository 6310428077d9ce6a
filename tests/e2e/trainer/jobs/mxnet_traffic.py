"""Train a model on MXNet's servers: `python mxnet_traffic.py module|gluon default|balanced`.

The role is DMLC_ROLE. A server prints the bytes that it has received, a worker of rank 0 the
parameters at the end."""

import json
import os
import socket
import struct
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

STEPS = 6
_TCP_INFO, _BYTES_RECEIVED = 11, 128
"""Of Linux: the option, and where in its answer `tcpi_bytes_received` is."""


def _received() -> int:
    total = 0
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # closed by now, or not of TCP
            if str(descriptor.readlink()).startswith("socket:"):
                with socket.socket(fileno=os.dup(int(descriptor.name))) as opened:
                    answer = opened.getsockopt(socket.IPPROTO_TCP, _TCP_INFO, 192)
                total += struct.unpack_from("Q", answer, _BYTES_RECEIVED)[0]
    return total


def _report() -> None:
    while True:
        time.sleep(0.1)
        print(json.dumps({"server": os.getpid(), "received": _received()}), flush=True)


if os.environ["DMLC_ROLE"] == "server":
    threading.Thread(target=_report, daemon=True).start()

import mxnet as mx  # type: ignore[import-not-found]  # noqa: E402  # a server never gets past it
import numpy as np  # noqa: E402

from optimus_trainer.parameters import balanced_kvstore  # noqa: E402

WORDS, WIDTH, CLASSES, BATCH = 3_000, 96, 10, 8
OPTIONS = {"learning_rate": 0.5, "momentum": 0.9, "wd": 0.1, "rescale_grad": 1 / 16}


def _batches(worker: int):  # type: ignore[no-untyped-def]
    draw = np.random.default_rng(worker)
    for _ in range(STEPS):
        yield mx.nd.array(draw.integers(0, WORDS, (BATCH, 4))), mx.nd.array(draw.integers(0, 9, 8))


def _module(balanced: bool) -> tuple[Any, dict[str, Any]]:
    words = mx.sym.Embedding(mx.sym.Variable("data"), input_dim=WORDS, output_dim=WIDTH, name="e")
    hidden = mx.sym.FullyConnected(mx.sym.Flatten(words), num_hidden=64, name="hidden")
    scores = mx.sym.FullyConnected(hidden, num_hidden=CLASSES, name="scores")
    module = mx.mod.Module(mx.sym.SoftmaxOutput(scores, name="softmax"), context=mx.cpu())
    module.bind([("data", (BATCH, 4))], [("softmax_label", (BATCH,))])
    mx.random.seed(1)
    module.init_params(mx.init.Xavier())
    if balanced:
        parameters, _ = module.get_params()
        shapes = {name: array.shape for name, array in parameters.items()}
        kvstore = balanced_kvstore("dist_sync", shapes)
    else:
        kvstore = mx.kv.create("dist_sync")
    module.init_optimizer(kvstore, "sgd", OPTIONS)
    for features, labels in _batches(kvstore.rank):
        module.forward_backward(mx.io.DataBatch([features], [labels]))
        module.update()
    return kvstore, module.get_params()[0]


def _gluon(balanced: bool) -> tuple[Any, dict[str, Any]]:
    network = mx.gluon.nn.HybridSequential()
    with network.name_scope():
        network.add(mx.gluon.nn.Embedding(WORDS, WIDTH), mx.gluon.nn.Flatten())
        network.add(mx.gluon.nn.Dense(64, in_units=4 * WIDTH))
        network.add(mx.gluon.nn.Dense(CLASSES, in_units=64))
    mx.random.seed(1)
    network.initialize(mx.init.Xavier())
    parameters = list(network.collect_params().values())
    parameters[1].wd_mult = 0.0
    shapes = {key: parameter.shape for key, parameter in enumerate(parameters)}
    kvstore = balanced_kvstore("dist_sync", shapes) if balanced else mx.kv.create("dist_sync")
    options = {"learning_rate": 0.01, "wd": 0.1}
    trainer = mx.gluon.Trainer(parameters, "adam", options, kvstore=kvstore)
    loss_of = mx.gluon.loss.SoftmaxCrossEntropyLoss()
    for features, labels in _batches(kvstore.rank):
        with mx.autograd.record():
            loss = loss_of(network(features), labels)
        loss.backward()
        trainer.step(2 * BATCH)
    return kvstore, {f"{number}": each.data() for number, each in enumerate(parameters)}


def main() -> None:
    """Train; the worker of rank 0 prints the means and squares of the parameters."""
    interface, how = sys.argv[1:]
    kvstore, parameters = (_module if interface == "module" else _gluon)(how == "balanced")
    numbers = {
        name: [float(array.mean().asscalar()), float((array * array).sum().asscalar())]
        for name, array in parameters.items()
    }
    if kvstore.rank == 0:
        print(json.dumps({"parameters": numbers}), flush=True)
    kvstore._barrier()
    time.sleep(0.5)  # connections close with the KVStore; until then servers report
    del kvstore


main()
