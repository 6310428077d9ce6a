"""A script that counts its epochs from the first again after a restart loses none."""

from optimus.jobs import Counts, Role
from optimus.progress.log import ProgressLog
from optimus.progress.types import LogLine, PodRun, TrainingProgress
from tests.cases import cases
from tests.unit.progress.jobs import START
from tests.unit.progress.reads import LATER, SYNC

COUNTS = Counts(1, 2)


def loss_after(epochs: float) -> float:
    return 2.0 / (0.3 * epochs + 1.0)


class Script:
    """Prints an epoch a minute; ``restart`` begins another run."""

    def __init__(self, form: str) -> None:
        self.log, self.form = ProgressLog(SYNC), form
        self.run, self.at = 0, START

    def epochs(self, first: int, losses: list[float], *, batches: bool = False) -> None:
        lines = []
        for number, loss in enumerate(losses, first):
            self.at += 60
            if batches:
                text = f"Epoch[{number}] Batch [20]\tSpeed: 500 samples/sec\taccuracy=0.5"
                lines.append(LogLine(self.at - 30, text))
            printed = self.form.format(n=number, m=number - 1, loss=loss).split("\n")
            lines += [LogLine(self.at, each) for each in printed]
        look = PodRun(f"run-{self.run}", read_at=self.at)
        self.log.observe("w", Role.WORKER, 0, COUNTS, lines, look)

    def restart(self) -> None:
        self.run += 1

    @property
    def progress(self) -> TrainingProgress:
        return self.log.progress(LATER)


PAIRS = "epoch={n} loss={loss:.6f}"
KERAS = "Epoch {n}/50\n70/70 - 5s - 71ms/step - loss: {loss:.4f}"
MXNET = "Epoch[{m}] Train-cross-entropy={loss:.6f}"
FORMS = {"pairs": PAIRS, "Keras": KERAS, "MXNet": MXNET}


def trained(script: Script, epochs: int = 40) -> None:
    script.epochs(1, [loss_after(n) for n in range(1, epochs + 1)])


@cases("form", FORMS)
def test_epochs_that_begin_again_are_counted_on_where_the_loss_goes_on(form: str) -> None:
    script = Script(form)
    trained(script)
    for restart in (1, 2, 3):
        script.restart()
        done = 35 + 5 * restart
        script.epochs(1, [loss_after(done + n) for n in range(1, 6)])
        assert script.progress.epoch == done + 5
        assert len(script.progress.losses) == done + 5


@cases("form", FORMS)
def test_a_training_that_starts_over_drops_what_was_before(form: str) -> None:
    script = Script(form)
    trained(script)
    script.restart()
    trained(script, 3)
    assert script.progress.epoch == 3
    assert len(script.progress.losses) == 3


@cases("form", FORMS)
def test_a_script_that_goes_on_counting_is_believed(form: str) -> None:
    script = Script(form)
    trained(script)
    script.restart()
    script.epochs(38, [loss_after(n) for n in range(38, 43)])
    assert script.progress.epoch == 42
    assert len(script.progress.losses) == 42


def test_lines_without_a_loss_before_the_first_do_not_erase_epochs() -> None:
    script = Script("Epoch[{n}] Train-cross-entropy={loss:.6f}")
    script.epochs(0, [loss_after(n) for n in range(1, 41)], batches=True)
    script.restart()
    script.epochs(0, [loss_after(n) for n in range(41, 44)], batches=True)
    assert len(script.progress.losses) == 43


def test_a_container_that_is_restarted_in_its_pod_counts_on_too() -> None:
    script = Script(PAIRS)
    trained(script)
    script.epochs(1, [loss_after(40 + n) for n in range(1, 4)])
    assert script.progress.epoch == 43
    assert len(script.progress.losses) == 43


def test_the_numbering_survives_another_autoscaler() -> None:
    script = Script(PAIRS)
    trained(script)
    script.restart()
    script.epochs(1, [loss_after(41)])
    script.log = ProgressLog.from_state(SYNC, script.log.to_state())
    script.epochs(2, [loss_after(42), loss_after(43)])
    assert script.progress.epoch == 43
