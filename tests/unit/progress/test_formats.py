"""Every line shape of every producer, and what it says."""

import math

import pytest

from optimus.progress.formats import parse_line
from optimus.progress.metric_names import describe
from optimus.progress.parsed_line import LogFormatOptions, ParsedLine, SavedCheckpoint, clean
from optimus.progress.types import Declared
from tests.cases import cases

MXNET = {
    (
        "Speedometer of MXNet 1.x, the first range of an epoch, which is a mean since its beginning"
    ): (
        (
            "Epoch[0] Batch [0-5]\tSpeed: 19757.66 "
            "samples/sec\taccuracy=0.114583\tcross-entropy=2.382435"
        ),
        {
            "epoch": 0,
            "batch": 6,
            "loss": 2.382435,
            "cumulative": True,
            "samples_per_second": 19757.66,
        },
    ),
    "Speedometer of MXNet 1.0 with Train- in front of the metric": (
        (
            "2018-01-01 10:00:00,123 Node[0] Epoch[1] Batch [20]\tSpeed: 812.50 "
            "samples/sec\tTrain-cross-entropy=1.5"
        ),
        {"epoch": 1, "batch": 21, "loss": 1.5, "samples_per_second": 812.5},
    ),
    "Speedometer without a metric": (
        "Iter[2] Batch [40]\tSpeed: 99.00 samples/sec",
        {"epoch": 2, "batch": 41, "loss": None, "samples_per_second": 99.0},
    ),
    "log_train_metric, no blank before the bracket": (
        "Iter[0] Batch[20] Train-cross-entropy=0.7",
        {"epoch": 0, "batch": 21, "loss": 0.7},
    ),
    "Gluon with an error rate only, which is no loss": (
        "INFO:root:Epoch[7] Batch [49]\tSpeed: 165.4 samples/sec\ttop1-err=0.3\tlr=0.01",
        {"epoch": 7, "batch": 50, "loss": None, "beside": (("top1-err", describe("top1-err")),)},
    ),
    "MXNet's schedulers, a change of the learning rate": (
        "INFO:root:Update[881]: Change learning rate to 1.00000e-02",
        {"learning_rate": 0.01, "loss": None, "epoch": None},
    ),
    "Speedometer with a range of batches: the epoch's line is the mean of all": (
        "INFO:root:Epoch[3] Batch [10-20]\tSpeed: 128795.44 samples/sec\tcross-entropy=1.995147",
        {"epoch": 3, "batch": 21, "loss": 1.995147, "epoch_line_is_mean": True},
    ),
    "GluonCV with a learning rate in front of the speed": (
        "[Epoch 1][Batch 9], LR: 1.0E-03, Speed: 20.321 samples/sec, ObjLoss=3.1,loss=2",
        {"epoch": 1, "batch": 10, "loss": 2.0, "samples_per_second": 20.321},
    ),
    "GluonNLP pre-training by steps, two losses and no total, which is their sum": (
        "[step 250]\tmlm_loss=7.88\tmlm_acc=2.5\tnsp_loss=0.69\tthroughput=12.3K tks/s\tlr=0.1",
        {"step": 250, "loss": 8.57},
    ),
    "Module, training metric at the end of an epoch": (
        "Epoch[2] Train-cross-entropy=2.308108",
        {"epoch": 2, "epoch_ended": True, "loss": 2.308108},
    ),
    "Module, time cost": (
        "Epoch[2] Time cost=0.277",
        {"epoch": 2, "epoch_ended": True, "loss": None},
    ),
    "perplexity is the exponential of the cross-entropy": (
        "Epoch[2] Train-perplexity=7.389056098930650",
        {"epoch_ended": True, "loss": 2.0},
    ),
}

