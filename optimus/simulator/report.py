"""One page on one comparison: figures, completion times and use of the cluster, in one HTML file.

The file loads nothing: styles and pictures (SVG) are within it. It follows the reader's choice of
light or dark."""

import math
from collections.abc import Callable, Sequence
from html import escape
from typing import Final

import numpy as np

from optimus.simulator.files import FILES
from optimus.simulator.plots import PICTURES
from optimus.simulator.results import Simulation, by_policy
from optimus.simulator.summary import Estimate, summarise, verdict

_SECONDS: Final[Callable[[float], str]] = "{:,.0f}".format
_RATIO: Final[Callable[[float], str]] = "{:.2f}".format
_COLUMNS: Final = (
    ("mean JCT", "average_jct_seconds", _SECONDS),
    ("p50", "median_jct_seconds", _SECONDS),
    ("p95", "p95_jct_seconds", _SECONDS),
    ("p99", "p99_jct_seconds", _SECONDS),
    ("makespan", "makespan_seconds", _SECONDS),
    ("finish-time ratio", "finish_time_ratio", _RATIO),
    ("the worst", "worst_finish_time_ratio", _RATIO),
    ("stopped", "stopped_seconds_per_job", _SECONDS),
    ("restarts", "restarts_per_job", _RATIO),
    ("saved", "saved_seconds_per_job", _SECONDS),
)
_WIDTH, _HEIGHT, _LEFT, _BOTTOM = 520, 260, 52, 40
_POINTS: Final = 240
_NOTE: Final = """JCT: seconds from a job's submission to its end. Finish-time ratio: JCT as a
multiple of what the job takes alone on the cluster at the counts of its submission; below 1 it is
faster. Stopped: seconds of a job without training since its first placement. Saved: by how many
seconds a job ended sooner than it would have trained at the counts of its submission, less what it
was stopped for and did again. Small figures are
95 % confidence intervals over seeds (Student's t)."""
_STYLE: Final = """
:root{color-scheme:light dark;--ink:#1d232b;--dim:#5c6773;--line:#d8dee5;--page:#fff;--card:#f6f8fa;
--c0:#0072b2;--c1:#d55e00;--c2:#00805e;--c3:#b4508f;--c4:#a87400;--c5:#2b8cc4;--c6:#333;--c7:#888}
@media(prefers-color-scheme:dark){:root{--ink:#e6eaef;--dim:#9aa5b1;--line:#38424d;--page:#14181d;
--card:#1c2229;--c0:#56b4e9;--c1:#ff8c42;--c2:#2fc79a;--c3:#e39ac6;--c4:#e6b450;--c5:#8fd0f5;
--c6:#ddd;--c7:#999}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:1240px;padding:28px 20px;background:var(--page);
color:var(--ink);font:15px/1.5 system-ui,sans-serif}h1{font-size:22px;margin:0}
h2{font-size:15px;margin:0 0 8px}p{color:var(--dim);margin:4px 0 18px;max-width:80ch}
.verdict{color:var(--ink);font-size:17px}
.scroll{overflow-x:auto}table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
th,td{padding:7px 6px;text-align:right;border-bottom:1px solid var(--line);white-space:nowrap}
th{font-weight:600;font-size:13px;color:var(--dim)}th:first-child,td:first-child{text-align:left}
td small{display:block;color:var(--dim);font-size:11px}
.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(340px,1fr));gap:18px;
margin:22px 0}
figure{margin:0;padding:16px;background:var(--card);border:1px solid var(--line);border-radius:8px}
svg{width:100%;height:auto;display:block}svg text{fill:var(--dim);font-size:12px}
.axis{stroke:var(--line);fill:none}.curve{fill:none;stroke-width:2}
i{display:inline-block;width:14px;height:4px;border-radius:2px;margin-right:8px;
vertical-align:middle}
"""

Curve = tuple[Sequence[float], Sequence[float]]


def report_page(found: Sequence[Simulation]) -> str:
    """The page; each policy has been run with the same seeds."""
    first, seeds = found[0], sorted({each.seed for each in found})
    title = f"{first.workload}: {', '.join(by_policy(found))}"
    head = f"{len(first.jobs):,} jobs, {len(seeds)} seed{'s' if len(seeds) > 1 else ''}"
    head += f" (from {seeds[0]}); ratios are to {first.policy}, seed by seed"
    charts = _jct_chart(found) + _tasks_chart(found)
    links = ", ".join(f'<a href="{name}">{name}</a>' for name in (*FILES, *PICTURES))
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body>"
        f'<h1>{escape(title)}</h1><p class="verdict">{escape(verdict(found))}</p>'
        f"<p>{escape(head)}</p>"
        f'<div class="scroll">{_table(found)}</div>'
        f'<div class="charts">{charts}</div><p>{escape(_NOTE)}</p>'
        f"<p>Beside this page: {links}.</p></body></html>\n"
    )


