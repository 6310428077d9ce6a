"""The code of the trainer's page, with the real frameworks.

Each block stands in a small script, of which one part comes before it, one in the place of its
line `...`, and one after it."""

import re
import signal
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from localcluster.ports import pick_ports
from tests.cases import cases
from tests.e2e.trainer.framework_processes import Environments, start
from tests.harness.pytorch import pytorch_environment

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

_PAGE: Final = (Path(__file__).parents[3] / "trainer" / "README.md").read_text()
_STATUS_OF_STOPPED: Final = 128 + signal.SIGTERM


def block(heading: str, beginning: str) -> str:
    """The first block of code after a paragraph with this beginning."""
    section = _PAGE.partition(f"\n## {heading}\n")[2]
    found = re.search(r"```python\n(.*?)```", section[section.index(beginning) :], re.DOTALL)
    assert found is not None
    return found[1]


class Script(NamedTuple):
    """What is around a block of the page."""

    heading: str
    beginning: str
    within: str
    before: str = ""
    after: str = ""

    def write(self, folder: Path) -> Path:
        """Write the whole script."""
        code = block(self.heading, self.beginning)
        if self.within:
            code = re.sub(r"^\.\.\.\n", lambda _: self.within, code, count=1, flags=re.MULTILINE)
        path = folder / "script.py"
        path.write_text(f"folder = {str(folder)!r}\n{self.before}{code}{self.after}")
        return path


STOPS: Final = """
import os, signal, time
def told():
    os.kill(os.getpid(), signal.SIGTERM)
    while not stop.told:
        time.sleep(0.01)
"""
CLUSTER: Final = """
import tensorflow as tf
from localcluster.ports import pick_ports
one, two, three = [f"127.0.0.1:{port}" for port in pick_ports(3)]
spec = tf.train.ClusterSpec({"worker": [one], "ps": [two, three]})
tasks = ("worker", 0), ("ps", 0), ("ps", 1)
servers = [tf.distribute.Server(spec, *task, "grpc") for task in tasks]
resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(spec, rpc_layer="grpc")
"""
NETWORK: Final = """
import mxnet as mx
layer = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=2)
module = mx.mod.Module(mx.sym.SoftmaxOutput(layer, name="softmax"))
module.bind([("data", (4, 3))], [("softmax_label", (4,))])
module.init_params()
batch = mx.io.DataBatch([mx.nd.ones((4, 3))], [mx.nd.zeros((4,))])
"""
SAVES: Final = "A job that saves when it is stopped"


@cases(
    ("framework", "script", "saved"),
    {
        "TensorFlow 2": (
            "tensorflow",
            Script(
                SAVES,
                "**TensorFlow 2",
                STOPS + CLUSTER + """
strategy = tf.distribute.ParameterServerStrategy(resolver)
coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
with strategy.scope():
    count = tf.Variable(0)
manager = tf.train.CheckpointManager(tf.train.Checkpoint(count=count), folder, 3)
@tf.function
def train():
    count.assign_add(1)
def numbers():
    yield from range(1, 4)
    told()
    yield 4
steps = numbers()
""",
                before='role, chief = "chief", "unused:1"\n',
            ),
            "ckpt-4.index",
        ),
        "TensorFlow 1": (
            "tensorflow",
            Script(
                SAVES,
                "**TensorFlow 1",
                STOPS + """
import tensorflow as tf
tf.compat.v1.disable_eager_execution()
def after_three(value):
    if value == 3:
        told()
    return value
step = tf.compat.v1.train.get_or_create_global_step().assign_add(1)
train = tf.compat.v1.py_func(after_three, [step], tf.int64)
""",
                after="stop.leave()\n",
            ),
            "model.ckpt-3.index",
        ),
        "MXNet": (
            "mxnet",
            Script(
                SAVES,
                "**MXNet",
                STOPS + NETWORK + """
kvstore = mx.kv.create("local")
prefix, epoch = folder + "/model", 7
module.init_optimizer(kvstore)
def all_batches():
    yield batch
    told()
    yield batch
batches = all_batches()
""",
            ),
            "model-0007.params",
        ),
        **({} if not pytorch_environment() else {"PyTorch": (
            "pytorch",
            Script(
                SAVES,
                "**PyTorch",
                STOPS + """
import torch
layer = torch.nn.Linear(3, 2)
state, path = layer.state_dict(), folder + "/state.pt"
def train(batch):
    layer(batch).sum().backward()
def all_batches():
    yield torch.ones(4, 3)
    told()
    yield torch.ones(4, 3)
batches = all_batches()
""",
                before="rank = 0\n",
            ),
            "state.pt",
        )}),
    },
)  # fmt: skip
def test_it_saves_and_leaves(
    frameworks: Environments, tmp_path: Path, framework: str, script: Script, saved: str
) -> None:
    environments = {**frameworks, **pytorch_environment()}
    process = start(environments, framework, script.write(tmp_path), (), {})
    _, errors = process.communicate(timeout=240)
    assert process.returncode == _STATUS_OF_STOPPED, errors
    assert (tmp_path / saved).exists()


COUNTED: Final = """
from collections import Counter
seen, deals, rank, batch, workers, text_of_the_checkpoint = Counter(), [1, 1], 0, 4, 1, None
time_to_save, model, stored = True, None, []
class Training:
    def __bool__(self):
        return bool(deals and deals.pop())
training = Training()
def save(model, text):
    stored.append(text)
"""
FINISHED: Final = """
assert seen == Counter({number: 2 for number in range(12)}), seen
assert len(stored) == 6
os._exit(0)
"""


