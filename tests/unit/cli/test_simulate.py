"""``optimus simulate``: arguments, printed results, files and errors."""

import json
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import pytest

from optimus.cli.command import BadInput
from optimus.cli.main import main
from optimus.cli.node_groups import parse_arithmetic, parse_nodes
from optimus.cli.simulate import Comparison
from optimus.cli.trace_formats import read_form
from optimus.jobs import RescaleRule
from optimus.nodes import NODE_KIND_LABEL, NODE_PRICE_LABEL
from optimus.policies import POLICIES
from optimus.simulator.engine import WorkloadError
from optimus.simulator.files import JOB_COLUMNS
from optimus.simulator.forecasts import TrueForecasts
from optimus.simulator.jobs import Checkpoints
from optimus.simulator.stops import Stops
from optimus.simulator.summary import summarise
from optimus.simulator.trace_workload import SubmittedWorkload
from optimus.simulator.workload import WORKLOADS
from tests.cases import cases
from tests.unit.cli.conftest import CommandLine

DATA = Path(__file__).parents[2] / "data"
SMALL = ["--policies", "drf,fifo", "--jobs", "3", "--seeds", "2"]


@pytest.fixture(scope="module")
def printed() -> str:
    """What ``SMALL`` prints."""
    with redirect_stdout(StringIO()) as output:
        assert main(["simulate", *SMALL]) == 0
    return output.getvalue()


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What ``SMALL`` writes in one process, into a folder that was not there."""
    folder = tmp_path_factory.mktemp("written") / "new" / "folder"
    with redirect_stdout(StringIO()):
        assert main(["simulate", *SMALL, "--output", str(folder), "--processes", "1"]) == 0
    return folder


class TestPolicyConfig:
    JOBS = (
        *("--policies", "optimus", "--jobs", "3", "--seeds", "1"),
        *("--nodes", "3:cpu=16,memory=80"),
    )

    @cases(
        "text",
        {
            "JSON": '{"optimus": {"min-gain-fraction": 0.9}}',
            "YAML": "optimus:\n  min-gain-fraction: 0.9\n",
        },
    )
    def test_a_policy_decides_with_its_options(
        self, cli: CommandLine, tmp_path: Path, text: str
    ) -> None:
        file = tmp_path / "options"
        file.write_text(text)
        usual = cli.text("simulate", *self.JOBS)
        assert cli.text("simulate", *self.JOBS, "--policy-config", str(file)) != usual

    @cases(
        ("text", "fragment"),
        {
            "a policy that there is not": ("sjf: {}", "there is no policy 'sjf'"),
            "no such option": ("drf: {a: 1}", "drf: there is no option 'a': it has none"),
            "neither YAML nor JSON": ("{", "YAML or JSON is expected"),
        },
    )
    def test_what_cannot_be_used_is_one_line(
        self, cli: CommandLine, tmp_path: Path, text: str, fragment: str
    ) -> None:
        file = tmp_path / "options.yaml"
        file.write_text(text)
        error = cli.error("simulate", *self.JOBS, "--policy-config", str(file))
        assert str(file) in error
        assert fragment in error


class TestResults:
    def test_the_table_has_a_row_for_each_policy(self, printed: str) -> None:
        judged, heading, rows, *_ = printed.split("\n\n")
        assert judged.startswith("drf ")
        assert heading.startswith("3 jobs (uniform), 2 seeds")
        assert [line.split()[0] for line in rows.splitlines()[1:]] == ["drf", "fifo"]

    def test_all_names_every_policy(self, cli: CommandLine) -> None:
        text = cli.text("simulate", "--policies", "all", "--jobs", "2", "--seeds", "1")
        rows = text.split("\n\n")[2].splitlines()[1:]
        assert [line.split()[0] for line in rows] == [*POLICIES, "fixed"]

    def test_the_json_has_figures_of_every_policy_by_seed(self, cli: CommandLine) -> None:
        found = cli.json("simulate", *SMALL, "--seed", "7")
        assert (found["jobs"], found["seeds"], found["ratios_to"]) == (3, [7, 8], "drf")
        assert len(found["policies"]["fifo"]["figures"]["makespan_seconds"]["by_seed"]) == 2

    def test_output_writes_result_files(self, written: Path) -> None:
        assert {path.name for path in written.iterdir()} == {
            "results.json",
            "jobs.csv",
            "timeline.csv",
            "forecasts.csv",
        }
        lines = (written / "jobs.csv").read_text().splitlines()
        assert lines[0] == ",".join(JOB_COLUMNS)
        assert len(lines) == 1 + 2 * 2 * 3

    def test_other_nodes_change_the_results(self, cli: CommandLine, printed: str) -> None:
        nodes = ["--nodes", "1:cpu=16,memory=64", "2:cpu=7.5,memory=40,gpu=2"]
        assert cli.text("simulate", *SMALL, *nodes) != printed

    def test_untouched_jobs_take_less_at_counts_that_their_users_know(
        self, cli: CommandLine
    ) -> None:
        few = ("--policies", "fixed", "--jobs", "3", "--seeds", "1", "--json")
        small, sensible, best = (
            json.loads(cli.text("simulate", *few, *more))["policies"]["fixed"]["figures"]
            for more in ((), ("--counts", "sensible"), ("--counts", "best"))
        )
        seconds = [each["average_jct_seconds"]["mean"] for each in (small, sensible, best)]
        assert seconds == sorted(seconds, reverse=True)
        assert small["restarts_per_job"]["mean"] == 0


class TestErrors:
    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["--nodes", "3"], "a count and amounts above 0 of cpu, memory"),
            (["--nodes", "0:cpu=4"], "not '0:cpu=4'"),
            (["--nodes", "2:cpu=nan"], "not '2:cpu=nan'"),
            (["--nodes", "2:cpu=4,tpu=1"], "not '2:cpu=4,tpu=1'"),
            (["--nodes", "2:cpu=-4"], "not '2:cpu=-4'"),
            (
                ["--nodes", "2:cpu=4,cpu=8"],
                "each once, are expected, like 6:cpu=8,memory=48,gpu=2, not '2:cpu=4,cpu=8'",
            ),
            (["--nodes", "2:cpu=4,gpu=0.5"], "not '2:cpu=4,gpu=0.5'"),
            (["--nodes", "2:cpu=4,speed=0"], "and a speed of at most 1, each once, are expected"),
            (["--nodes", "2:cpu=4,speed=2"], "not '2:cpu=4,speed=2'"),
            (["--nodes", "1:cpu=1,memory=1"], "job-0000 does not fit on the empty cluster"),
        ],
    )
    def test_a_wrong_argument_is_reported_in_one_line(
        self, cli: CommandLine, arguments: list[str], message: str
    ) -> None:
        assert message in cli.error("simulate", "--jobs", "3", "--seeds", "1", *arguments)

    def test_an_output_path_that_is_a_file_is_refused(
        self, cli: CommandLine, tmp_path: Path
    ) -> None:
        (tmp_path / "file").write_text("")
        assert "a folder is expected" in cli.error(
            "simulate", *SMALL, "--output", str(tmp_path / "file")
        )

    @pytest.mark.parametrize(
        "arguments",
        [
            ["--policies", ","],
            ["--jobs", "0"],
            ["--seeds", "1.5"],
            ["--seed", "-1"],
        ],
    )
    def test_invalid_options_exit_with_status_2(
        self, cli: CommandLine, arguments: list[str]
    ) -> None:
        assert "expected" in cli.refused("simulate", *arguments)

    def test_a_misspelt_policy_is_named_with_the_one_that_may_be_meant(
        self, cli: CommandLine
    ) -> None:
        assert "there is no 'opimus'; did you mean optimus?" in cli.refused(
            "simulate", "--policies", "drf,opimus"
        )


class TestKindsOfNodes:
    def test_are_the_groups_where_any_names_a_speed(self) -> None:
        texts = ["1:cpu=16,memory=64", "2:cpu=8,memory=40,speed=0.5"]
        kinds = {node.name: node.labels[NODE_KIND_LABEL] for node in parse_nodes(texts)}
        assert kinds == {"a-0000": "a", "b-0000": "b", "b-0001": "b"}
        assert parse_arithmetic(texts) == {"a": 1.0, "b": 0.5}

    def test_have_names_and_prices_of_their_own(self) -> None:
        fast, slow = parse_nodes(["1:gpu=1,kind=v100,price=2.5", "1:gpu=1,kind=k80"])
        assert fast.labels == {NODE_KIND_LABEL: "v100", NODE_PRICE_LABEL: "2.5"}
        assert slow.labels == {NODE_KIND_LABEL: "k80"}
        assert parse_arithmetic(["1:gpu=1,kind=v100,price=2.5"]) == {}

    @pytest.mark.parametrize("text", ["1:cpu=4,kind=", "1:cpu=4,kind=a,kind=b", "1:cpu=4,price=0"])
    def test_what_is_wrong_with_them_is_said(self, text: str) -> None:
        with pytest.raises(BadInput, match="each once, are expected"):
            parse_nodes([text])

    def test_slow_nodes_slow_the_jobs(self, cli: CommandLine) -> None:
        one = ("--policies", "gavel-las", "--jobs", "2", "--seeds", "1", "--json", "--nodes")
        seconds = [
            json.loads(cli.text("simulate", *one, f"2:cpu=16,memory=64,speed={speed}"))["policies"][
                "gavel-las"
            ]["figures"]["average_jct_seconds"]["mean"]
            for speed in ("1", "0.2")
        ]
        assert seconds[1] > 1.2 * seconds[0]


def test_a_job_that_is_always_stopped_before_its_checkpoint_is_named() -> None:
    # DRF stops a job that was trimmed every 600 s, and saves are as far apart.
    stops = Stops(Checkpoints(every_seconds=600.0), RescaleRule.CHECKPOINT)
    with pytest.raises(WorkloadError, match="is stopped before each checkpoint and never ends"):
        Comparison(maker=WORKLOADS["uniform"], jobs=8, stops=stops).run(("drf", 1))


class TestTraces:
    DATA = Path(__file__).parents[2] / "data" / "traces"
    NODES = ("--nodes", "6:cpu=32,memory=256,gpu=4", "--policies", "drf", "--seeds", "1", "--json")

    @pytest.mark.parametrize(
        ("form", "name", "jobs"),
        [
            ("general", "general.csv", 3),
            ("general", "general.jsonl", 3),
            ("gavel", "gavel.trace", 2),
            ("dl2", "dl2.jsonl", 2),
        ],
    )
    def test_every_form_is_simulated(
        self, cli: CommandLine, form: str, name: str, jobs: int
    ) -> None:
        trace = ["--trace", str(self.DATA / name), "--trace-format", form]
        found = json.loads(cli.text("simulate", *trace, *self.NODES))
        assert (found["workload"], found["jobs"]) == (name.partition(".")[0], jobs)

    GAVEL = (
        *("--trace", str(DATA / "gavel.trace"), "--trace-format", "gavel"),
        *("--seeds", "1", "--json"),
    )

    def test_gavels_jobs_have_the_speed_of_their_kind_and_a_price(self) -> None:
        """12,000 steps at 20 a second, and 40,000 at 16, which wait for a round."""
        nodes = parse_nodes(["3:gpu=1,kind=v100,price=2", "3:gpu=1,kind=k80,price=0.5"])
        jobs = read_form("gavel", self.DATA / "gavel.trace")
        compared = Comparison(
            maker=SubmittedWorkload("gavel", jobs, nodes),
            jobs=2,
            forecasts=TrueForecasts(),
            stops=Stops(costless=True),
        )
        las, fifo = summarise([compared.run((policy, 1)) for policy in ("gavel-las", "fifo")])
        assert las.figures["average_jct_seconds"].mean == pytest.approx((600 + 239.5 + 2500) / 2)
        hours = (600 + 2 * 2500) / 3600 / 2
        assert las.figures["cost_per_job"].mean == pytest.approx(2 * hours)
        least = fifo.figures["average_jct_seconds"].mean
        assert least is not None
        assert 1550 <= least <= (3000 + 2500) / 2

    def test_gavels_speeds_are_of_kinds_and_not_of_nodes(self, cli: CommandLine) -> None:
        said = cli.error("simulate", *self.GAVEL, "--nodes", "3:gpu=1,speed=0.5")
        assert "kind=v100 and the like are expected" in said

    def test_a_name_that_is_not_utf_8_is_no_error(self, cli: CommandLine, tmp_path: Path) -> None:
        trace = tmp_path / "b\udcff.csv"
        trace.write_text("submit_time,duration_seconds\n0,60\n")
        printed = cli.text("simulate", "--trace", str(trace), *self.NODES)
        assert json.loads(printed)["workload"] == "b?"

    def test_jobs_limits_a_trace(self, cli: CommandLine) -> None:
        trace = ["--trace", str(self.DATA / "general.csv"), "--jobs", "2"]
        assert json.loads(cli.text("simulate", *trace, *self.NODES))["jobs"] == 2

    def test_a_trace_stands_alone(self, cli: CommandLine) -> None:
        trace = ["--trace", str(self.DATA / "general.csv")]
        assert "--trace stands alone" in cli.error("simulate", *trace, "--workload", "bursts")
        assert "--trace stands alone" in cli.error("simulate", *trace, "--workloads", "images")

    def test_a_job_that_fits_nowhere_names_the_trace(self, cli: CommandLine) -> None:
        trace = ["--trace", str(self.DATA / "general.csv"), "--seeds", "1"]
        error = cli.error("simulate", *trace, "--nodes", "2:cpu=4,memory=64")
        assert "general.csv" in error
        assert "team-a/vision does not fit" in error
