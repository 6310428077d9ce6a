"""Readers for the job traces that Philly, Gavel, Pollux and DL2 have published.

None of them has everything that a job here has. Assumed where a form lacks it: a job has one worker
for each GPU or replica and as many PSs; a replica requests what its type does (3 and 2 cores), a
worker one GPU beside; workers train synchronously. What each form lacks more is said at its reader.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from optimus.cli.command import BadInput
from optimus.cli.csv_table import CsvRow, read_lines, read_table, split_rows
from optimus.cli.job_trace import (
    TYPES,
    check_duration,
    check_names,
    read_job_trace,
    seconds_of,
)
from optimus.jobs import CountBounds, Counts, JobKey
from optimus.resources import CPU, NONE, Resources
from optimus.simulator.ground_truth.job_types import PS, WORKER, JobType
from optimus.simulator.results import GPU
from optimus.simulator.trace_workload import SubmittedJob

_GPU_WORKER: Final = WORKER + Resources({GPU: 1})
_LONGEST_SECONDS: Final = 1e9
_MOST_REPLICAS: Final = 10_000
_MOST_TIMES: Final = 1e6
_LEAST_SECONDS: Final = 1.0
"""Attempts that are logged as shorter are taken to last so long."""

_GAVEL_TYPES: Final = {
    "resnet-18": "resnext-110",
    "resnet-50": "resnet-50",
    "lm": "rnn-lstm-dropout",
    "transformer": "seq2seq",
    "recommendation": "dssm",
    "cyclegan": "inception-bn",
    "a3c": "cnn-rand",
}
"""Gavel's model family -> the type that is nearest to it in size and kind."""
_GAVEL_GPU: Final = "v100"
"""Its durations are those on this kind of GPU."""
_GAVEL_APART: Final = "_unconsolidated"
"""Speeds of workers that are spread over servers; the others are those of its simulator."""

_POLLUX: Final[Mapping[str, tuple[str, float]]] = MappingProxyType(
    {
        "cifar10": ("resnext-110", 0.5),
        "ncf": ("dssm", 0.5),
        "bert": ("seq2seq", 3.2),
        "deepspeech2": ("deepspeech2", 3.2),
        "yolov3": ("inception-bn", 32.0),
        "imagenet": ("resnet-50", 320.0),
    }
)
"""Application -> the nearest type, and GPU hours: the middle of its size class (Pollux, section
5.1: small below 1, medium below 10, large below 100, extra-large below 1000)."""

_DL2_TYPES: Final = {
    "resnet-50": "resnet-50",
    "vgg-16": "resnet-50",
    "resnext-110": "resnext-110",
    "inception-bn": "inception-bn",
    "seq2seq": "seq2seq",
    "cnn-text-classification": "cnn-rand",
    "dssm": "dssm",
    "wlm": "rnn-lstm-dropout",
}
_DL2_SLOT_SECONDS: Final = 1200.0
_DL2_GPU_SLOTS: Final = 4
"""Slots of one GPU; one core is one slot."""
_DL2_MOST: Final = Counts(16, 16)
"""The most PSs and workers that its schedulers give a job."""
_DL2_NAMES: Final = (
    *("id", "model", "arrv_time", "num_epochs", "epoch_size", "local_comp_time"),
    *("model_size", "inter_bw", "resr_ps", "resr_worker"),
)


def read_philly(file: Path) -> tuple[SubmittedJob, ...]:
    """``cluster_job_log`` of msr-fiddle/philly-traces: a JSON list of jobs with their attempts.

    It has no model, no goal and no requests but GPUs: the type is drawn, and the job does as much
    work as all its attempts took together, whatever its ``status``. A job that was never started is
    left out. ``vc`` is its namespace; times are from the first submission on."""
    listed = _json(file, "".join(read_lines(file)), None)
    if not isinstance(listed, list):
        raise BadInput(file, "a JSON list of jobs is expected, like Philly's cluster_job_log")
    found = [
        job for number, each in enumerate(listed, 1) for job in _philly_job(file, number, each)
    ]
    if not found:
        raise BadInput(file, "at least one job with an attempt that ended is expected")
    first = min(job.submit_seconds for job in found)
    return tuple(replace(job, submit_seconds=job.submit_seconds - first) for job in found)


def _philly_job(file: Path, number: int, each: Any) -> Iterator[SubmittedJob]:
    try:
        attempts = [_attempt(attempt) for attempt in each["attempts"]]
        ran = [attempt for attempt in attempts if attempt is not None]
        if not ran:
            return
        name, namespace = str(each["jobid"]), str(each["vc"])
        submitted = seconds_of(str(each["submitted_time"]))
        if submitted is None:
            raise ValueError(each["submitted_time"])
    except (KeyError, TypeError, ValueError) as problem:
        expected = "jobid, vc, submitted_time and attempts with start_time, end_time and detail"
        raise BadInput(file, f"job {number}: {expected} are expected: {problem!a}") from None
    gpus, seconds = ran[-1][0], sum(each for _, each in ran)
    yield SubmittedJob(
        key=JobKey(namespace, name),
        submit_seconds=submitted,
        counts=Counts(gpus, gpus),
        ps=PS,
        worker=_GPU_WORKER,
        duration_seconds=max(seconds, _LEAST_SECONDS),
    )


