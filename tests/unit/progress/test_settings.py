"""What a program declares of its run: its end, its batch, the schedule of its learning rate."""

from dataclasses import replace

from optimus.progress.formats import parse_line
from optimus.progress.parsed_line import LogFormatOptions, clean
from optimus.progress.types import Declared
from tests.cases import cases

STEP = Declared(schedule="step", drop_factor=0.1)


@cases(
    ("line", "declared"),
    {
        "drops, and no mode": (
            (
                "Namespace(batch_size=128, lr=0.1, lr_decay=0.1, lr_decay_epoch='100,150', "
                "lr_decay_period=0, num_epochs=200)"
            ),
            replace(STEP, epochs=200, batch=128, learning_rate=0.1, drops=(100, 150)),
        ),
        "a drop at the end is none": (
            "Namespace(lr_decay=0.1, lr_decay_epoch='40,80,100', lr_mode='step', num_epochs=100)",
            replace(STEP, epochs=100, drops=(40, 80)),
        ),
        "the list before the period": (
            "Namespace(lr_decay=0.1, lr_decay_epoch='40,60', lr_decay_period=30, num_epochs=100)",
            replace(STEP, epochs=100, drops=(40, 60)),
        ),
        "a period": (
            "Namespace(lr_decay=0.1, lr_decay_epoch='', lr_decay_period=30, num_epochs=100)",
            replace(STEP, epochs=100, drops=(30, 60, 90)),
        ),
        "PyTorch's name of a period": (
            "Namespace(learning_rate=0.0001, num_epochs=20, scheduler_step_size=15)",
            Declared(epochs=20, learning_rate=1e-4, schedule="step", drops=(15,)),
        ),
        "a list": (
            "Namespace(epochs=90, gamma=0.1, lr=.1, milestones=[30, 60, 80])",
            replace(STEP, epochs=90, learning_rate=0.1, drops=(30, 60, 80)),
        ),
        "a tuple": (
            "Namespace(epochs=90, lr_decay=0.1, lr_mode='multistep', lr_steps=(30, 60))",
            replace(STEP, epochs=90, drops=(30, 60)),
        ),
        "a cosine has no drops, whatever their default is": (
            (
                "Namespace(lr_decay=0.1, lr_decay_epoch='40,60', lr_mode='cosine', num_epochs=200, "
                "warmup_epochs=5)"
            ),
            Declared(epochs=200, schedule="cosine", warmup_epochs=5),
        ),
        "a polynomial without a warm-up": (
            "Namespace(lr_decay_epoch='40,60', lr_mode='poly', num_epochs=50, warmup_epochs=0)",
            Declared(epochs=50, schedule="poly"),
        ),
        "a linear decay, whose warm-up is a part of all steps": (
            (
                "INFO - Namespace(epochs=3, lr=3e-05, lr_decay='linear', training_steps=800, "
                "warmup_ratio=0.25)"
            ),
            Declared(
                epochs=3, steps=800, learning_rate=3e-5, schedule="linear", warmup_fraction=0.25
            ),
        ),
        "a warm-up in steps": (
            "Namespace(epochs=26, lr_warmup='500', lr_warmup_factor=0.3333)",
            Declared(epochs=26, warmup_steps=500),
        ),
        "values that are none": (
            "Namespace(epochs=None, lr='auto', max_steps=-1, batch_size=0)",
            None,
        ),
        "a command line": (
            (
                "+ python train.py --num-epochs 200 -j 2 --batch-size 128 --lr 0.1 --lr-decay 0.1 "
                "--lr-decay-epoch 100,150 --model resnet"
            ),
            replace(STEP, epochs=200, batch=128, learning_rate=0.1, drops=(100, 150)),
        ),
        "a command line with a list": (
            "python main.py --epochs=90 --milestones 30 60 80 --gamma 0.1 data",
            replace(STEP, epochs=90, drops=(30, 60, 80)),
        ),
        "a help text": ("usage: train.py [-h] [--epochs EPOCHS] [--lr LR]", None),
        "dashes": ("loss -- step=5 --", None),
        "JSON": (
            '{"epochs": 3, "lr": 0.1, "lr_scheduler_type": "cosine", "warmup_ratio": 0.1}',
            Declared(epochs=3, learning_rate=0.1, schedule="cosine", warmup_fraction=0.1),
        ),
        "one setting a line": ("num_epochs: 200", Declared(epochs=200)),
        "a table of settings": (
            "| milestones | [30, 60] |",
            Declared(schedule="step", drops=(30, 60)),
        ),
        "Hugging Face, epochs": ("  Num Epochs = 3", Declared(epochs=3)),
        "Hugging Face, steps": ("  Total optimization steps = 1,377", Declared(steps=1377)),
        "Hugging Face, batch": ("  Instantaneous batch size per device = 8", Declared(batch=8)),
        "an effective batch": ("Using gradient accumulation. Effective batch size = 24", None),
        "a total batch": ("Total training batch size = 24", None),
        "a batch in words": ("[INFO] Training batch size: 24", Declared(batch=24)),
        "a number of epochs": ("Total Epochs: 20", Declared(epochs=20)),
        "a number of steps": ("training steps=800.000000s", Declared(steps=800)),
    },
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
