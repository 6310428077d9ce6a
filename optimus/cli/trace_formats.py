"""Readers for the job traces that Gavel has published, and that DL2's program draws.

Neither has everything that a job here has: what a form lacks is said at its reader."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from optimus.cli.command import BadInput
from optimus.cli.csv_table import CsvRow, read_lines
from optimus.cli.job_trace import (
    TYPES,
    check_duration,
    check_names,
    read_job_trace,
)
from optimus.jobs import CountBounds, Counts, JobKey
from optimus.resources import CPU, NONE, Resources
from optimus.simulator.ground_truth.job_types import JobType
from optimus.simulator.results import GPU
from optimus.simulator.trace_workload import SubmittedJob

_LONGEST_SECONDS: Final = 1e9
_MOST_REPLICAS: Final = 10_000
_MOST_TIMES: Final = 1e6

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
_GAVEL_SPEEDS: Final = "simulation_throughputs.json"
_GAVEL_GPU: Final = "v100"
"""Its durations are those on this kind of GPU."""
_GAVEL_APART: Final = "_unconsolidated"
"""Speeds of workers that are spread over servers; the others are those of its simulator."""

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


def read_gavel(file: Path, throughputs: Path | None = None) -> tuple[SubmittedJob, ...]:
    """A trace of stanford-futuredata/gavel: tab-separated, no header, a job a line.

    Its steps are seconds only together with its ``simulation_throughputs.json``, which has the
    speed on each kind of GPU and lies beside the trace where no other file is named. It has no PSs,
    goals and requests but GPUs; the scale factor is the number of workers, each on one GPU, and
    stays. The priority weight is the job's. An SLO above 0 is a deadline: so many times the job's
    own duration on a V100 after its arrival. Its older traces have 7 columns, without weight and
    SLO."""
    speeds = _gavel_speeds(throughputs or file.with_name(_GAVEL_SPEEDS))
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


FORMS: Final[Mapping[str, Callable[[Path], tuple[SubmittedJob, ...]]]] = MappingProxyType(
    {"general": read_job_trace, "gavel": read_gavel, "dl2": read_dl2}
)
"""Value of ``--trace-format`` -> the reader of the file."""


def read_form(form: str, file: Path) -> tuple[SubmittedJob, ...]:
    """The jobs of a trace in one of the forms, each once; raises ``BadInput``."""
    jobs = FORMS[form](file)
    check_names(file, jobs)
    return jobs
