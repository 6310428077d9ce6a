"""Step times of real MXNet and TensorFlow, parameters by default and balanced, on limited links.

``python -m benchmarks.parameter_balance [--steps 8] [--rounds 3]``. Needs Linux,
`ip`, `tc` and `unshare`, and no rights: each process has a network namespace of its own within a
user namespace, on one bridge, and what it sends and receives are each held to the speed of its
link. Two workers; a step pushes all gradients and reads all parameters, and computes next to
nothing, so that what is compared is the transfer. The two ways take turns: step by step in a job of
TensorFlow, job by job in MXNet. The first two steps are left out, the medians of the others
compared, and of ``--rounds`` such pairs the median ratio is printed. Before that: table 3 of the
paper, computed."""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, Final

from localcluster.environments import framework_environments
from optimus_trainer.parameters import assign

_ROOT: Final = Path(__file__).parents[1]
_JOBS: Final = Path(__file__).parent / "parameter_jobs"
_WORKERS: Final = 2
_INSIDE: Final = "OPTIMUS_PARAMETER_BALANCE_INSIDE"
_LIMIT_SECONDS: Final = 900.0
MODELS: Final[dict[str, tuple[tuple[int, ...], ...]]] = {
    "embedding": ((9_000, 100), (100, 256), (256,), (256, 256), (256,), (256, 10), (10,)),
    "vgg": (
        *((64, 27), (64,), (64, 576), (64,), (128, 576), (128,), (128, 1152), (128,)),
        *((1_800, 512), (512,), (512, 256), (256,), (256, 10), (10,)),
    ),
    "many small": tuple(shape for _ in range(40) for shape in ((160, 160), (160,))),
}
"""An embedding of nine tenths; a first dense layer of most, as VGG's; 40 equal layers. None has an
array of a million values, which MXNet would cut."""


