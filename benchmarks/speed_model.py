"""Errors of the speed model: ``python -m benchmarks.speed_model [FILE.csv ..] [--clusters 12]``.

On synthetic clusters (``benchmarks.synthetic_clusters``) and on tables of measured speeds, as by
``optimus evaluate speed``: samples chosen one by one, one repeat drawn for each, the model compared
with all other counts. Side by side on the same tables: ours; one knee; and, as the reference of the
ratios, the paper's form (Optimus, section 3.2), with samples chosen for it by the same design, and
with random ones as in the paper. On the samples of ours: a speed in proportion to the workers, that
of the nearest sample, and our model after the first sample alone. Intervals are over families (a
suite and a kind of job). Also the coverage of the stated uncertainty, and CPU seconds for 4,000
fits of 20 samples."""

import argparse
import json
import math
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.synthetic_clusters import KINDS, SyntheticCluster, draw_cluster
from optimus.cli.evaluate_speed import Draw, Score, distinct_draws, evaluate
from optimus.cli.speed_table import SpeedTable, read_speed_tables
from optimus.jobs import Batch, BatchScope, Counts, TrainingMode
from optimus.models.speed.curve import MergedSamples, SpeedForm, SpeedTerms
from optimus.models.speed.model import SpeedModel
from optimus.progress.types import SpeedSample

BUDGETS = (3, 5, 10)
MODELS = {"ours": SpeedForm.BLEND, "one knee": SpeedForm.KNEE, "paper": SpeedForm.PAPER}
RANDOM = "paper, random samples"
LINEAR, NEAREST, FIRST = "linear in the workers", "nearest sample", "first sample alone"
KNOWING = {"within 80 %", "within 90 %", "chosen, knowing the truth"}
"""Figures of tables whose true speeds are known."""
DRAWS = 10
"""Of a measured table's repeats."""
Report = dict[str, dict[str, Any]]
SUITES: Mapping[str, Mapping[str, object]] = {
    "mixed": {},
    "2 % noise": {"noise": 0.02, "repeats": 1},
    "8 % noise, 3 repeats": {"noise": 0.08, "repeats": 3},
    "computation binds": {"transfer": 0.03},
    "network binds": {"transfer": 1.5},
    "workers' links half as fast": {"links": 2.0},
    "workers' links twice as fast": {"links": 0.5},
    "stragglers": {"straggling": 0.15},
    "more PSs and workers cost": {"per_ps": 0.03, "per_worker": 0.03},
    "updates bind": {"update": 2.0},
    "3 cores": {"cores": 3.0},
    "12 x 12": {"side": 12},
    "20 x 20": {"side": 20},
}


@dataclass(frozen=True, slots=True)
class Case:
    """A table, and the true speeds where they are known."""

    table: SpeedTable
    seed: tuple[int, ...]
    cluster: SyntheticCluster | None = None