@cases(
    ("framework", "beginning", "before"),
    {
        "a list of files": (
            "tensorflow",
            "**A list of files",
            """
import os, pathlib
paths = [f"{folder}/{number}" for number in range(12)]
for number, path in enumerate(paths):
    pathlib.Path(path).write_text(str(number))
chunks = {path: 1 for path in paths}
load = lambda path: int(pathlib.Path(path).read_text())
train = lambda examples: seen.update(examples)
""",
        ),
        "RecordIO": (
            "mxnet",
            "**RecordIO",
            """
import os, mxnet as mx
chunks, records = {"a": 7, "b": 5}, {}
for name, first in (("a", 0), ("b", 7)):
    files = f"{folder}/{name}.idx", f"{folder}/{name}.rec"
    record = mx.recordio.MXIndexedRecordIO(*files, "w")
    for key in range(chunks[name]):
        record.write_idx(key, str(first + key).encode())
    record.close()
    records[name] = mx.recordio.MXIndexedRecordIO(*files, "r")
train = lambda examples: seen.update(map(int, examples))
""",
        ),
        "tf.data": (
            "tensorflow",
            "**`tf.data`",
            """
import os, tensorflow as tf
chunks = {f"{folder}/a": 7, f"{folder}/b": 5}
numbers = iter(range(12))
for path, size in chunks.items():
    with tf.io.TFRecordWriter(path) as writer:
        for _ in range(size):
            writer.write(str(next(numbers)).encode())
train = lambda examples: seen.update(map(int, examples.numpy()))
""",
        ),
    },
)
def test_it_trains_each_example_once_in_each_epoch(
    frameworks: Environments, tmp_path: Path, framework: str, beginning: str, before: str
) -> None:
    heading = "Data that follow the workers"
    reads = block(heading, beginning)
    script = Script(heading, "", "", f"{before}{COUNTED}{reads}", FINISHED)
    process = start(frameworks, framework, script.write(tmp_path), (), {})
    _, errors = process.communicate(timeout=240)
    assert process.returncode == 0, errors


SAME: Final = "Parameter servers that hold the same"


@cases(
    "script",
    {
        "TensorFlow 2": Script(
            SAME,
            "**TensorFlow 2",
            "",
            before=CLUSTER + """
import os
class Model(tf.Module):
    def __init__(self):
        self.table, self.bias = tf.Variable(tf.ones((100, 4))), tf.Variable(tf.ones(4))
build, ps = Model, 2
""",
            after="""
devices = [part.device for part in model.table.variables]
assert len(set(devices)) == 2 and all("/job:ps/" in device for device in devices), devices
os._exit(0)
""",
        ),
        "TensorFlow 1": Script(
            SAME,
            "**TensorFlow 1",
            "",
            before="""
import os, tensorflow as tf
tf.compat.v1.disable_eager_execution()
shapes, ps = [(100, 4), (4,)], 2
cluster = tf.train.ClusterSpec({"ps": ["one:1", "two:1"], "worker": ["three:1"]})
def build():
    for number, shape in enumerate(shapes):
        tf.compat.v1.get_variable(f"v{number}", shape)
""",
            after="""
devices = {each.device for each in tf.compat.v1.global_variables()}
assert devices == {"/job:ps/task:0", "/job:ps/task:1"}, devices
os._exit(0)
""",
        ),
    },
)  # fmt: skip
def test_variables_are_cut_and_placed(
    frameworks: Environments, tmp_path: Path, script: Script
) -> None:
    process = start(frameworks, "tensorflow", script.write(tmp_path), (), {})
    _, errors = process.communicate(timeout=240)
    assert process.returncode == 0, errors


def test_mxnet_trains_with_even_servers(frameworks: Environments, tmp_path: Path) -> None:
    (port,) = pick_ports(1)
    script = Script(
        SAME,
        "**MXNet",
        "",
        before=NETWORK + "arrays = module.get_params()[0]\n",
        after="""
module.forward_backward(batch)
before = module.get_params()[0]["fullyconnected0_weight"].asnumpy().copy()
module.update()
assert (module.get_params()[0]["fullyconnected0_weight"].asnumpy() != before).any()
""",
    ).write(tmp_path)
    shared = {
        "DMLC_PS_ROOT_URI": "127.0.0.1",
        "DMLC_NODE_HOST": "127.0.0.1",
        "DMLC_PS_ROOT_PORT": str(port),
        "DMLC_NUM_SERVER": "2",
        "DMLC_NUM_WORKER": "1",
    }
    roles = ("scheduler", "server", "server", "worker")
    started = [start(frameworks, "mxnet", script, (), {**shared, "DMLC_ROLE": r}) for r in roles]
    try:
        _, errors = started[-1].communicate(timeout=240)
    finally:
        for process in started:
            process.kill()
            process.communicate()
    assert started[-1].returncode == 0, errors


def test_it_reports(frameworks: Environments, tmp_path: Path) -> None:
    script = Script("A job that says where it stands", "", "", "step, epoch, loss = 7, 1, 0.5\n")
    process = start(frameworks, "mxnet", script.write(tmp_path), (), {})
    printed, errors = process.communicate(timeout=240)
    assert printed == "epoch=1 step=7 loss=0.5\nstep=7 checkpoint=7\n", errors
