"""How well the newest checkpoint of an example does on data that it was not trained on.

`python evaluate.py FRAMEWORK FOLDER EXAMPLES SEED` prints the accuracy and the cross-entropy."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from examples.mxnet.dataset import make_dataset  # both examples draw the same

HELD_OUT = 20_000


def main() -> None:
    """Print both as a list."""
    framework, folder, examples, seed = sys.argv[1], Path(sys.argv[2]), *map(int, sys.argv[3:])
    weights, bias, more_weights, more_bias = _WEIGHTS[framework](folder)
    data = make_dataset(examples + HELD_OUT, seed)
    features, labels = data.features[examples:], data.labels[examples:].astype(int)
    scores = np.maximum(features @ weights + bias, 0.0) @ more_weights + more_bias
    scores -= scores.max(axis=1, keepdims=True)
    losses = np.log(np.exp(scores).sum(axis=1)) - scores[np.arange(len(labels)), labels]
    accuracy = np.mean(scores.argmax(axis=1) == labels)
    print(json.dumps([float(accuracy), float(np.mean(losses))]), flush=True)


def _of_mxnet(folder: Path) -> list[Any]:
    import mxnet as mx  # type: ignore[import-not-found]

    newest = max(folder.glob("model-*.params"), key=lambda path: int(path.stem.split("-")[1]))
    stored = {name: array.asnumpy() for name, array in mx.nd.load(str(newest)).items()}
    names = ("fc1_weight", "fc1_bias", "fc2_weight", "fc2_bias")
    return [stored[f"arg:{name}"].T for name in names]


def _of_tensorflow(folder: Path) -> list[Any]:
    import tensorflow as tf  # type: ignore[import-untyped]

    stored = tf.train.load_checkpoint(str(folder))
    names = sorted(n for n in stored.get_variable_to_shape_map() if n.startswith("model/"))
    return [stored.get_tensor(name) for name in names]


_WEIGHTS = {"mxnet": _of_mxnet, "tensorflow": _of_tensorflow}

if __name__ == "__main__":
    main()