def main() -> None:
    """Evaluate all suites and files and print the results as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*", type=Path, help="tables mode,ps,workers,speed[,batch]")
    parser.add_argument("--clusters", type=int, default=12, help="of each kind in a suite")
    parser.add_argument("--seed", type=int, default=7, help="of the clusters")
    options = parser.parse_args()
    found: dict[str, object] = {"fits": time_fits()}
    clusters: dict[str, Report] = {}
    tables: dict[str, Report] = {}
    for name, cases in suites(options.clusters, options.seed):
        clusters[name] = report(cases)
        print(f"{name}: done", file=sys.stderr)
    for name, cases in measured_families(options.files).items():
        tables[name] = report(cases)
    found |= {"all clusters": together(clusters)} if clusters else {}
    found |= {"all tables": together(tables)} if tables else {}
    found |= {"clusters": clusters, "tables": tables}
    print(json.dumps(found, indent=1))


def suites(
    clusters: int, seed: int, only: Sequence[str] = tuple(SUITES)
) -> Iterator[tuple[str, list[Case]]]:
    """The suites by name and kind of job."""
    for number, (suite, fixed) in enumerate(SUITES.items()):
        if suite not in only or not clusters:
            continue
        count = max(clusters // 3, 2) if fixed.get("side") else clusters
        for which, kind in enumerate(KINDS):
            seeds = [(seed, number, which, index) for index in range(count)]
            yield f"{suite}: {kind}", [_case(kind, fixed, each) for each in seeds]


def measured_families(files: Sequence[Path]) -> dict[str, list[Case]]:
    """The tables of the files by network and mode, with several draws where runs were repeated."""
    found = {}
    for file in files:
        for table in read_speed_tables(file):
            name = f"{file.stem.removesuffix('_async')}: {table.mode.value}"
            draws = distinct_draws(table, DRAWS)
            found[name] = [Case(table, (draw,)) for draw in range(draws)]
    return found


def _case(kind: str, fixed: Mapping[str, object], seed: tuple[int, ...]) -> Case:
    generator = np.random.default_rng(seed)
    cluster = draw_cluster(kind, generator, **fixed)  # type: ignore[arg-type]  # the suites name SyntheticCluster's own fields
    return Case(SpeedTable(cluster.mode, cluster.table(generator), cluster.batch), seed, cluster)


def report(cases: Sequence[Case]) -> Report:
    """Errors, choices and coverage by number of samples; ratios are of the paper's form."""
    answer: Report = {}
    found = {name: [_evaluated(case, form) for case in cases] for name, form in MODELS.items()}
    for budget in BUDGETS:
        scores = {
            name: _average([Score.of([draws[budget]]) for draws in each])
            for name, each in found.items()
        }
        scores[RANDOM] = _average([Score.of(list(_at_random(case, budget))) for case in cases])
        ours = [(case, draws[budget]) for case, draws in zip(cases, found["ours"], strict=True)]
        for name, guess in GUESSES.items():
            scores[name] = _average([Score.of([guess(case, draw)]) for case, draw in ours])
        entry: dict[str, Any] = {"tables": len(cases), **scores}
        for reference in ("paper", RANDOM):
            ratio = scores["ours"]["mean"] / scores[reference]["mean"]
            entry[f"ours / {reference}"] = round(ratio, 3)
        known = [(case, draw) for case, draw in ours if case.cluster is not None]
        if known:
            entry["chosen, knowing the truth"] = _mean((_best_choice(case) for case, _ in known), 3)
            entry |= _coverage(known)
        answer[str(budget)] = entry
    return answer


def together(reports: Mapping[str, Report]) -> Report:
    """The mean over suites, each of the same weight; ratios of the means."""
    answer: Report = {}
    for budget in map(str, BUDGETS):
        entries = [report[budget] for report in reports.values()]
        means = {
            name: {key: _mean(each[name][key] for each in entries) for key in entries[0][name]}
            for name in (*MODELS, RANDOM, *GUESSES)
        }
        entry: dict[str, Any] = {"tables": sum(each["tables"] for each in entries), **means}
        for key in ("mean", "chosen_ratio"):
            values = [each["ours"][key] for each in entries]
            half = 1.96 * np.std(values, ddof=1) / math.sqrt(len(values)) if values[1:] else 0.0
            entry[f"{key}, 95 % over families"] = round(half, 4)
        entry["worst chosen"] = {
            name: min(each[name]["chosen_ratio"] for each in entries) for name in means
        }
        for key in KNOWING & entries[0].keys():
            entry[key] = _mean((each[key] for each in entries), 3)
        for reference in ("paper", RANDOM):
            ratio = means["ours"]["mean"] / means[reference]["mean"]
            entry[f"ours / {reference}"] = round(ratio, 3)
        answer[budget] = entry
    return answer


def _linear(_: Case, draw: Draw) -> Draw:
    """The speed of the first sample times the workers, as far as a worker's speed adds up."""
    first = draw.counts.index(draw.samples[0])
    workers = np.array(draw.counts)[:, 1] / draw.examples
    return replace(draw, predicted=draw.measured[first] * workers / workers[first])


def _nearest(_: Case, draw: Draw) -> Draw:
    """The speed of the nearest sample, in doublings of both counts."""
    at = [draw.counts.index(each) for each in draw.samples]
    logs = np.log2(np.array(draw.counts))
    apart = np.linalg.norm(logs[:, np.newaxis] - logs[at], axis=-1)
    return replace(draw, predicted=draw.measured[at][apart.argmin(axis=1)])


def _first(case: Case, draw: Draw) -> Draw:
    """Our model after the first sample alone: the hypotheses."""
    counts = draw.samples[0]
    sample = _sample(counts, float(draw.measured[draw.counts.index(counts)]))
    terms = SpeedTerms(case.table.mode, case.table.batch)
    model = SpeedModel.of(MergedSamples.of([sample]), terms)
    return replace(draw, predicted=model.steps_per_second(*np.array(draw.counts).T))


GUESSES = {LINEAR: _linear, NEAREST: _nearest, FIRST: _first}


def _average(scores: Sequence[Score]) -> dict[str, float]:
    return {
        "mean": _mean(score.mean for score in scores if score.mean is not None),
        "p90": _mean(score.p90 for score in scores if score.p90 is not None),
        "chosen_ratio": _mean(score.chosen_ratio for score in scores),
    }


