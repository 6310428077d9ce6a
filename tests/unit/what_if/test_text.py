"""What the page says of other counts of a job that nobody manages."""

from dataclasses import replace

from optimus.jobs import Counts
from optimus.models.forecast import TimeLeft
from optimus.resources import Resources
from optimus.what_if.advice import Advice, Alternative
from optimus.what_if.text import advice_sentences
from tests.unit.autoscaler.web.sample_cluster import job_of, training


def test_other_counts_are_told_with_what_they_gain_and_cost() -> None:
    job = replace(job_of(0, 0), counts=Counts(2, 4))
    advice = Advice(
        job=job, progress=training(0, 8), steps_per_second=1.0, measured_seconds=60.0, seen_counts=3
    )
    assert list(advice_sentences(advice)) == ["No other size is better with a probability of 65 %."]
    more = Alternative(Counts(3, 8), TimeLeft(1.2, 1.6, 1.9), 0.93, Resources(cpu=16_000))
    less = Alternative(
        Counts(1, 3), TimeLeft(0.9, 0.97, 1.0), 0.8, Resources({"nvidia.com/gpu": -1})
    )
    found = replace(advice, no_end="its log declares none", larger=more, leaner=less)
    assert list(advice_sentences(found)) == [
        "Its end is not known: its log declares none.",
        (
            "3 PS + 8 workers, with more capacity: 1.6 times as fast (80 %: 1.2 to 1.9), sooner"
            " with 93 %."
        ),
        "1 PS + 3 workers: at most 5 % later, and frees 1 nvidia.com/gpu.",
    ]