def _attempt(attempt: Any) -> tuple[int, float] | None:
    """GPUs and seconds of an attempt; ``None`` for one without an end or without a GPU."""
    begin, end = (seconds_of(str(attempt[name])) for name in ("start_time", "end_time"))
    gpus = sum(len(server["gpus"]) for server in attempt["detail"])
    return (gpus, max(end - begin, 0.0)) if begin is not None and end is not None and gpus else None


def read_gavel(file: Path, throughputs: Path | None) -> tuple[SubmittedJob, ...]:
    """A trace of stanford-futuredata/gavel: tab-separated, no header, a job a line.

    Its steps are seconds only together with its ``simulation_throughputs.json``, which has the
    speed on each kind of GPU. It has no PSs, goals and requests but GPUs; the scale factor is the
    number of workers, each on one GPU, and stays. The priority weight is the job's. An SLO above 0
    is a deadline: so many times the job's own duration on a V100 after its arrival. Its older
    traces have 7 columns, without weight and SLO."""
    if throughputs is None:
        raise BadInput(file, "a trace of Gavel needs --gavel-throughputs: its own file of speeds")
    speeds = _gavel_speeds(throughputs)
    found = [
        _gavel_job(CsvRow(file, number, {}), line.rstrip("\r\n").split("\t"), speeds)
        for number, line in enumerate(read_lines(file), start=1)
        if line.strip()
    ]
    if not found:
        raise BadInput(file, "at least one job is expected")
    return tuple(found)


def _gavel_speeds(file: Path) -> Mapping[str, Mapping[str, Any]]:
    table = _json(file, "".join(read_lines(file)), None)
    of_kinds = table.values() if isinstance(table, dict) else ()
    if not of_kinds or _GAVEL_GPU not in table or not all(isinstance(x, dict) for x in of_kinds):
        raise BadInput(file, f"a JSON object with the speeds on {_GAVEL_GPU!r} is expected")
    return {kind: each for kind, each in table.items() if not kind.endswith(_GAVEL_APART)}


def _gavel_job(
    row: CsvRow, cells: list[str], speeds: Mapping[str, Mapping[str, Any]]
) -> SubmittedJob:
    if len(cells) not in (7, 10):
        raise row.error(f"10 values between tabs are expected, or 7, not {len(cells)}")
    if len(cells) == 7:
        model, *_, steps_text, arrival, scale_text = cells
        weight_text = slo_text = ""
    else:
        model, *_, steps_text, scale_text, weight_text, slo_text, arrival = cells
    steps = row.number("total steps", 1, 1e12, steps_text)
    workers = int(row.number("scale factor", 1, _MOST_REPLICAS, scale_text))
    slo = row.number("SLO", -_MOST_TIMES, _MOST_TIMES, slo_text or "0")
    at = row.number("arrival", 0, _LONGEST_SECONDS, arrival)
    by_kind = {kind: _gavel_speed(of, f"('{model}', {workers})") for kind, of in speeds.items()}
    speed = by_kind[_GAVEL_GPU]
    if speed <= 0:
        raise row.error(f"the throughputs have no speed of {model!a} with {workers} workers")
    check_duration(row, steps / speed)
    family = model.partition(" (")[0].lower()
    return SubmittedJob(
        key=JobKey("gavel", f"job-{row.line - 1:05}"),
        submit_seconds=at,
        job_type=_type(row, family, _GAVEL_TYPES),
        counts=Counts(0, workers),
        bounds=CountBounds(0, 0, workers, workers),
        ps=NONE,
        worker=Resources({GPU: 1}),
        steps=steps,
        steps_per_second=speed,
        kind_speeds=by_kind,
        finish_by_seconds=at + slo * steps / speed if slo > 0 else None,
        weight=row.number("priority weight", 1e-6, _MOST_TIMES, weight_text or "1"),
    )


def _gavel_speed(of_kind: Mapping[str, Any], job: str) -> float:
    """Alone on its nodes; 0 where there is none."""
    alone = of_kind.get(job, {})
    speed = alone.get("null") if isinstance(alone, dict) else None
    return float(speed) if isinstance(speed, int | float) and speed > 0 else 0.0