def _mean(values: Iterable[float], digits: int = 4) -> float:
    return round(float(np.mean(list(values))), digits)


def _evaluated(case: Case, form: SpeedForm) -> dict[int, Draw]:
    """By number of samples: those of a smaller number are the first of a larger one."""
    generator = np.random.default_rng([1, *case.seed])
    draws = evaluate(case.table, BUDGETS, form, generator)
    pairs = zip(BUDGETS, draws, strict=True)
    return {budget: draw for budget, draw in pairs if isinstance(draw, Draw)}


def _at_random(case: Case, budget: int, draws: int = 10) -> Iterator[Draw]:
    """The paper's form on random samples, (1, 1) first; drawn again where not identified."""
    generator = np.random.default_rng([2, *case.seed])
    counts = tuple(case.table.repeats)
    ps, workers = np.array(counts).T
    measured = np.array([np.mean(runs) for runs in case.table.repeats.values()])
    made = 0
    while made < draws:
        others = generator.permutation(np.arange(1, len(counts)))[: budget - 1]
        chosen = [counts[index] for index in (0, *others.tolist())]
        repeats = case.table.repeats
        samples = [_sample(each, float(generator.choice(repeats[each]))) for each in chosen]
        model = SpeedModel.fit(samples, case.table.mode, case.table.batch, SpeedForm.PAPER)
        if isinstance(model, SpeedModel):
            predicted = model.steps_per_second(ps, workers)
            examples = model.terms.examples(workers)
            yield Draw(tuple(chosen), counts, predicted, measured, examples)
            made += 1


def _best_choice(case: Case) -> float:
    """Measured speed at the truly fastest counts / best measured speed: the limit by noise."""
    assert case.cluster is not None
    measured = {counts: float(np.mean(runs)) for counts, runs in case.table.repeats.items()}
    return measured[max(measured, key=case.cluster.speed)] / max(measured.values())


def _coverage(draws: Sequence[tuple[Case, Draw]]) -> dict[str, float]:
    """The coverage of 1.28 (80 %) and 1.64 (90 %) of the stated standard deviations."""
    found = np.concatenate([np.abs(_deviations(case, draw)) for case, draw in draws])
    return {
        f"within {part} %": round(float(np.mean(found < times)), 3)
        for part, times in ((80, 1.28), (90, 1.64))
    }


def _deviations(case: Case, draw: Draw) -> NDArray[np.float64]:
    """(log predicted - log true) / stated standard deviation, at all counts not sampled."""
    assert case.cluster is not None
    generator = np.random.default_rng([1, *case.seed])
    drawn = {counts: float(generator.choice(runs)) for counts, runs in case.table.repeats.items()}
    samples = [_sample(counts, drawn[counts]) for counts in draw.samples]
    model = SpeedModel.fit(samples, case.table.mode, case.table.batch)
    assert isinstance(model, SpeedModel)
    hidden = [each for each in draw.counts if each not in draw.samples]
    ps, workers = np.array(hidden).T
    true = np.array([case.cluster.speed(counts) for counts in hidden])
    logs = np.log(model.steps_per_second(ps, workers) / true)
    return np.asarray(logs / model.uncertainty(ps, workers))


def _sample(counts: Counts, speed: float) -> SpeedSample:
    return SpeedSample(counts, speed, 60.0, 0.0)


def time_fits(jobs: int = 4000, samples: int = 20) -> dict[str, float]:
    """CPU seconds of fitting every job once, and of predicting 8 x 8 pairs of counts each."""
    generator = np.random.default_rng(0)
    clusters = [draw_cluster("sync", generator, repeats=1) for _ in range(40)]
    sets = []
    for cluster in clusters:
        table = cluster.table(generator)
        chosen = generator.permutation(len(table))[:samples]
        counts = list(table)
        sets.append([_sample(counts[index], table[counts[index]][0]) for index in chosen])
    batch = Batch(64, BatchScope.JOB)
    grid = np.arange(1, 9)[:, None], np.arange(1, 9)[None, :]
    start = time.process_time()
    each_job = (sets[job % len(sets)] for job in range(jobs))
    models = [SpeedModel.fit(samples_of, TrainingMode.SYNC, batch) for samples_of in each_job]
    fitted = time.process_time()
    for model in models:
        assert isinstance(model, SpeedModel)
        model.steps_per_second(*grid)
    return {
        "jobs": jobs,
        "samples": samples,
        "fit_cpu_seconds": round(fitted - start, 2),
        "query_cpu_seconds": round(time.process_time() - fitted, 2),
    }


if __name__ == "__main__":
    main()
