"""Every line shape of every producer, and what it says."""

import math

import pytest

from optimus.progress.formats import parse_line
from optimus.progress.parsed_line import LogFormatOptions, ParsedLine, Saved, clean

MXNET = [
    pytest.param(
        "Epoch[0] Batch [0-5]\tSpeed: 19757.66 "
        "samples/sec\taccuracy=0.114583\tcross-entropy=2.382435",
        {
            "epoch": 0,
            "batch": 6,
            "loss": 2.382435,
            "cumulative": True,
            "samples_per_second": 19757.66,
        },
        id=(
            "Speedometer of MXNet 1.x, the first range of an epoch, which is a mean since its "
            "beginning"
        ),
    ),
    pytest.param(
        "INFO:root:Epoch[3] Batch [10-20]\tSpeed: 1e3 samples/sec\taccuracy=0.5\tloss=.98",
        {"epoch": 3, "batch": 21, "loss": 0.98, "cumulative": False},
        id="Speedometer of MXNet 1.x behind a logger's prefix",
    ),
    pytest.param(
        "2018-01-01 10:00:00,123 Node[0] Epoch[1] Batch [20]\tSpeed: 812.50 "
        "samples/sec\tTrain-cross-entropy=1.5",
        {"epoch": 1, "batch": 21, "loss": 1.5, "samples_per_second": 812.5},
        id="Speedometer of MXNet 1.0 with Train- in front of the metric",
    ),
    pytest.param(
        "Iter[2] Batch [40]\tSpeed: 99.00 samples/sec",
        {"epoch": 2, "batch": 41, "loss": None, "samples_per_second": 99.0},
        id="Speedometer without a metric",
    ),
    pytest.param(
        "Iter[0] Batch[20] Train-cross-entropy=0.7",
        {"epoch": 0, "batch": 21, "loss": 0.7},
        id="log_train_metric, no blank before the bracket",
    ),
    pytest.param(
        "Epoch[000] Batch [0019]/[0055]\tSpeed: 26.184196 samples/sec\t accuracy=5.703125\t "
        "loss=3.831633\t lr=0.01",
        {"epoch": 0, "batch": 20, "batches": 55, "loss": 3.831633, "learning_rate": 0.01},
        id="Gluon with the number of batches and a blank after the tab",
    ),
    pytest.param(
        "INFO:root:Epoch[7] Batch [49]\tSpeed: 165.4 samples/sec\ttop1-err=0.3\tlr=0.01",
        {"epoch": 7, "batch": 50, "loss": None, "metrics": ("top1-err", "lr")},
        id="Gluon with an error rate only, which is no loss",
    ),
    pytest.param(
        "INFO:root:Update[881]: Change learning rate to 1.00000e-02",
        {"learning_rate": 0.01, "loss": None, "epoch": None},
        id="MXNet's schedulers, a change of the learning rate",
    ),
    pytest.param(
        "INFO:root:Epoch[3] Batch [10-20]\tSpeed: 128795.44 samples/sec\tcross-entropy=1.995147",
        {"epoch": 3, "batch": 21, "loss": 1.995147, "epoch_line_is_mean": True},
        id="Speedometer with a range of batches: the epoch's line is the mean of all",
    ),
    pytest.param(
        "[Epoch 0][Batch 99], Speed: 20.321 samples/sec, RPN_Conf=0.353,RPN_SmoothL1=0.084",
        {"epoch": 0, "batch": 100, "loss": None, "metrics": ("RPN_Conf", "RPN_SmoothL1")},
        id="GluonCV with parts of a loss and no total",
    ),
    pytest.param(
        "[Epoch 1][Batch 9], LR: 1.0E-03, Speed: 20.321 samples/sec, ObjLoss=3.1,loss=2",
        {"epoch": 1, "batch": 10, "loss": 2.0, "samples_per_second": 20.321},
        id="GluonCV with a learning rate in front of the speed",
    ),
    pytest.param(
        "Epoch[3]\t\tSpeed: 100.5 samples/sec over 12 secs\tloss=0.25",
        {"epoch": 3, "epoch_ended": True, "loss": 0.25, "samples_per_second": 100.5},
        id="Gluon, one line an epoch",
    ),
    pytest.param(
        "[Epoch 0 Batch 30/173] avg loss 0.0139592, throughput 0.859971K wps",
        {"epoch": 0, "batch": 30, "batches": 173, "loss": 0.0139592, "samples_per_second": None},
        id="GluonNLP, words per second are no samples",
    ),
    pytest.param(
        "[Epoch 0 Batch 200/745] current loss 6.70, ppl 812.4, throughput 1021.33 samples/s, lr "
        "20.0",
        {"batch": 200, "batches": 745, "loss": 6.7, "samples_per_second": 1021.33},
        id="GluonNLP language model",
    ),
    pytest.param(
        "INFO:gluonnlp:00:01:02 [Epoch 1 Batch 10/82] loss=0.7010, lr=0.0000013, "
        "metrics:accuracy:0.69",
        {"epoch": 1, "batch": 10, "loss": 0.701},
        id="GluonNLP classification with colons after the metrics",
    ),
    pytest.param(
        "[Epoch 0] train avg loss 0.0119, dev acc 0.61, dev avg loss 0.0117, throughput 1.9K wps",
        {"epoch": 0, "epoch_ended": True, "loss": 0.0119},
        id="GluonNLP, end of an epoch, the training loss and not the dev loss",
    ),
    pytest.param(
        "[Epoch 4] train=0.104067 val=0.116500 loss=2.499243 time: 60.370274",
        {"epoch": 4, "epoch_ended": True, "loss": 2.499243},
        id="Gluon image classification, end of an epoch",
    ),
    pytest.param(
        "[step 250]\tmlm_loss=7.88\tmlm_acc=2.5\tnsp_loss=0.69\tthroughput=12.3K tks/s\tlr=0.1",
        {"step": 250, "loss": None, "metrics": ("mlm_loss", "mlm_acc", "nsp_loss", "lr")},
        id="GluonNLP pre-training by steps, two losses and no total",
    ),
    pytest.param(
        "Epoch[2] Train-cross-entropy=2.308108",
        {"epoch": 2, "epoch_ended": True, "loss": 2.308108},
        id="Module, training metric at the end of an epoch",
    ),
    pytest.param(
        "Epoch[2] Time cost=0.277",
        {"epoch": 2, "epoch_ended": True, "loss": None},
        id="Module, time cost",
    ),
    pytest.param(
        "Epoch[2] Train-perplexity=7.389056098930650",
        {"epoch_ended": True, "loss": 2.0},
        id="perplexity is the exponential of the cross-entropy",
    ),
]

