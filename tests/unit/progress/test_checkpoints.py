"""Checkpoints: which is the last one, and whether it is complete."""

from tests.cases import cases
from tests.unit.progress.jobs import START
from tests.unit.progress.reads import GLUON, pairs, read


class TestCheckpoints:
    @cases(
        ("texts", "step", "second"),
        {
            "named on every line: known since the first": (pairs(1, 5, checkpoint=3), 3, 0),
            "TensorFlow's line after the save": (
                [
                    "step=1 loss=1",
                    "Calling checkpoint listeners after saving checkpoint 1...",
                    "step=2 loss=1",
                ],
                1,
                1,
            ),
            "a save that begins is complete at the next sign of training": (
                ["step=7 loss=1", "Saving checkpoints for 7 into /ck.", "step=8 loss=1"],
                7,
                2,
            ),
            "a save that begins": (
                ["step=7 loss=1", "Saving checkpoints for 7 into /ck."],
                None,
                None,
            ),
            "of step 0": (["Saving checkpoints for 0 into /ck.", "step=1 loss=1"], None, None),
            "MXNet's number is of epochs": (
                [GLUON.format(20), GLUON.format(40), 'Saved checkpoint to "/m-0001.params"'],
                40,
                2,
            ),
            "without a number: the current position": (
                [GLUON.format(20), GLUON.format(30), "params saved in: ./x.params"],
                31,
                2,
            ),
            "a script that numbers MXNet's checkpoints by steps": (
                ["step=40 epoch=0 loss=1", 'Saved checkpoint to "/m-0040.params"'],
                40,
                1,
            ),
        },
    )
    def test_are_known_once_complete(
        self, texts: list[str], step: int | None, second: int | None
    ) -> None:
        progress = read(texts)
        assert progress.checkpoint_step == step
        assert progress.checkpoint_at == (None if second is None else START + second)
