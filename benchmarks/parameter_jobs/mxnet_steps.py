"""Push and pull a model of these shapes on MXNet's servers; print the seconds of each step."""

import json
import sys
import time

import mxnet as mx  # type: ignore[import-not-found]  # a server never gets past it

from optimus_trainer.parameters import balanced_kvstore

shapes = dict(enumerate(json.loads(sys.argv[1])))
how, steps = sys.argv[2], int(sys.argv[3])
store = balanced_kvstore("dist_sync", shapes) if how == "balanced" else mx.kv.create("dist_sync")
store.set_optimizer(mx.optimizer.create("sgd", learning_rate=0.1))
weights = {key: mx.nd.zeros(tuple(shape)) for key, shape in shapes.items()}
gradients = {key: mx.nd.ones(tuple(shape)) for key, shape in shapes.items()}
for key, weight in weights.items():
    store.init(key, weight)
seconds = []
for _ in range(steps):
    began = time.monotonic()
    for key in shapes:
        store.pushpull(key, gradients[key], out=weights[key], priority=-key)
    mx.nd.waitall()
    seconds.append(time.monotonic() - began)
print(json.dumps(seconds), flush=True)