TENSORFLOW = [
    pytest.param(
        "loss = 2.3025851, step = 0",
        {"step": 0, "loss": 2.3025851},
        id="LoggingTensorHook, first line",
    ),
    pytest.param(
        "INFO:tensorflow:loss = 2.3, step = 100 (0.500 sec)",
        {"step": 100, "loss": 2.3, "saved": None},
        id="LoggingTensorHook behind the old prefix",
    ),
    pytest.param(
        "I0401 16:50:17.657439 140657036416832 basic_session_run_hooks.py:260] loss = 3.0000e-04, "
        "step = 7 (1.0 sec)",
        {"step": 7, "loss": 3e-4},
        id="LoggingTensorHook behind absl's prefix, scientific notation",
    ),
    pytest.param(
        "global_steps = 1000, loss = 1.", {"step": 1000, "loss": 1.0}, id="a user's own tags"
    ),
    pytest.param(
        "INFO:tensorflow:global_step/sec: 12.5", {"steps_per_second": 12.5}, id="StepCounterHook"
    ),
    pytest.param(
        "Saving checkpoints for 1200 into /tmp/model.ckpt.",
        {"saved": Saved(step=1200, complete=False)},
        id="CheckpointSaverHook before the save",
    ),
    pytest.param(
        "Calling checkpoint listeners after saving checkpoint 1200...",
        {"saved": Saved(step=1200)},
        id="CheckpointSaverHook after the save",
    ),
    pytest.param(
        "Calling checkpoint listeners before saving checkpoint 1200...",
        None,
        id="CheckpointSaverHook, nothing done yet",
    ),
    pytest.param(
        "INFO:tensorflow:Saving dict for global step 100: accuracy = 0.9, global_step = 100, loss "
        "= 0.3",
        {"loss": None, "step": None},
        id="an evaluation's loss is not the training's",
    ),
    pytest.param(
        "Loss for final step: 0.31.", {"loss": None, "step": None}, id="the end of an Estimator"
    ),
    pytest.param(
        "INFO:tensorflow:global step 300: loss = 0.5123 (0.251 sec/step) (4 steps/sec)",
        {"step": 300, "loss": 0.5123},
        id="TF-Slim",
    ),
    pytest.param(
        "1511111111.123456: Worker 1: training step 20 done (global step: 37)",
        {"step": 37, "loss": None},
        id="dist_mnist has the global step and no loss",
    ),
]