TENSORFLOW = {
    "LoggingTensorHook, first line": ("loss = 2.3025851, step = 0", {"step": 0, "loss": 2.3025851}),
    "LoggingTensorHook behind the old prefix": (
        "INFO:tensorflow:loss = 2.3, step = 100 (0.500 sec)",
        {"step": 100, "loss": 2.3, "saved": None},
    ),
    "a user's own tags": ("global_steps = 1000, loss = 1.", {"step": 1000, "loss": 1.0}),
    "StepCounterHook": ("INFO:tensorflow:global_step/sec: 12.5", {}),
    "CheckpointSaverHook before the save": (
        "Saving checkpoints for 1200 into /tmp/model.ckpt.",
        {"saved": SavedCheckpoint(step=1200, complete=False)},
    ),
    "CheckpointSaverHook after the save": (
        "Calling checkpoint listeners after saving checkpoint 1200...",
        {"saved": SavedCheckpoint(step=1200)},
    ),
    "CheckpointSaverHook, nothing done yet": (
        "Calling checkpoint listeners before saving checkpoint 1200...",
        None,
    ),
    "an evaluation's loss is not the training's": (
        (
            "INFO:tensorflow:Saving dict for global step 100: accuracy = 0.9, global_step = 100, "
            "loss = 0.3"
        ),
        {"loss": None, "step": None},
    ),
    "the end of an Estimator": ("Loss for final step: 0.31.", {"loss": None, "step": None}),
}

KERAS = {
    "header": ("Epoch 3/10", {"epoch": 3, "last_epoch": 10, "batch": None}),
    "Keras 2, one line an epoch": (
        "70/70 - 5s - loss: 0.3000 - accuracy: 0.9100 - 5s/epoch - 71ms/step",
        {"batch": 70, "batches": 70, "epoch_ended": True, "loss": 0.3, "cumulative": True},
    ),
    "Keras 3, one line an epoch, with a validation loss": (
        (
            "57/57 - 1s - 12ms/step - accuracy: 0.1092 - loss: 2.4790 - val_accuracy: 0.1525 - "
            "val_loss: 2.3546"
        ),
        {"batch": 57, "epoch_ended": True, "loss": 2.479},
    ),
    "Keras 2, a bar that rewrites itself": (
        (
            " 1/70 [....] - ETA: 1:05 - loss: 9.0\b\b\b\b\r69/70 [====>.] - ETA: 0s - loss: 0.4 - "
            "accuracy: 0.9"
        ),
        {
            "batch": 69,
            "batches": 70,
            "epoch_ended": False,
            "loss": 0.4,
        },
    ),
    "Keras 3, a bar in colours": (
        (
            "\x1b[1m70/70\x1b[0m \x1b[32m━━━━\x1b[0m\x1b[37m\x1b[0m \x1b[1m5s\x1b[0m 71ms/step - "
            "loss: 3e-04"
        ),
        {"batch": 70, "epoch_ended": True, "loss": 3e-4},
    ),
    "ModelCheckpoint before": (
        "Epoch 00003: saving model to /m.h5",
        {"saved": SavedCheckpoint(epochs=3, complete=False)},
    ),
    "ModelCheckpoint of the best model, before": (
        "Epoch 3: val_loss improved from 0.3 to 0.2, saving model to /m.keras",
        {"saved": SavedCheckpoint(epochs=3, complete=False), "loss": None},
    ),
    "ModelCheckpoint after the save": (
        "Epoch 3: finished saving model to /m.keras",
        {"saved": SavedCheckpoint(epochs=3)},
    ),
}

PAIRS = {
    "the line that the user guide recommends": (
        "2026-01-01T00:00:00Z epoch=3 step=1200 loss=0.4123 samples_per_sec=812.5 checkpoint=1200",
        {
            "epoch": 3,
            "step": 1200,
            "loss": 0.4123,
            "samples_per_second": 812.5,
            "saved": SavedCheckpoint(step=1200),
        },
    ),
    "after a save": (
        "epoch=4 step=1210 checkpoint=1210",
        {"step": 1210, "saved": SavedCheckpoint(step=1210)},
    ),
    "a loss alone": ("loss=1e-03", {"loss": 1e-3}),
    "a loss of one's own name, and not that of the validation": (
        "step=5 val_loss=0.3 accuracy=0.9 my.loss=2",
        {"step": 5, "loss": 2.0, "evaluated": {"val_loss": 0.3}},
    ),
    "thousands are not read as a number": ("loss=1.9K", None),
    "an empty value": ("loss= step=3", None),
    "a user's print of the settings is no loss": (
        "Namespace(batch_size=8, loss=1, step=3)",
        {"loss": None, "step": None, "declared": Declared(batch=8)},
    ),
    "pairs without a loss": ("batch_size=64 lr=0.1", None),
    "a step that is no whole number": ("step=0.5 loss=2", {"step": None, "loss": 2.0}),
}

