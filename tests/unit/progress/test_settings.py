"""What a program declares of its run: its end, its batch, the schedule of its learning rate."""

from dataclasses import replace

import pytest

from optimus.progress.formats import parse_line
from optimus.progress.parsed_line import LogFormatOptions, clean
from optimus.progress.types import Declared

STEP = Declared(schedule="step", drop_factor=0.1)


@pytest.mark.parametrize(
    ("line", "declared"),
    [
        pytest.param(
            "Namespace(batch_size=128, lr=0.1, lr_decay=0.1, lr_decay_epoch='100,150', "
            "lr_decay_period=0, num_epochs=200)",
            replace(STEP, epochs=200, batch=128, learning_rate=0.1, drops=(100, 150)),
            id="drops, and no mode",
        ),
        pytest.param(
            "Namespace(lr_decay=0.1, lr_decay_epoch='40,80,100', lr_mode='step', num_epochs=100)",
            replace(STEP, epochs=100, drops=(40, 80)),
            id="a drop at the end is none",
        ),
        pytest.param(
            "Namespace(lr_decay=0.1, lr_decay_epoch='40,60', lr_decay_period=30, num_epochs=100)",
            replace(STEP, epochs=100, drops=(40, 60)),
            id="the list before the period",
        ),
        pytest.param(
            "Namespace(lr_decay=0.1, lr_decay_epoch='', lr_decay_period=30, num_epochs=100)",
            replace(STEP, epochs=100, drops=(30, 60, 90)),
            id="a period",
        ),
        pytest.param(
            "Namespace(learning_rate=0.0001, num_epochs=20, scheduler_step_size=15)",
            Declared(epochs=20, learning_rate=1e-4, schedule="step", drops=(15,)),
            id="PyTorch's name of a period",
        ),
        pytest.param(
            "Namespace(epochs=90, gamma=0.1, lr=.1, milestones=[30, 60, 80])",
            replace(STEP, epochs=90, learning_rate=0.1, drops=(30, 60, 80)),
            id="a list",
        ),
        pytest.param(
            "Namespace(epochs=90, lr_decay=0.1, lr_mode='multistep', lr_steps=(30, 60))",
            replace(STEP, epochs=90, drops=(30, 60)),
            id="a tuple",
        ),
        pytest.param(
            "Namespace(lr_decay=0.1, lr_decay_epoch='40,60', lr_mode='cosine', num_epochs=200, "
            "warmup_epochs=5)",
            Declared(epochs=200, schedule="cosine", warmup_epochs=5),
            id="a cosine has no drops, whatever their default is",
        ),
        pytest.param(
            "Namespace(lr_decay_epoch='40,60', lr_mode='poly', num_epochs=50, warmup_epochs=0)",
            Declared(epochs=50, schedule="poly"),
            id="a polynomial without a warm-up",
        ),
        pytest.param(
            "INFO - Namespace(epochs=3, lr=3e-05, lr_decay='linear', training_steps=800, "
            "warmup_ratio=0.25)",
            Declared(
                epochs=3, steps=800, learning_rate=3e-5, schedule="linear", warmup_fraction=0.25
            ),
            id="a linear decay, whose warm-up is a part of all steps",
        ),
        pytest.param(
            "Namespace(epochs=26, lr_warmup='500', lr_warmup_factor=0.3333)",
            Declared(epochs=26, warmup_steps=500),
            id="a warm-up in steps",
        ),
        pytest.param(
            "Namespace(epochs=None, lr='auto', max_steps=-1, batch_size=0)",
            None,
            id="values that are none",
        ),
        pytest.param(
            "+ python train.py --num-epochs 200 -j 2 --batch-size 128 --lr 0.1 --lr-decay 0.1 "
            "--lr-decay-epoch 100,150 --model resnet",
            replace(STEP, epochs=200, batch=128, learning_rate=0.1, drops=(100, 150)),
            id="a command line",
        ),
        pytest.param(
            "python main.py --epochs=90 --milestones 30 60 80 --gamma 0.1 data",
            replace(STEP, epochs=90, drops=(30, 60, 80)),
            id="a command line with a list",
        ),
        pytest.param("usage: train.py [-h] [--epochs EPOCHS] [--lr LR]", None, id="a help text"),
        pytest.param("loss -- step=5 --", None, id="dashes"),
        pytest.param(
            '{"epochs": 3, "lr": 0.1, "lr_scheduler_type": "cosine", "warmup_ratio": 0.1}',
            Declared(epochs=3, learning_rate=0.1, schedule="cosine", warmup_fraction=0.1),
            id="JSON",
        ),
        pytest.param("num_epochs: 200", Declared(epochs=200), id="one setting a line"),
        pytest.param(
            "| milestones | [30, 60] |",
            Declared(schedule="step", drops=(30, 60)),
            id="a table of settings",
        ),
        pytest.param("  Num Epochs = 3", Declared(epochs=3), id="Hugging Face, epochs"),
        pytest.param(
            "  Total optimization steps = 1,377", Declared(steps=1377), id="Hugging Face, steps"
        ),
        pytest.param(
            "  Instantaneous batch size per device = 8", Declared(batch=8), id="Hugging Face, batch"
        ),
        pytest.param(
            "Using gradient accumulation. Effective batch size = 24", None, id="an effective batch"
        ),
        pytest.param("Total training batch size = 24", None, id="a total batch"),
        pytest.param("[INFO] Training batch size: 24", Declared(batch=24), id="a batch in words"),
        pytest.param("Total Epochs: 20", Declared(epochs=20), id="a number of epochs"),
        pytest.param("training steps=800.000000s", Declared(steps=800), id="a number of steps"),
    ],
)
def test_declared_settings(line: str, declared: Declared | None) -> None:
    parsed = parse_line(clean(line), LogFormatOptions())
    assert (parsed and parsed.declared) == declared


def test_a_later_line_adds_to_an_earlier_one() -> None:
    first = Declared(epochs=3, batch=32, schedule="linear", warmup_fraction=0.1)
    both = Declared(epochs=3, steps=800, batch=32, schedule="linear", warmup_fraction=0.1)
    assert first.updated(Declared(steps=800)) == both


def test_another_schedule_replaces_the_whole_of_the_first() -> None:
    step = replace(STEP, epochs=90, drops=(30.0, 60.0), warmup_epochs=5)
    cosine = Declared(epochs=100, schedule="cosine")
    assert step.updated(cosine) == cosine
