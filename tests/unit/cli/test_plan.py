"""``optimus plan``: plans of job tables, and errors in tables and arguments."""

import csv
from pathlib import Path

import pytest

from optimus.cli.job_table import read_job_table
from optimus.cli.plan import POOL_POLICIES, UNPLACED_SECONDS, equal_nodes, plan, policy_for_tables
from optimus.resources import Resources
from tests.cases import cases
from tests.unit.cli.conftest import CommandLine

DATA = Path(__file__).parents[2] / "data" / "allocation"
JOBS = DATA / "jobs_100.csv"
NODE = Resources(cpu=16000, memory=48 << 30, bandwidth=10000, gpu=2)
ROW = "a,0,100,32,0.25,0.1,0.3,0.01,0.01,2,6,0,1,6,0,0"


def table(tmp_path: Path, *rows: str) -> Path:
    file = tmp_path / "jobs.csv"
    file.write_text("\n".join(rows) + "\n")
    return file


def cell(name: int, value: str) -> str:
    cells = ROW.split(",")
    cells[name] = value
    return ",".join(cells)


@pytest.mark.parametrize("policy", POOL_POLICIES)
def test_every_task_has_a_node_and_no_node_is_over_committed(cli: CommandLine, policy: str) -> None:
    answer = cli.json("plan", "--jobs", JOBS, "--nodes", "60", "--policy", policy)
    with JOBS.open() as file:
        rows = {row[0]: row for row in csv.reader(file)}
    used: dict[str, list[float]] = {}
    seconds, tasks = 0.0, 0
    for uid, job in answer["jobs"].items():
        q, m, *terms = map(float, rows[uid][2:9])
        p, w = job["ps"], job["workers"]
        if not w:
            continue  # a published policy may grant what does not fit on the nodes
        assert [sum(column) for column in zip(*job["nodes"].values(), strict=True)] == [p, w]
        seconds += q * (
            terms[0] * m / w + terms[1] + terms[2] * w / p + terms[3] * w + terms[4] * p
        )
        tasks += p + w
        for node, (ps, workers) in job["nodes"].items():
            here = used.setdefault(node, [0, 0])
            here[0] += ps * float(rows[uid][9]) + workers * float(rows[uid][12])
            here[1] += 6 * (ps + workers)
    assert all(cpu <= 16 and memory <= 48 for cpu, memory in used.values())
    assert len(used) <= 60
    whole_jobs = sum(job["workers"] > 0 for job in answer["jobs"].values())
    assert answer["objective"] == pytest.approx(seconds + (100 - whole_jobs) * UNPLACED_SECONDS)
    assert (answer["whole_jobs"], answer["tasks"]) == (whole_jobs, tasks)
    assert whole_jobs == 100 or policy != "optimus"


def test_optimus_paper_gives_the_authors_counts_on_enough_nodes(cli: CommandLine) -> None:
    answer = cli.json("plan", "--jobs", JOBS, "--nodes", "1000", "--policy", "optimus-paper")
    with (DATA / "counts_100_jobs_1000_nodes.csv").open() as file:
        expected = {uid: (int(ps), int(workers)) for uid, ps, workers in csv.reader(file)}
    found = {uid: (job["ps"], job["workers"]) for uid, job in answer["jobs"].items()}
    assert found == expected


def test_optimus_has_no_larger_objective_than_optimus_paper_on_enough_nodes(
    cli: CommandLine,
) -> None:
    answer = cli.json("plan", "--jobs", JOBS, "--nodes", "1000", "--policy", "optimus")
    assert answer["objective"] <= 18978.95
    assert answer["whole_jobs"] == 100


def test_a_header_line_is_skipped(tmp_path: Path) -> None:
    header = "id,arrival,Q,M,t0,t1,t2,t3,t4,ps cpu,ps mem,ps bw,worker cpu,worker mem,worker bw,gpu"
    assert [each.job.uid for each in read_job_table(table(tmp_path, header, "", ROW), NODE)] == [
        "a"
    ]


def test_fractions_are_rounded_up_to_millicores_and_bytes(tmp_path: Path) -> None:
    (candidate,) = read_job_table(table(tmp_path, cell(9, "0.0005")), NODE)
    assert candidate.job.ps.resources == Resources(cpu=1, memory=6 << 30)


