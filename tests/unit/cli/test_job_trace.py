"""Traces of anybody's jobs: the general form, and those of Philly, Gavel, Pollux and DL2."""

from collections.abc import Callable
from pathlib import Path

import pytest

from optimus.cli.command import BadInput
from optimus.cli.job_trace import read_job_trace
from optimus.cli.trace_formats import read_form, read_gavel
from optimus.jobs import (
    ConvergenceThreshold,
    CountBounds,
    Counts,
    JobKey,
    RescaleRule,
    TargetLoss,
    TrainingMode,
)
from optimus.resources import Resources
from optimus.simulator.results import GPU
from tests.cases import cases

DATA = Path(__file__).parents[2] / "data" / "traces"
GIB = 2**30
Written = Callable[[str], Path]


@pytest.fixture
def csv_file(tmp_path: Path) -> Written:
    def write(text: str) -> Path:
        (tmp_path / "jobs.csv").write_text(text)
        return tmp_path / "jobs.csv"

    return write


@pytest.fixture
def json_file(tmp_path: Path) -> Written:
    def write(text: str) -> Path:
        (tmp_path / "jobs.jsonl").write_text(text)
        return tmp_path / "jobs.jsonl"

    return write


class TestGeneralForm:
    def test_csv_and_json_lines_tell_the_same_jobs(self) -> None:
        vision, text, speech = read_job_trace(DATA / "general.csv")
        assert read_job_trace(DATA / "general.jsonl") == (vision, text, speech)
        assert vision.key == JobKey("team-a", "vision")
        assert vision.job_type is not None
        assert vision.job_type.name == "ResNet-50"
        assert (vision.counts, vision.bounds) == (Counts(2, 4), CountBounds(max_workers=8))
        assert vision.ps == Resources(cpu=1000, memory=4 * GIB)
        assert vision.worker == Resources({"cpu": 2500, "memory": 8 * GIB, GPU: 1})
        assert (vision.duration_seconds, vision.epochs, vision.priority) == (1800, 10, 100)
        assert vision.workload == "nightly"
        assert (text.mode, text.worker, text.duration_seconds) == (TrainingMode.ASYNC, None, 900)
        assert (speech.loss_goal, speech.counts) == (ConvergenceThreshold(0.03), Counts(1, 1))
        assert speech.submit_seconds == 600

    def test_instants_count_from_the_first_job(self, csv_file: Written) -> None:
        lines = "submit_time,epochs\n2026-03-01T10:00:30Z,2\n2026-03-01 11:00:00+01:00,3\n"
        late, early = read_job_trace(csv_file(lines))
        assert (late.submit_seconds, early.submit_seconds) == (30, 0)

    def test_jobs_without_a_name_are_numbered(self, csv_file: Written) -> None:
        names = [each.key for each in read_job_trace(csv_file("submit_time,steps\n5,10\n1,20\n"))]
        assert names == [JobKey("default", "job-00000"), JobKey("default", "job-00001")]

    def test_a_goal_a_deadline_and_a_rule(self, csv_file: Written) -> None:
        header = "submit_time,goal,deadline_seconds,rescale,kind\n"
        (job,) = read_job_trace(csv_file(f"{header}100,loss <= 0.5,60,never,mxjob\n"))
        assert job.loss_goal == TargetLoss(0.5)
        assert (job.finish_by_seconds, job.rescale) == (160, RescaleRule.NEVER)
        assert job.kind == "MXJob"

    @cases(
        ("text", "expected"),
        {
            "no work": ("submit_time\n1\n", "one of duration_seconds, steps"),
            "a column": ("submit_time,steps,colour\n1,2,red\n", "not 'colour'"),
            "no time and no number": ("submit_time,steps\nsoon,2\n", "2026-01-31T12:00:00Z"),
            "seconds and instants mixed": (
                "submit_time,steps\n1,2\n2026-01-31T12:00:00Z,2\n",
                "or in all lines instants",
            ),
            "bounds": ("submit_time,steps,min_ps,max_ps\n1,2,3,2\n", "at most their maximum"),
            "no loss as a goal": ("submit_time,goal\n1,accuracy>=0.7\n", "threshold=0.02"),
            "a speed too much": (
                "submit_time,steps,steps_per_second,duration_seconds\n1,2,3,4\n",
                "two of duration_seconds, steps and steps_per_second",
            ),
            "an epoch too much": (
                "submit_time,steps,epochs,steps_per_epoch\n1,2,3,4\n",
                "one of epochs and steps_per_epoch",
            ),
            "a name twice": ("submit_time,steps,name\n1,2,a\n3,4,a\n", "default/a is repeated"),
            "a speed of almost 0": (
                "submit_time,steps,steps_per_second\n0,1e12,1e-300\n",
                r"at most 1e\+09 s of training are expected, and its steps at its speed take inf s",
            ),
            "no job": ("submit_time,steps\n", "at least one job"),
            "no time": ("name,steps\na,1\n", "submit_time missing"),
        },
    )
    def test_says_what_is_wrong(self, csv_file: Written, text: str, expected: str) -> None:
        with pytest.raises(BadInput, match=expected):
            read_job_trace(csv_file(text))

    @cases(
        "text",
        {
            "a list": "[1]",
            "no JSON": '{"submit_time": ',
            "nested deeper than can be read": '{"submit_time": ' + 10_000 * "[",
            "an object as a value": '{"submit_time": 1, "steps": {}}',
        },
    )
    def test_a_line_of_json_is_an_object_of_plain_values(
        self, json_file: Written, text: str
    ) -> None:
        with pytest.raises(BadInput, match=r"jobs.jsonl:1: a JSON object"):
            read_job_trace(json_file(text))

    @pytest.mark.parametrize("name", ["\\ud800", "\\u0000", "a\\nb", "\\u001b[31m"])
    def test_a_name_can_be_printed(self, json_file: Written, name: str) -> None:
        line = f'{{"submit_time": 1, "steps": 2, "name": "{name}"}}'
        with pytest.raises(
            BadInput, match="names that can be printed are expected, found 'default/"
        ):
            read_job_trace(json_file(line))


