"""Deals of an epoch's data: no example is lost or trained twice, whatever workers do."""

import json
from collections import Counter
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimus_trainer.shards import Deal, Piece
from tests.cases import cases

Examples = Counter[tuple[str, int]]


def examples(pieces: Iterable[Piece]) -> Examples:
    return Counter((piece.chunk, at) for piece in pieces for at in range(piece.begin, piece.end))


def left(saved: str) -> Examples:
    return examples(Piece(*piece) for piece in json.loads(saved)["left"])


chunks = st.dictionaries(
    st.text("abc", min_size=1, max_size=3), st.integers(1, 60), min_size=1, max_size=6
)
runs = st.lists(
    st.tuples(st.integers(1, 7), st.integers(0, 30), st.integers(0, 5)), min_size=1, max_size=8
)
"""Workers, steps until the last checkpoint, and steps that are lost after it."""


@given(chunks, st.integers(7, 40), runs, st.integers(0, 3))
def test_each_example_of_an_epoch_is_trained_once(
    data: dict[str, int], batch: int, runs: list[tuple[int, int, int]], seed: int
) -> None:
    """In the model that the checkpoints hold: what comes after the last one is not in it."""
    trained, saved = Examples(), None
    for workers, kept, lost in runs:
        deal, done = Deal.begin(data, batch, workers, seed, saved), 0
        rows = [list(deal.batches(worker)) for worker in range(workers)]
        for step in range(kept + lost):
            if done == deal.steps:
                deal, done = deal.next(), 0
                rows = [list(deal.batches(worker)) for worker in range(workers)]
            of_step = [row[done] for row in rows]
            assert sum(sum(examples(pieces).values()) for pieces in of_step) == batch
            done += 1
            if step < kept:
                trained += sum(map(examples, of_step), Examples())
                saved = deal.saved(done)
        if saved is not None:
            epoch = json.loads(saved)["epoch"]
            whole = examples(Piece(chunk, 0, size) for chunk, size in data.items())
            assert trained + left(saved) == Examples(dict.fromkeys(whole, epoch + 1))


@given(chunks, st.integers(1, 40), st.integers(1, 7))
def test_batches_are_what_a_worker_reads_and_differ_by_at_most_one(
    data: dict[str, int], batch: int, workers: int
) -> None:
    workers = min(workers, batch)
    deal = Deal.begin(data, batch, workers)
    for worker in range(workers):
        batches = list(deal.batches(worker))
        assert len(batches) == deal.steps
        assert {sum(piece.examples for piece in each) for each in batches} == {
            deal.batch_of(worker)
        }
        assert sum(map(examples, batches), Examples()) == examples(deal.pieces(worker))
    sizes = [deal.batch_of(worker) for worker in range(workers)]
    assert sum(sizes) == batch
    assert max(sizes) - min(sizes) <= 1


@given(
    st.lists(st.tuples(st.integers(1, 6), st.integers(1, 20)), min_size=1, max_size=6), st.data()
)
def test_workers_at_their_own_pace_train_about_evenly(
    runs: list[tuple[int, int]], data: st.DataObject
) -> None:
    """The one that saves counts the job's steps; another worker may be two batches from that."""
    size, batch, slack = {"a": 200, "b": 160}, 5, 2
    trained, saved = Examples(), None
    for workers, wanted in runs:
        deal = Deal.begin(size, batch * workers, workers, saved=saved)
        steps = min(wanted, deal.steps)
        for worker in range(workers):
            own = data.draw(st.integers(max(0, steps - slack), min(steps + slack, deal.steps)))
            trained += sum(map(examples, list(deal.batches(worker))[:own]), Examples())
        saved = deal.saved(steps)
    assert saved is not None
    expected = json.loads(saved)["epoch"] + 1
    whole = examples(Piece(chunk, 0, count) for chunk, count in size.items())
    found = trained + left(saved)
    wrong = sum(abs(found[each] - expected) for each in whole)
    assert wrong <= sum(workers for workers, _ in runs) * slack * batch


def test_chunks_are_read_whole_where_they_can_be_and_in_another_order_each_epoch() -> None:
    data = {f"part-{number}": 100 for number in range(8)}
    deal = Deal.begin(data, 20, 2, seed=3)
    orders = []
    for epoch in range(3):
        assert (deal.epoch, deal.steps) == (epoch, 40)
        pieces = [*deal.pieces(0), *deal.pieces(1)]
        assert {(piece.begin, piece.end) for piece in pieces} == {(0, 100)}
        orders.append(tuple(piece.chunk for piece in pieces))
        deal = deal.next()
    assert len(set(orders)) == 3
    again = Deal.begin(data, 20, 2, seed=3)
    assert tuple(piece.chunk for worker in (0, 1) for piece in again.pieces(worker)) == orders[0]


def test_what_is_left_is_stored_in_few_pieces() -> None:
    deal = Deal.begin({f"part-{number}": 1_000 for number in range(100)}, 64, 4)
    assert len(json.loads(deal.saved(700))["left"]) < 100


def test_less_data_than_a_step_takes() -> None:
    deal = Deal.begin({"a": 3}, 8, 2)
    assert (deal.steps, deal.epoch) == (1, 2)
    assert left(deal.saved(1)) == examples([Piece("a", 2, 3)])


@cases(
    ("chunks", "batch", "workers", "saved", "sentence"),
    {
        "no chunk": ({}, 4, 2, None, "there are no examples"),
        "empty chunks": ({"a": 0}, 4, 2, None, "there are no examples"),
        "no worker": ({"a": 9}, 4, 0, None, "cannot be shared by 0 workers"),
        "more workers than examples": ({"a": 9}, 4, 5, None, "cannot be shared by 5 workers"),
        "a chunk that is gone": (
            {"a": 9}, 4, 2, '{"epoch": 0, "left": [["b", 0, 9]]}', "of other data",
        ),
        "a chunk that is shorter": (
            {"a": 9}, 4, 2, '{"epoch": 0, "left": [["a", 0, 10]]}', "of other data",
        ),
        "a text that is none of ours": ({"a": 9}, 4, 2, '["a"]', "no deal"),
        "no JSON": ({"a": 9}, 4, 2, "{", "no deal"),
    },
)  # fmt: skip
def test_refused_with_a_sentence(
    chunks: dict[str, int], batch: int, workers: int, saved: str | None, sentence: str
) -> None:
    with pytest.raises(ValueError, match=sentence):
        Deal.begin(chunks, batch, workers, saved=saved)