def test_jobs_that_do_not_fit_are_listed_with_a_reason(tmp_path: Path, cli: CommandLine) -> None:
    file = table(tmp_path, *(ROW.replace("a,", f"{number},", 1) for number in range(8)))
    answer = cli.json("plan", "--jobs", str(file), "--nodes", "1")
    assert (answer["whole_jobs"], answer["tasks"]) == (4, 8)
    assert answer["objective"] > 4e9
    assert answer["jobs"]["7"] == {"ps": 0, "workers": 0, "nodes": {}}
    assert "too little" in cli.text("plan", "--jobs", file, "--nodes", "1")


def test_the_plan_does_not_depend_on_the_order_of_the_tables_lines(tmp_path: Path) -> None:
    lines = JOBS.read_text().splitlines()
    plans = []
    for rows in (lines, lines[::-1]):
        candidates = read_job_table(table(tmp_path, *rows), NODE)
        found = plan(candidates, equal_nodes(60, NODE), policy_for_tables("optimus"), "theorem1")
        plans.append({each.job.uid: found.nodes(each.job.uid) for each in candidates})
    assert plans[0] == plans[1]


BAD_TABLES = [
    ("a short line", [ROW, "b,1,2"], "jobs.csv:2: 3 columns; 16 columns are expected"),
    (
        "no number",
        [ROW.replace("0.25", "fast")],
        "jobs.csv:1: a number from 0 to 1e+12 is expected as t0, found 'fast'",
    ),
    ("an id twice", [ROW, ROW], "jobs.csv:2: job a is in line 1 already"),
    ("no id", [cell(0, " ")], "jobs.csv:1: an id is expected"),
    (
        "a PS that asks for nothing",
        [cell(9, "0").replace("0,6,0,1", "0,0,0,1")],
        "jobs.csv:1: a ps that requests noth",
    ),
    (
        "a worker larger than a node",
        [ROW[:-1] + "3"],
        "jobs.csv:1: a worker of job a requests 3 gpu, and a node has 2",
    ),
    ("part of a GPU", [ROW[:-1] + "0.5"], "jobs.csv:1: worker_gpu is 0.5; a whole number"),
    ("no batch", [cell(3, "0")], "jobs.csv:1: M, the batch, is 0"),
    ("no time at all", ["a,0,100,32,0,0,0,0,0,2,6,0,1,6,0,0"], "jobs.csv:1: t0 to t4 are all 0"),
    ("no jobs", [""], "jobs.csv: at least one job"),
    ("a header alone", ["id,arrival,Q"], "jobs.csv: at least one job"),
]


@pytest.mark.parametrize(
    ("rows", "message"), [case[1:] for case in BAD_TABLES], ids=[case[0] for case in BAD_TABLES]
)
def test_an_invalid_table_is_reported_in_one_line(
    tmp_path: Path, cli: CommandLine, rows: list[str], message: str
) -> None:
    assert message in cli.error("plan", "--jobs", table(tmp_path, *rows), "--nodes", "3")


def test_a_table_that_is_not_text_is_refused(tmp_path: Path, cli: CommandLine) -> None:
    for content in (b"\xff\xfe\x00\x01", b"a,\0,b"):
        (tmp_path / "jobs.csv").write_bytes(content)
        said = cli.error("plan", "--jobs", tmp_path / "jobs.csv", "--nodes", "3")
        assert "jobs.csv: a text file (CSV in UTF-8) is expected" in said


@cases(
    ("arguments", "message"),
    {
        "no nodes": (["--nodes", "0"], "--nodes: '0'; a whole number from 1"),
        "unknown resource": (
            ["--nodes", "3", "--node", "cpu=16,tpu=2"],
            "--node: 'tpu=2'; each of cpu",
        ),
        "no amount": (["--nodes", "3", "--node", "cpu"], "--node: 'cpu'; NAME=AMOUNT"),
        "amount not a number": (
            ["--nodes", "3", "--node", "cpu=nan"],
            "--node: 'cpu=nan'; NAME=AMOUNT",
        ),
        "nothing": (
            ["--nodes", "3", "--node", "cpu=0"],
            "--node: 'cpu=0'; a node with some resource",
        ),
        "too little": (["--nodes", "3", "--node", "memory=48"], "requests 2 cpu, and a node has 0"),
    },
)
def test_invalid_arguments_are_reported(
    tmp_path: Path, cli: CommandLine, arguments: list[str], message: str
) -> None:
    given = (
        arguments if "--jobs" in arguments else ["--jobs", str(table(tmp_path, ROW)), *arguments]
    )
    assert message in cli.error("plan", *given)