CHECKPOINTS = {
    "MXNet's do_checkpoint": (
        'Saved checkpoint to "/ck/mlp-0003.params"',
        {"saved": SavedCheckpoint(epochs=3)},
    ),
    "Gluon, after the save": ("params saved in: ./x.params", {"saved": SavedCheckpoint()}),
    "Gluon, before it": (
        "[Epoch 3] Saving parameters to x.params",
        {"saved": SavedCheckpoint(complete=False)},
    ),
    "GluonNLP, before it": (
        "[step 250] Saving checkpoints to a.params, a.states.",
        {"saved": SavedCheckpoint(complete=False)},
    ),
}


FREE_TEXT = {
    "a total and its parts": (
        "Epoch 3 iteration 0050/0100: cls loss 0.2, loc loss 0.1, training loss 0.35",
        {"epoch": 3, "batch": 50, "loss": 0.35},
    ),
    "person re-identification of GluonCV": (
        "Epoch 7. Train loss: 5.1, Val loss 4.2, Time 00:01:23, lr 0.1",
        {"epoch": 7, "epoch_ended": True, "loss": 5.1, "evaluated": {"Val loss": 4.2}},
    ),
    "both sides of a metric without a name": (
        "epoch=4 train=0.10 val=0.12 time=5.2",
        {"epoch": 4, "epoch_ended": True, "loss": None, "evaluated": {"val": 0.12}},
    ),
    "PyTorch's ImageNet example": (
        "Epoch: [3][ 10/5005]\tTime  0.3 ( 0.5)\tLoss 6.9e+00 (7.0e+00)\tAcc@1   0.20 (  0.1)",
        {"epoch": 3, "batch": 10, "batches": 5005, "loss": 6.9},
    ),
    "PyTorch tutorials": (
        "Epoch [3/10], Step [100/600], Loss: 0.25",
        {"epoch": 3, "batch": 100, "batches": 600, "declared": Declared(epochs=10)},
    ),
    "two losses and no total": (
        "[1/25][100/1583]\tLoss_D: 0.5\tLoss_G: 1.2",
        {"epoch": 1, "batch": 100, "batches": 1583, "loss": 1.7},
    ),
    "epoch and batch in brackets behind a word": (
        "INFO Train: [4/300][10/1251]\teta 1:00:00 lr 0.001\ttime 0.3 (0.4)\tloss 6.9 (6.95)",
        {"epoch": 4, "batch": 10, "batches": 1251, "loss": 6.9, "learning_rate": 0.001},
    ),
    "a count of right answers is no accuracy": (
        "Test set: Average loss: 0.05, Accuracy: 9850/10000 (98%)",
        {"loss": None, "evaluated": {"Average loss": 0.05}},
    ),
    "epoch and batch": ("[2,  4000] loss: 2.2", {"epoch": 2, "batch": 4000, "loss": 2.2}),
    "PyTorch's language model": (
        "| epoch   1 |   200/ 2983 batches | lr 20.00 | ms/batch 23.1 | loss  7.6 | ppl  2000.5",
        {"epoch": 1, "batch": 200, "batches": 2983, "loss": 7.6, "learning_rate": 20.0},
    ),
    "timm": (
        "Train: 2 [  50/1251 (  4%)]  Loss: 6.9 (6.95)  Time: 0.3s, 500.1/s  LR: 1.000e-05",
        {"epoch": 2, "batch": 50, "batches": 1251, "loss": 6.9, "learning_rate": 1e-5},
    ),
    "steps": ("step 250: train loss 1.9, val loss 2.0", {"step": 250, "loss": 1.9}),
    "Keras loop": ("Training loss (for one batch) at step 200: 1.2", {"step": 200, "loss": 1.2}),
    "TensorFlow 2's loop": (
        "Epoch 2, Loss: 0.13, Accuracy: 95.9, Test Loss: 0.06, Test Accuracy: 97.9",
        {
            "epoch": 2,
            "epoch_ended": True,
            "loss": 0.13,
            "evaluated": {"Test Loss": 0.06, "Test Accuracy": 97.9},
        },
    ),
    "the values after the word validation": (
        "Epoch 0, validation pixAcc: 0.8, mIoU: 0.5",
        {"loss": None, "epoch": None, "evaluated": {"validation pixAcc": 0.8, "mIoU": 0.5}},
    ),
    "mAP alone": ("mAP=0.7765", {"loss": None, "evaluated": {"mAP": 0.7765}}),
    "a header": ("Starting Epoch: 4", {"epoch": 4, "epoch_ended": False, "batch": None}),
    "a bar with the loss in front": (
        "Epoch 0, training loss 1.234:  12%|#2  | 100/800 [01:23<09:41,  1.2it/s]",
        {"epoch": 0, "batch": 100, "batches": 800, "loss": 1.234},
    ),
    "its summary": (
        "{'train_runtime': 9.1, 'train_loss': 0.41, 'epoch': 3.0}",
        {"loss": None, "batch": None},
    ),
    "LightGBM": (
        "[10]\ttraining's binary_logloss: 0.5\tvalid_1's auc: 0.8",
        {"step": 10, "loss": 0.5, "evaluated": {"valid_1_auc": 0.8}},
    ),
    "CatBoost": (
        "10:\tlearn: 0.69\ttest: 0.68\tbest: 0.68 (9)\ttotal: 50ms\tremaining: 4s",
        {"step": 10, "loss": 0.69, "evaluated": {"test_loss": 0.68}},
    ),
}


