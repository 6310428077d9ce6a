"""``python -m optimus_trainer.balance``: what it makes of a model's shapes."""

import pytest

from optimus_trainer.balance import by_hash, cut_anywhere, cut_by_rows, in_turn, report, unevenness

EMBEDDING = [(16,), (8, 16), (60, 8), (8,)]
"""A model that is mostly one array."""


def test_a_model_that_is_mostly_one_array() -> None:
    default = [unevenness(in_turn(EMBEDDING, ps), ps) for ps in (2, 3, 4)]
    assert [round(each, 2) for each in default] == [1.57, 2.28, 3.04]
    for rule in (cut_by_rows, cut_anywhere):
        assert max(unevenness(rule(EMBEDDING, ps), ps) for ps in (2, 3, 4)) <= 1.06


def test_what_mxnet_cuts_and_hashes() -> None:
    # A million values are cut; keys 1 and 2 go to servers 1 and 0.
    parts = list(by_hash([(250_000, 4), (240_000, 4), (10, 4)], 2))
    assert parts == [(500_000, 0), (500_000, 1), (960_000, 1), (40, 0)]


@pytest.mark.parametrize("of_mxnet", [False, True])
def test_the_report_names_the_annotation_of_a_job_that_keeps_the_default(of_mxnet: bool) -> None:
    *rows, worth, annotation = report(EMBEDDING, of_mxnet, range(2, 5))
    assert [row.split()[0] for row in rows] == ["PS", "2", "3", "4"]
    assert worth.startswith("worth having by default: 2")
    assert annotation.startswith('a job that keeps the default: optimus.dl/ps-unevenness: "1, ')
    assert annotation.count(",") == 3
