"""Learning to allocate as DL2 does, in drawn settings: a first measurement.

    python -m benchmarks.dl2_learning [--taught 15] [--steps 200] [--traces 30]

Speeds, work and arrivals are drawn here (``drawn``), after the sizes of DL2's setting ``testbed``:
10 jobs on 6 nodes of 8 cores and 8 parts of a GPU. The teacher is the rule of ``optimus`` on the
true speeds. Traces that are compared were never trained on.
"""

import argparse
import json
import time

import numpy as np

from optimus.allocation.scorer import Scorer
from optimus.simulator.gym import FEATURES, MOST, Counted, Sampler, Slot, SlotTrace, run, start
from optimus.simulator.learning import Adam, improve, taught, warm_up


def drawn(seed: int, jobs: int = 10, nodes: int = 6) -> SlotTrace:
    """A trace whose jobs come within six slots."""
    draw = np.random.default_rng(seed)
    ps, workers = np.arange(MOST + 1)[:, None], np.arange(MOST + 1)[None, :]
    speed, work = np.zeros((jobs, MOST + 1, MOST + 1)), np.zeros(jobs)
    task = np.zeros((jobs, 2, 2))
    for job in range(jobs):
        compute, fixed, transfer, per_worker, per_ps = draw.uniform(
            [2, 0.05, 0.1, 0.005, 0.005], [10, 0.4, 0.6, 0.05, 0.05]
        )
        seconds = compute / np.maximum(workers, 1) + fixed
        seconds = seconds + transfer * workers / np.maximum(ps, 1)
        seconds = seconds + per_worker * workers + per_ps * ps
        speed[job] = np.where((ps > 0) & (workers > 0), 1 / seconds, 0.0)
        work[job] = draw.uniform(0.5, 4) * speed[job].max()
        task[job] = [(2, 0), (2, 4) if draw.random() < 0.75 else (2, 0)]
    arrives = np.sort(draw.integers(0, 6, jobs))
    return SlotTrace(arrives - arrives[0], work, speed, task, np.array([8.0 * nodes, 8.0 * nodes]))


def greedy(slot: Slot, ahead: int = 4) -> tuple[Counted, Counted]:
    """The teacher: the rule of ``optimus`` on the true speeds, one episode: log of the time saved
    per dominant share, blocks included."""
    ps, workers = start(slot)
    trace, free = slot.trace, slot.free(ps, workers)[0]
    blocks = [(a, b) for a in range(ahead + 1) for b in range(ahead + 1) if a + b]
    share = {
        block: ((block[0] * trace.task[:, 0] + block[1] * trace.task[:, 1]) / trace.capacity).max(1)
        for block in blocks
    }
    jobs = np.flatnonzero(ps[0] > 0)
    while True:
        best, chosen = 0.0, None
        for job in jobs.tolist():
            now = trace.speed[job, ps[0, job], workers[0, job]]
            for a, b in blocks:
                p, w = ps[0, job] + a, workers[0, job] + b
                if max(p, w) > MOST:
                    continue
                after = trace.speed[job, p, w]
                if after <= now * 1.005:
                    continue
                gain = np.log(after / now) / share[a, b][job]
                cost = a * trace.task[job, 0] + b * trace.task[job, 1]
                if gain > best and (cost <= free + 1e-9).all():
                    best, chosen = gain, (job, a, b, cost)
        if chosen is None:
            return ps, workers
        job, a, b, cost = chosen
        ps[0, job] += a
        workers[0, job] += b
        free = free - cost


def compared(scorer: Scorer, traces: int) -> dict[str, float]:
    """The mean completion time divided by the teacher's, trace by trace; with a 95 % interval."""
    found = [
        (run(drawn(seed), Sampler(scorer))[0], run(drawn(seed), greedy)[0])
        for seed in range(traces)
    ]
    ratio = np.array([mine / theirs for mine, theirs in found])
    spread = 1.96 * float(ratio.std(ddof=1)) / traces**0.5
    return {"ratio": float(ratio.mean()), "plus or minus": spread, "worst": float(ratio.max())}


def main() -> None:
    """Print what the warm-up and what the policy gradient have reached."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--taught", type=int, default=15, help="traces of the warm-up")
    parser.add_argument("--steps", type=int, default=200, help="steps of the policy gradient")
    parser.add_argument("--traces", type=int, default=30, help="traces that are compared")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    draw, begin = np.random.default_rng(options.seed), time.process_time()
    examples = taught((drawn(10_000 + each) for each in range(options.taught)), greedy, draw)
    scorer = warm_up(Scorer.drawn(FEATURES, 2, options.seed), examples, Adam(3e-3), draw)
    said = {"stage": "warm-up", "CPU s": time.process_time() - begin}
    print(json.dumps(said | compared(scorer, options.traces)), flush=True)
    adam = Adam(1e-3)
    for step in range(options.steps):
        scorer, _ = improve(scorer, drawn(20_000 + step), adam, draw)
    said = {"stage": "policy gradient", "CPU s": time.process_time() - begin}
    print(json.dumps(said | compared(scorer, options.traces)), flush=True)


if __name__ == "__main__":
    main()