KERAS = [
    pytest.param("Epoch 3/10", {"epoch": 2, "batch": None}, id="header"),
    pytest.param(
        "70/70 - 5s - loss: 0.3000 - accuracy: 0.9100 - 5s/epoch - 71ms/step",
        {"batch": 70, "batches": 70, "epoch_ended": True, "loss": 0.3, "cumulative": True},
        id="Keras 2, one line an epoch",
    ),
    pytest.param(
        "57/57 - 1s - 12ms/step - accuracy: 0.1092 - loss: 2.4790 - val_accuracy: 0.1525 - "
        "val_loss: 2.3546",
        {"batch": 57, "epoch_ended": True, "loss": 2.479},
        id="Keras 3, one line an epoch, with a validation loss",
    ),
    pytest.param(
        " 1/70 [....] - ETA: 1:05 - loss: 9.0\b\b\b\b\r69/70 [====>.] - ETA: 0s - loss: 0.4 - "
        "accuracy: 0.9",
        {
            "batch": 69,
            "batches": 70,
            "epoch_ended": False,
            "loss": 0.4,
            "metrics": ("loss", "accuracy"),
        },
        id="Keras 2, a bar that rewrites itself",
    ),
    pytest.param(
        "\x1b[1m70/70\x1b[0m \x1b[32m━━━━\x1b[0m\x1b[37m\x1b[0m \x1b[1m5s\x1b[0m 71ms/step - "
        "loss: 3e-04",
        {"batch": 70, "epoch_ended": True, "loss": 3e-4},
        id="Keras 3, a bar in colours",
    ),
    pytest.param(
        "     12/Unknown \x1b[1m1s\x1b[0m 71ms/step - loss: 0.5",
        {"batch": 12, "batches": None, "epoch_ended": False, "loss": 0.5},
        id="Keras 3, length unknown",
    ),
    pytest.param(
        "Epoch 00003: saving model to /m.h5",
        {"saved": Saved(epochs=3, complete=False)},
        id="ModelCheckpoint before",
    ),
    pytest.param(
        "Epoch 3: val_loss improved from 0.3 to 0.2, saving model to /m.keras",
        {"saved": Saved(epochs=3, complete=False), "loss": None},
        id="ModelCheckpoint of the best model, before",
    ),
    pytest.param(
        "Epoch 3: finished saving model to /m.keras",
        {"saved": Saved(epochs=3)},
        id="ModelCheckpoint after the save",
    ),
]

PAIRS = [
    pytest.param(
        "2026-01-01T00:00:00Z epoch=3 step=1200 loss=0.4123 samples_per_sec=812.5 checkpoint=1200",
        {
            "epoch": 3,
            "step": 1200,
            "loss": 0.4123,
            "samples_per_second": 812.5,
            "saved": Saved(step=1200),
        },
        id="the line that the user guide recommends",
    ),
    pytest.param(
        "epoch=4 step=1210 checkpoint=1210",
        {"step": 1210, "saved": Saved(step=1210)},
        id="after a save",
    ),
    pytest.param(
        '{"step": "5", "loss": "0.25", "done": true}',
        {"step": 5, "loss": 0.25},
        id="Katib's JSON form",
    ),
    pytest.param("loss=1e-03", {"loss": 1e-3}, id="a loss alone"),
    pytest.param(
        "val_loss=0.3 accuracy=0.9 my.loss=2", None, id="names that only contain the wanted one"
    ),
    pytest.param("loss=1.9K", None, id="thousands are not read as a number"),
    pytest.param("loss= step=3", None, id="an empty value"),
    pytest.param(
        "Namespace(batch_size=8, loss=1, step=3)", None, id="a user's print of the settings"
    ),
    pytest.param("batch_size=64 lr=0.1", None, id="pairs without a loss"),
    pytest.param(
        "step=0.5 loss=2", {"step": None, "loss": 2.0}, id="a step that is no whole number"
    ),
]

CHECKPOINTS = [
    pytest.param(
        'Saved checkpoint to "/ck/mlp-0003.params"',
        {"saved": Saved(epochs=3)},
        id="MXNet's do_checkpoint",
    ),
    pytest.param("params saved in: ./x.params", {"saved": Saved()}, id="Gluon, after the save"),
    pytest.param(
        "[Epoch 3] Saving parameters to x.params",
        {"saved": Saved(complete=False)},
        id="Gluon, before it",
    ),
    pytest.param(
        "[step 250] Saving checkpoints to a.params, a.states.",
        {"saved": Saved(complete=False)},
        id="GluonNLP, before it",
    ),
]


@pytest.mark.parametrize(("line", "says"), [*MXNET, *TENSORFLOW, *KERAS, *PAIRS, *CHECKPOINTS])
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
