"""Checkpoints: which is the last one, and whether it is complete."""

import pytest

from tests.unit.progress.jobs import START
from tests.unit.progress.reads import GLUON, pairs, read


class TestCheckpoints:
    @pytest.mark.parametrize(
        ("texts", "step", "second"),
        [
            pytest.param(
                pairs(1, 5, checkpoint=3), 3, 0, id=("named on every line: known since the first")
            ),
            pytest.param(
                [
                    "step=1 loss=1",
                    "Calling checkpoint listeners after saving checkpoint 1...",
                    "step=2 loss=1",
                ],
                1,
                1,
                id="TensorFlow's line after the save",
            ),
            pytest.param(
                ["step=7 loss=1", "Saving checkpoints for 7 into /ck.", "step=8 loss=1"],
                7,
                2,
                id="a save that begins is complete at the next sign of training",
            ),
            pytest.param(
                ["step=7 loss=1", "Saving checkpoints for 7 into /ck."],
                None,
                None,
                id="a save that begins",
            ),
            pytest.param(
                ["Saving checkpoints for 0 into /ck.", "step=1 loss=1"], None, None, id="of step 0"
            ),
            pytest.param(
                [GLUON.format(20), GLUON.format(40), 'Saved checkpoint to "/m-0001.params"'],
                40,
                2,
                id="MXNet's number is of epochs",
            ),
            pytest.param(
                [GLUON.format(20), GLUON.format(30), "params saved in: ./x.params"],
                31,
                2,
                id="without a number: the current position",
            ),
            pytest.param(
                ["step=40 epoch=0 loss=1", 'Saved checkpoint to "/m-0040.params"'],
                40,
                1,
                id="a script that numbers MXNet's checkpoints by steps",
            ),
        ],
    )
    def test_are_known_once_complete(
        self, texts: list[str], step: int | None, second: int | None
    ) -> None:
        progress = read(texts)
        assert progress.checkpoint_step == step
        assert progress.checkpoint_at == (None if second is None else START + second)