def main() -> None:
    """Measure, and print one row for each framework, model and number of PSs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabits", type=float, default=100.0)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--ps", default="2,4,6")
    parser.add_argument("--frameworks", default="mxnet,tensorflow")
    options = parser.parse_args()
    _table_3()
    if _INSIDE not in os.environ:
        if shutil.which("unshare") is None:
            sys.exit("step times need unshare, ip and tc")
        inside = ["unshare", "--user", "--map-root-user", "--net", sys.executable, "-m"]
        command = [*inside, "benchmarks.parameter_balance", *sys.argv[1:]]
        sys.exit(subprocess.call(command, env={**os.environ, _INSIDE: "1"}))
    _measured(options)


def _measured(options: argparse.Namespace) -> None:
    environments = framework_environments()
    _ip("link", "add", "br0", "type", "bridge")
    _ip("link", "set", "br0", "up")
    for framework in options.frameworks.split(","):
        environment = environments[f"optimus-examples-{framework}"]
        if isinstance(environment, str):
            sys.exit(environment)
        python = str(environment / "bin" / "python")
        run = {"mxnet": _mxnet, "tensorflow": _tensorflow}[framework]
        for model in MODELS:
            for ps in map(int, options.ps.split(",")):
                pairs = [
                    [statistics.median(seconds[2:]) for seconds in run(python, model, ps, options)]
                    for _ in range(options.rounds)
                ]
                row = {"framework": framework, "model": model, "ps": ps, **_compared(pairs)}
                print(json.dumps(row), flush=True)


def _compared(pairs: Sequence[Sequence[float]]) -> dict[str, Any]:
    """Seconds by default and balanced, and the ratios of the pairs, the lowest first."""
    ratios = sorted(round(balanced / default, 3) for default, balanced in pairs)
    default, balanced = (round(statistics.median(each), 3) for each in zip(*pairs, strict=True))
    ratio = statistics.median(ratios)
    return {"default": default, "balanced": balanced, "ratio": ratio, "ratios": ratios}


def _mxnet(
    python: str, model: str, ps: int, options: argparse.Namespace
) -> Iterator[Sequence[float]]:
    roles = ["scheduler", *["server"] * ps, *["worker"] * _WORKERS]
    arguments = [python, str(_JOBS / "mxnet_steps.py"), json.dumps(MODELS[model])]
    shared = {
        "DMLC_PS_ROOT_URI": _address(0),
        "DMLC_PS_ROOT_PORT": "9091",
        "DMLC_NUM_SERVER": str(ps),
        "DMLC_NUM_WORKER": str(_WORKERS),
    }
    variables = [
        {**shared, "DMLC_ROLE": role, "DMLC_NODE_HOST": _address(number)}
        for number, role in enumerate(roles)
    ]
    for how in ("default", "balanced"):
        yield _job([*arguments, how, str(options.steps)], variables, options.megabits)


def _tensorflow(
    python: str, model: str, ps: int, options: argparse.Namespace
) -> Sequence[Sequence[float]]:
    roles = [("ps", n) for n in range(ps)] + [("worker", n) for n in range(_WORKERS)]
    roles.append(("chief", 0))
    addresses = {role: f"{_address(number)}:2222" for number, role in enumerate(roles)}
    cluster = {
        name: [addresses[role] for role in roles if role[0] == name]
        for name in ("ps", "worker", "chief")
    }
    variables = [
        {"TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": name, "index": index}})}
        for name, index in roles
    ]
    arguments = [python, str(_JOBS / "tensorflow_steps.py"), json.dumps(MODELS[model])]
    found: Sequence[Sequence[float]] = _job(
        [*arguments, str(options.steps)], variables, options.megabits
    )
    return found


def _job(command: Sequence[str], variables: Sequence[dict[str, str]], megabits: float) -> Any:
    """Run the processes of a job, each on its link; what the last of them prints."""
    quiet = {"TF_CPP_MIN_LOG_LEVEL": "3", "TF_ENABLE_ONEDNN_OPTS": "0", "OMP_NUM_THREADS": "1"}
    path = {"PYTHONPATH": str(_ROOT / "trainer" / "src")}
    with ExitStack() as ending:
        started = []
        for number, own in enumerate(variables):
            waits = ["unshare", "--net", "sh", "-c", 'read -r _ && exec "$@"', "sh", *command]
            process = subprocess.Popen(
                waits,
                env={**os.environ, **quiet, **path, **own},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
            ending.callback(_end, process, number)
            started.append(process)
        for number, process in enumerate(started):
            _link(process.pid, number, megabits)
        for process in started:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        printed, _ = started[-1].communicate(timeout=_LIMIT_SECONDS)
    lines = [line for line in printed.splitlines() if line.startswith("[")]
    if not lines:
        sys.exit(f"no step times: {command}")
    return json.loads(lines[-1])


def _end(process: subprocess.Popen[str], number: int) -> None:
    process.kill()
    process.communicate()
    subprocess.run(["ip", "link", "del", f"v{number}"], check=False, stderr=subprocess.DEVNULL)


def _link(pid: int, number: int, megabits: float) -> None:
    """Connect a process to the bridge; both directions are limited where packets are sent."""
    limit = ("root", "tbf", "rate", f"{megabits}mbit", "burst", "64kb", "latency", "400ms")
    inside = partial(_run, "nsenter", "-t", str(pid), "-n")
    _ip("link", "add", f"v{number}", "type", "veth", "peer", "name", "eth0", "netns", str(pid))
    _ip("link", "set", f"v{number}", "master", "br0", "up")
    _run("tc", "qdisc", "add", "dev", f"v{number}", *limit)
    inside("ip", "addr", "add", f"{_address(number)}/24", "dev", "eth0")
    inside("ip", "link", "set", "eth0", "up")
    inside("ip", "link", "set", "lo", "up")
    inside("tc", "qdisc", "add", "dev", "eth0", *limit)


def _address(number: int) -> str:
    return f"10.99.0.{number + 10}"


def _ip(*arguments: str) -> None:
    _run("ip", *arguments)


def _run(*command: str) -> None:
    subprocess.run(command, check=True)


def _table_3() -> None:
    """Table 3 of the paper: ResNet-50 with 157 arrays, 10 PSs."""
    if _INSIDE in os.environ:
        return
    sizes, ps = _resnet_50(), 10
    held, requests = [0.0] * ps, [0] * ps
    for key, size in enumerate(sizes):
        cut = size >= 1_000_000
        for server in range(ps) if cut else (9973 * key % ps,):
            held[server] += size / ps if cut else size
            requests[server] += 1
    _say("MXNet's default", held, requests)
    held, requests = [0.0] * ps, [0] * ps
    for part in assign(sizes, ps):
        held[part.ps] += part.size
        requests[part.ps] += 1
    _say("balanced", held, requests)


def _say(name: str, held: Sequence[float], requests: Sequence[int]) -> None:
    sizes, counts = max(held) - min(held), max(requests) - min(requests)
    ratio = max(held) * len(held) / sum(held)
    print(
        f"ResNet-50, 10 PSs, {name}: sizes differ by {sizes / 1e6:.2f} million, requests by"
        f" {counts}, {sum(requests)} requests, largest / mean {ratio:.3f}"
    )


def _resnet_50() -> list[int]:
    """Sizes of the 157 arrays of the symbol `resnet` of MXNet's examples, in its order."""
    sizes = [3, 3, 64 * 3 * 49, 64, 64]
    width = 64
    for filters, units in ((256, 3), (512, 4), (1024, 6), (2048, 3)):
        for unit in range(units):
            inner = filters // 4
            sizes += [width, width, inner * width, inner, inner, inner * inner * 9, inner, inner]
            sizes += [filters * inner] + ([filters * width] if unit == 0 else [])
            width = filters
    return [*sizes, 2048, 2048, 2048 * 1000, 1000]


if __name__ == "__main__":
    main()
