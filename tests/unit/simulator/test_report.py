"""The page on a comparison: its figures, its curves, and that it loads nothing."""

import re
from xml.etree import ElementTree

import pytest

from optimus.simulator.engine import simulate
from optimus.simulator.files import FILES
from optimus.simulator.forecasts import TrueForecasts
from optimus.simulator.plots import PICTURES
from optimus.simulator.presets import preset
from optimus.simulator.report import report_page
from optimus.simulator.results import Simulation
from optimus.simulator.summary import summarise, verdict
from tests.unit.simulator.workloads import JobParameters, job, nodes, workload


@pytest.fixture(scope="module")
def found() -> list[Simulation]:
    jobs = [job("a", JobParameters(noise=0.1)), job("b", JobParameters(arrives=5, epochs=30))]
    shared = workload(*jobs, on=nodes(1, cpu=2))
    return [
        simulate(shared, preset(policy, TrueForecasts()), seed)
        for policy in ("optimus", "fifo")
        for seed in (1, 2, 3)
    ]


def test_the_table_has_the_figures_of_every_policy(found: list[Simulation]) -> None:
    page = report_page(found)
    for each in summarise(found):
        assert f"</i>{each.policy}</td>" in page
        mean = each.figures["p95_jct_seconds"].mean
        assert mean is not None
        assert f"<td>{mean:,.0f}<small>" in page


def test_every_policy_has_a_curve_in_each_chart(found: list[Simulation]) -> None:
    charts = re.findall(r"<svg .*?</svg>", report_page(found))
    assert len(charts) == 2
    for chart in charts:
        root = ElementTree.fromstring(chart)
        assert len(root.findall("path[@class='curve']")) == 2
        for number in re.findall(r"-?[\d.]+", root.findall("path[@class='curve']")[0].get("d", "")):
            assert 0 <= float(number) <= 520


def test_it_loads_nothing_and_has_both_modes(found: list[Simulation]) -> None:
    page = report_page(found)
    assert not re.search(r"https?:|src=|@import|<script|<link", page)
    assert "prefers-color-scheme:dark" in page


def test_it_begins_with_the_verdict_and_links_what_lies_beside_it(
    found: list[Simulation],
) -> None:
    page = report_page(found)
    assert page.index(verdict(found)) < page.index("<table>")
    for name in (*FILES, *PICTURES):
        assert f'href="{name}"' in page


def test_names_are_escaped(found: list[Simulation]) -> None:
    shared = workload(job("a"))
    named = type(shared)("<b>mine</b>", shared.jobs, shared.nodes)
    page = report_page([simulate(named, preset("fifo"), 1)])
    assert "<b>" not in page
    assert "&lt;b&gt;mine" in page


def test_a_job_that_waits_for_another_has_the_larger_finish_time_ratio() -> None:
    """Both train for 100 s at one worker; the second waits until the first has ended."""
    jobs = [job("a"), job("b", JobParameters(arrives=1))]
    found = simulate(workload(*jobs, on=nodes(1, cpu=2)), preset("optimus", TrueForecasts()), 1)
    a, b = found.jobs
    assert (a.alone_seconds, b.alone_seconds) == (100, 100)
    assert a.finish_time_ratio == pytest.approx(1)
    assert b.finish_time_ratio == pytest.approx(1.99)
    assert (a.stopped_seconds, b.stopped_seconds) == pytest.approx((0, 0))
    figures = summarise([found])[0].figures
    assert figures["finish_time_ratio"].mean == pytest.approx(1.495)
    assert figures["worst_finish_time_ratio"].mean == pytest.approx(1.99)
    # Jain's index of 1 and 1 / 1.99
    assert figures["fairness"].mean == pytest.approx(0.9013, abs=1e-4)