def read_pollux(file: Path) -> tuple[SubmittedJob, ...]:
    """A workload of the simulator of petuum/adaptdl: ``name,time,application,num_replicas,...``.

    It has neither durations nor requests. A job takes the GPU hours of its application's size class
    at its replicas, each of which is a worker with one GPU. ``batch_size`` is not read."""
    needed = ("name", "time", "application", "num_replicas")
    rows = read_table(file, split_rows(file, read_lines(file), strict=True), needed)
    found = tuple(map(_pollux_job, rows))
    if not found:
        raise BadInput(file, "at least one job is expected below the header")
    return found


def _pollux_job(row: CsvRow) -> SubmittedJob:
    application = row.choice("application", {name: name for name in _POLLUX})
    kind, hours = _POLLUX[application]
    replicas = int(row.number("num_replicas", 1, _MOST_REPLICAS))
    return SubmittedJob(
        key=JobKey("pollux", row.cells["name"]),
        submit_seconds=row.number("time", 0, _LONGEST_SECONDS),
        job_type=TYPES[kind],
        counts=Counts(replicas, replicas),
        ps=PS,
        worker=_GPU_WORKER,
        duration_seconds=hours * 3600 / replicas,
        workload=application,
    )


def read_dl2(file: Path) -> tuple[SubmittedJob, ...]:
    """The jobs of pengyanghua/DL2's ``trace.py``, a JSON object a line with its attributes' names.

    DL2 publishes the program that draws its jobs and no file of them. Its jobs begin with 1 + 1 and
    have at most 16 + 16; a slot lasts 1,200 s. The speed at 1 + 1 is one step of computing and of
    sending the model both ways. Its measured speeds at other counts are not read: those of the
    type hold. Memory is not stated and not requested."""
    found = []
    for number, line in enumerate(read_lines(file), start=1):
        if line.strip():
            found.append(_dl2_job(CsvRow(file, number, {}), _json(file, line, number)))
    if not found:
        raise BadInput(file, "at least one job is expected")
    return tuple(found)


def _dl2_job(row: CsvRow, values: Any) -> SubmittedJob:
    if not isinstance(values, dict) or not set(_DL2_NAMES) <= values.keys():
        raise row.error(f"a JSON object with {', '.join(_DL2_NAMES)} is expected")

    def number(name: str) -> float:
        return row.number(name, 0, _LONGEST_SECONDS, str(values[name]))

    bandwidth, epochs = number("inter_bw"), number("num_epochs")
    step_seconds = number("local_comp_time") + 2 * number("model_size") / (bandwidth or 1.0)
    if not (bandwidth and epochs and step_seconds and number("epoch_size")):
        raise row.error("inter_bw, num_epochs, epoch_size and a step's time above 0 are expected")
    check_duration(row, epochs * number("epoch_size") * step_seconds)
    return SubmittedJob(
        key=JobKey("dl2", f"job-{values['id']}"),
        submit_seconds=number("arrv_time") * _DL2_SLOT_SECONDS,
        kind="MXJob",
        job_type=_type(row, str(values["model"]), _DL2_TYPES),
        bounds=CountBounds(max_ps=_DL2_MOST.ps, max_workers=_DL2_MOST.workers),
        ps=_slots(row, values["resr_ps"]),
        worker=_slots(row, values["resr_worker"]),
        steps=epochs * number("epoch_size"),
        steps_per_second=1 / step_seconds,
        workload=str(values["model"]),
    )


def _slots(row: CsvRow, amounts: object) -> Resources:
    """Requests of a replica from its slots of cores and of GPUs."""
    if not isinstance(amounts, list) or len(amounts) != 2:
        raise row.error("two numbers of slots, of cores and of GPUs, are expected")
    cores, gpu_slots = (int(row.number("slots", 0, 1000, str(amount))) for amount in amounts)
    return Resources({CPU: cores * 1000, GPU: -(-gpu_slots // _DL2_GPU_SLOTS)})


def _type(row: CsvRow, name: str, types: Mapping[str, str]) -> JobType:
    if name not in types:
        raise row.error(f"a model among {', '.join(types)} is expected, found {name[:40]!a}")
    return TYPES[types[name]]


def _json(file: Path, text: str, line: int | None) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as problem:
        raise BadInput(file, f"JSON is expected: {problem}", line) from None


Reader = Callable[[Path, Path | None], tuple[SubmittedJob, ...]]
FORMS: Final[Mapping[str, Reader]] = MappingProxyType(
    {
        "general": lambda file, _: read_job_trace(file),
        "philly": lambda file, _: read_philly(file),
        "gavel": read_gavel,
        "pollux": lambda file, _: read_pollux(file),
        "dl2": lambda file, _: read_dl2(file),
    }
)
"""Value of ``--trace-format`` -> the reader of the file; the second is Gavel's file of speeds."""


def read_form(form: str, file: Path, throughputs: Path | None) -> tuple[SubmittedJob, ...]:
    """The jobs of a trace in one of the forms, each once; raises ``BadInput``."""
    jobs = FORMS[form](file, throughputs)
    check_names(file, jobs)
    return jobs
