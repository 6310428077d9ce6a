"""``optimus simulate`` from its arguments to its answers, files and complaints."""

import json
from pathlib import Path

import pytest

from optimus.cli.main import main
from optimus.cli.trace import COLUMNS
from optimus.simulator.files import JOB_COLUMNS

SMALL = ["--policies", "drf,fifo", "--jobs", "5", "--seeds", "2"]
TRACE = ",".join(COLUMNS) + "\n0,ResNet-50,sync,0.03,\n60,Seq2Seq,async,0.02,2000\n"


def simulated(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    status = main(["simulate", *arguments])
    printed = capsys.readouterr()
    assert (status, printed.err) == (0, "")
    return printed.out


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["simulate", *arguments]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    return printed.err


class TestAnswers:
    def test_the_table_compares_the_policies(self, capsys: pytest.CaptureFixture[str]) -> None:
        lines = simulated(capsys, *SMALL).splitlines()
        assert lines[0].startswith("5 jobs (uniform), 2 seeds")
        assert [line.split()[0] for line in lines[3:]] == ["drf", "fifo"]

    def test_the_json_has_every_policy_with_every_seed(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        found = json.loads(simulated(capsys, *SMALL, "--seed", "7", "--json"))
        assert (found["jobs"], found["seeds"], found["ratios_to"]) == (5, [7, 8], "drf")
        assert len(found["policies"]["fifo"]["figures"]["makespan_seconds"]["by_seed"]) == 2

    def test_the_same_arguments_write_the_same_bytes_on_one_core_or_two(
        self, capsys: pytest.CaptureFixture[str], tmp_path: Path
    ) -> None:
        for name, processes in (("one", "1"), ("two", "2")):
            simulated(capsys, *SMALL, "--output", str(tmp_path / name), "--processes", processes)
        for name in ("results.json", "jobs.csv", "timeline.csv", "forecasts.csv"):
            assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()

    def test_output_holds_files_and_plots(
        self, capsys: pytest.CaptureFixture[str], tmp_path: Path
    ) -> None:
        simulated(capsys, *SMALL, "--output", str(tmp_path / "new" / "folder"))
        written = {path.name for path in (tmp_path / "new" / "folder").iterdir()}
        assert written == {
            "results.json",
            "jobs.csv",
            "timeline.csv",
            "forecasts.csv",
            "jct.png",
            "tasks.png",
            "allocations.png",
            "forecasts.png",
        }
        lines = (tmp_path / "new" / "folder" / "jobs.csv").read_text().splitlines()
        assert lines[0] == ",".join(JOB_COLUMNS)
        assert len(lines) == 1 + 2 * 2 * 5

    def test_a_trace_is_replayed(self, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
        trace = tmp_path / "jobs.csv"
        trace.write_text(TRACE)
        found = json.loads(
            simulated(
                capsys, "--workload", str(trace), "--policies", "drf", "--seeds", "1", "--json"
            )
        )
        assert (found["workload"], found["jobs"]) == ("jobs", 2)

    def test_other_nodes_make_a_difference(self, capsys: pytest.CaptureFixture[str]) -> None:
        nodes = ["--nodes", "1:cpu=16,memory=64", "2:cpu=7.5,memory=40,gpu=2"]
        assert simulated(capsys, *SMALL) != simulated(capsys, *SMALL, *nodes)

    def test_whoever_knows_the_truth_errs_in_no_epoch(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        arguments = [
            "--policies",
            "optimus",
            "--jobs",
            "3",
            "--seeds",
            "1",
            "--forecast",
            "truth",
            "--json",
        ]
        arguments += ["--nodes", "4:cpu=8,memory=48"]
        figures = json.loads(simulated(capsys, *arguments))["policies"]["optimus"]["figures"]
        assert figures["convergence_error"]["mean"] == pytest.approx(0, abs=1e-9)
        assert figures["profiling_runs_per_job"]["mean"] == 0

    def test_the_placement_can_be_chosen(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert simulated(capsys, *SMALL, "--placement", "theorem1") != simulated(capsys, *SMALL)


class TestComplaints:
    @pytest.mark.parametrize(
        ("arguments", "complaint"),
        [
            (["--workload", "missing.csv"], "missing.csv: No such file"),
            (
                ["--workload", "sometimes"],
                "or a file that ends in .csv is expected, not 'sometimes'",
            ),
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
            (["--nodes", "1:cpu=1,memory=1"], "job-0000 does not fit on the empty cluster"),
        ],
    )
    def test_each_is_one_line_that_says_what_was_expected(
        self, capsys: pytest.CaptureFixture[str], arguments: list[str], complaint: str
    ) -> None:
        assert complaint in refused(capsys, "--jobs", "3", "--seeds", "1", *arguments)

    def test_a_bad_line_of_a_trace_is_named(
        self, capsys: pytest.CaptureFixture[str], tmp_path: Path
    ) -> None:
        trace = tmp_path / "jobs.csv"
        trace.write_text(TRACE + "never,ResNet-50,sync,0.03,\n")
        assert f"{trace}:4: a number from 0 to 1e+09 is expected as arrival_seconds" in refused(
            capsys, "--workload", str(trace)
        )

    def test_a_binary_file_is_no_trace(
        self, capsys: pytest.CaptureFixture[str], tmp_path: Path
    ) -> None:
        trace = tmp_path / "jobs.csv"
        trace.write_bytes(b"\xff\xfe\x00\x81")
        assert f"{trace}: a text file (CSV in UTF-8) is expected" in refused(
            capsys, "--workload", str(trace)
        )

    def test_a_file_is_no_folder(self, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        assert "a folder is expected" in refused(capsys, *SMALL, "--output", str(tmp_path / "file"))

    @pytest.mark.parametrize(
        "arguments",
        [
            ["--policies", "best"],
            ["--policies", ","],
            ["--jobs", "0"],
            ["--seeds", "1.5"],
            ["--seed", "-1"],
        ],
    )
    def test_arguments_out_of_range_end_with_the_usage(
        self, capsys: pytest.CaptureFixture[str], arguments: list[str]
    ) -> None:
        with pytest.raises(SystemExit, match="2"):
            main(["simulate", *arguments])
        assert "expected" in capsys.readouterr().err
