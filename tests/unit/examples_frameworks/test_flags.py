"""Flags that cannot be meant are refused before anything is started."""

from collections.abc import Callable
from typing import Any

import pytest

from examples.mxnet.train import parse_arguments as mxnet_arguments
from examples.tensorflow.train import parse_arguments as tensorflow_arguments

Parse = Callable[[list[str]], Any]


@pytest.mark.parametrize(
    ("parse", "flags", "sentence"),
    [
        pytest.param(
            mxnet_arguments, [], "--checkpoint-dir", id="MXNet: no folder for checkpoints"
        ),
        pytest.param(
            mxnet_arguments, ["--steps=0"], "'0' is no whole number", id="MXNet: no steps"
        ),
        pytest.param(
            mxnet_arguments,
            ["--kvstore=local"],
            "invalid choice",
            id="MXNet: a kvstore without servers",
        ),
        pytest.param(
            mxnet_arguments,
            ["--examples=100"],
            "batch of 128 is larger",
            id="MXNet: less data than a batch",
        ),
        pytest.param(
            tensorflow_arguments, [], "--checkpoint-dir", id="TensorFlow: no folder for checkpoints"
        ),
        pytest.param(
            tensorflow_arguments,
            ["--batch=-1"],
            "'-1' is no whole",
            id="TensorFlow: a negative batch",
        ),
        pytest.param(
            tensorflow_arguments,
            ["--examples=9"],
            "batch of 64 is larger",
            id="TensorFlow: less data than a batch",
        ),
    ],
)
def test_refused(
    parse: Parse, flags: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = [] if sentence == "--checkpoint-dir" else ["--checkpoint-dir=unused"]
    with pytest.raises(SystemExit) as ended:
        parse(folder + flags)
    assert ended.value.code == 2
    assert sentence in capsys.readouterr().err