def _table(found: Sequence[Simulation]) -> str:
    headings = "".join(f"<th>{escape(each)}</th>" for each in ("policy", "ratio"))
    headings += "".join(f"<th>{escape(heading)}</th>" for heading, _, _ in _COLUMNS)
    rows = []
    for number, each in enumerate(summarise(found)):
        name = f'<i style="background:{_colour(number)}"></i>{escape(each.policy)}'
        cells = [_cell(each.ratios["average_jct_seconds"], _RATIO)]
        cells += [_cell(each.figures[figure], form) for _, figure, form in _COLUMNS]
        rows.append(f"<tr><td>{name}</td>{''.join(cells)}</tr>")
    return f"<table><thead><tr>{headings}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def _cell(estimate: Estimate, form: Callable[[float], str]) -> str:
    if estimate.mean is None:
        return "<td>-</td>"
    interval = ""
    if estimate.low is not None and estimate.high is not None:
        interval = f"<small>{form(estimate.low)} to {form(estimate.high)}</small>"
    return f"<td>{form(estimate.mean)}{interval}</td>"


def _jct_chart(found: Sequence[Simulation]) -> str:
    curves = []
    for those in by_policy(found).values():
        parts = np.linspace(0, 1, _POINTS)
        times = [job.completion_seconds / 60 for each in those for job in each.jobs]
        curves.append((np.quantile(times, parts).tolist(), parts.tolist()))
    return _chart("Part of the jobs that end within a time", "minutes since submission", curves)


def _tasks_chart(found: Sequence[Simulation]) -> str:
    end = max(each.makespan_seconds for each in found)
    at = np.linspace(0, end, _POINTS)
    curves = []
    for those in by_policy(found).values():
        tasks = [_tasks_at(each, at.tolist()) for each in those]
        curves.append(((at / 3600).tolist(), np.mean(tasks, axis=0).tolist()))
    return _chart("PSs and workers that hold room", "hours since the first submission", curves)


def _tasks_at(found: Simulation, instants: Sequence[float]) -> list[float]:
    starts = [point.at - found.began_at for point in found.timeline]
    tasks = np.array([0, *(point.tasks for point in found.timeline)])
    return [float(each) for each in tasks[np.searchsorted(starts, instants, side="right")]]


def _chart(title: str, across: str, curves: Sequence[Curve]) -> str:
    right = _round_up(max(max(x) for x, _ in curves))
    top = _round_up(max(max(y) for _, y in curves))
    wide, high = _WIDTH - _LEFT - 12, _HEIGHT - _BOTTOM - 10

    def place(x: float, y: float) -> tuple[float, float]:
        return _LEFT + x / right * wide, 10 + (1 - y / top) * high

    marks = []
    for part in (0.0, 0.25, 0.5, 0.75, 1.0):
        x, y = place(part * right, part * top)
        marks.append(f'<path class="axis" d="M{_LEFT} {y:.1f}H{_WIDTH - 12}"/>')
        marks.append(f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">')
        marks.append(f"{part * top:.3g}</text>")
        marks.append(f'<text x="{x:.1f}" y="{_HEIGHT - 22}" text-anchor="middle">')
        marks.append(f"{part * right:.3g}</text>")
    lines = []
    for number, (xs, ys) in enumerate(curves):
        points = (place(x, y) for x, y in zip(xs, ys, strict=True))
        path = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
        lines.append(f'<path class="curve" style="stroke:{_colour(number)}" d="M{path}"/>')
    label = f'<text x="{_LEFT + wide / 2}" y="{_HEIGHT - 4}" text-anchor="middle">'
    label += f"{escape(across)}</text>"
    box = f'viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(title)}"'
    inside = "".join((*marks, *lines, label))
    return f"<figure><h2>{escape(title)}</h2><svg {box}>{inside}</svg></figure>"


def _round_up(largest: float) -> float:
    """The end of an axis whose quarters are round numbers."""
    if largest <= 0:
        return 1.0
    power: float = 10.0 ** math.floor(math.log10(largest))
    return next(each * power for each in (1, 2, 4, 6, 8, 10) if each * power >= largest)


def _colour(number: int) -> str:
    return f"var(--c{number % 8})"