@cases(("line", "says"), {**MXNET, **TENSORFLOW, **KERAS, **PAIRS, **CHECKPOINTS, **FREE_TEXT})
def test_a_line_says(line: str, says: dict[str, object] | None) -> None:
    parsed_line = parse_line(clean(line), LogFormatOptions())
    if says is None:
        assert parsed_line is None
        return
    assert parsed_line is not None
    found = {name: getattr(parsed_line, name) for name in says}
    assert found == {
        name: pytest.approx(value) if isinstance(value, float) else value
        for name, value in says.items()
    }


@pytest.mark.parametrize(
    "line",
    [
        "",
        "training has started",
        "[22:31:43] ../src/executor/graph_executor.cc:1991: Subgraph backend MKLDNN is activated.",
        "3/10 files copied",
        "Accuracy at step 100: 0.91",
        "12/20 steps done",
        "{not json",
        "{" * 4000,
        '["loss", 1]',
        '{"loss": [1]}',
        "goes on from checkpoint=1200",
        "Adjust learning rate to 1e-3 for epoch 30",
        "12%|█▏        | 12/100 [00:05<00:40,  2.20it/s]",
    ],
)
def test_other_lines_say_nothing(line: str) -> None:
    assert parse_line(clean(line), LogFormatOptions()) is None


@pytest.mark.parametrize("value", ["nan", "NaN", "inf", "-inf", "Infinity"])
def test_a_loss_that_is_no_number_is_seen_as_such(value: str) -> None:
    parsed_line = parse_line(f"loss = {value}, step = 3", LogFormatOptions())
    assert parsed_line is not None
    assert parsed_line.loss is not None
    assert not math.isfinite(parsed_line.loss)


def test_validation_metrics_are_not_the_training_loss() -> None:
    assert parse_line("Epoch[2] Validation-cross-entropy=1.84", LogFormatOptions()) == ParsedLine()