SPEEDS = DATA / "simulation_throughputs.json"


class TestGavel:
    def test_steps_have_the_published_speed(self) -> None:
        alone, pair = read_gavel(DATA / "gavel.trace")
        assert (alone.steps, alone.steps_per_second) == (12000, 20)
        assert (pair.steps, pair.steps_per_second, pair.counts) == (40000, 16, Counts(0, 2))
        assert [each.kind_speeds for each in (alone, pair)] == [
            {"v100": 20, "k80": 4},
            {"v100": 16, "k80": 0},
        ]
        assert [each.weight for each in (alone, pair)] == [1, 1]
        own_seconds = 40000 / 16  # its SLO is a multiple of this
        assert (alone.finish_by_seconds, pair.finish_by_seconds) == (None, 120.5 + 2 * own_seconds)
        assert pair.job_type is not None
        assert (pair.job_type.name, pair.submit_seconds) == ("Seq2Seq", 120.5)

    def test_the_older_form_has_seven_columns(self, csv_file: Written) -> None:
        cells = ["Transformer (batch size 32)", "x", "-n"]
        older = csv_file("\t".join([*cells, "1", "40000", "120.5", "2"]))
        (found,) = read_gavel(older, SPEEDS)
        assert (found.steps, found.submit_seconds, found.counts) == (40000, 120.5, Counts(0, 2))
        assert (found.weight, found.finish_by_seconds) == (1, None)

    def test_the_weight_is_the_jobs(self, csv_file: Written) -> None:
        lines = (DATA / "gavel.trace").read_text().replace("\t1.0\t", "\t2.5\t")
        assert [each.weight for each in read_gavel(csv_file(lines), SPEEDS)] == [2.5, 2.5]

    def test_its_speeds_lie_beside_the_trace(self, csv_file: Written) -> None:
        with pytest.raises(FileNotFoundError, match=r"simulation_throughputs\.json"):
            read_gavel(csv_file("ResNet-18\n"))

    def test_says_what_is_wrong(self, csv_file: Written, json_file: Written) -> None:
        with pytest.raises(BadInput, match="10 values between tabs are expected, or 7, not 1"):
            read_gavel(csv_file("ResNet-18\n"), SPEEDS)
        line = (DATA / "gavel.trace").read_text().splitlines()[0].replace("size 64", "size 65")
        with pytest.raises(BadInput, match="no speed of 'ResNet-18"):
            read_gavel(csv_file(line), SPEEDS)
        with pytest.raises(BadInput, match="speeds on 'v100'"):
            read_gavel(DATA / "gavel.trace", json_file("{}"))


class TestDL2:
    def test_slots_are_cores_and_quarters_of_gpus(self) -> None:
        vision, words = read_form("dl2", DATA / "dl2.jsonl")
        assert vision.worker == Resources({"cpu": 2000, GPU: 1})
        assert words.worker == Resources(cpu=2000)
        assert vision.steps == 2300
        assert vision.steps_per_second == pytest.approx(1 / 5.5)
        assert (words.submit_seconds, words.kind) == (2400, "MXJob")
        assert words.bounds == CountBounds(max_ps=16, max_workers=16)

    def test_an_attribute_that_lacks_is_an_error(self, json_file: Written) -> None:
        with pytest.raises(BadInput, match="a JSON object with id, model"):
            read_form("dl2", json_file('{"id": 1}'))


def test_two_jobs_of_one_name_are_an_error_in_every_form(json_file: Written) -> None:
    line = (DATA / "dl2.jsonl").read_text().splitlines()[0]
    with pytest.raises(BadInput, match=r"dl2/job-.* is repeated"):
        read_form("dl2", json_file(f"{line}\n{line}\n"))
