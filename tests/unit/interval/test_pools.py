"""Each pool of nodes is shared among the jobs that its nodes admit."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from optimus.interval import Action
from optimus.interval.classify import Eligibility
from optimus.interval.share import pools_of
from optimus.jobs import Job, NodeConstraints, ReplicaSpec, Requirement, Toleration
from optimus.nodes import Node, Taint, refusal
from tests.cases import cases
from tests.unit.interval.cases import ON_NODE_00, Case
from tests.unit.interval.cluster import TASK, job, nodes, steps
from tests.unit.interval.cluster import classified as as_classified

TAINT = Taint("gpu", "yes")
TOLERATES = NodeConstraints(tolerations=(Toleration("gpu", "Exists"),))


def in_pool(pool: str, **more: object) -> NodeConstraints:
    return NodeConstraints(selector=(("pool", pool),), **more)  # type: ignore[arg-type]  # of a test table


def constrained(given_job: Job, constraints: NodeConstraints) -> Job:
    return replace(
        given_job, ps=ReplicaSpec(TASK, constraints), worker=ReplicaSpec(TASK, constraints)
    )


def extra_nodes(count: int, **settings: object) -> list[Node]:
    spare = [replace(node, name=f"more-{node.name}") for node in nodes(count, 16)]
    return [replace(node, **settings) for node in spare]  # type: ignore[arg-type]  # of a test table


def decided_counts(case: Case) -> dict[str, tuple[int, int]]:
    return {name: (each.counts.ps, each.counts.workers) for name, each in case.decisions().items()}


@cases(
    "settings_of_extra_nodes",
    {
        "not ready": {"taints": (Taint("node.kubernetes.io/unreachable", effect="NoExecute"),)},
        "tainted for others": {"taints": (TAINT,)},
        "cordoned": {"cordoned": True},
    },
)
def test_nodes_that_admit_no_job_do_not_change_the_counts(
    settings_of_extra_nodes: dict[str, object],
) -> None:
    jobs = [(job(name), ON_NODE_00) for name in "ab"]
    known = {"a": steps(2000), "b": steps(1900)}
    alone = decided_counts(Case(jobs, known, nodes(1, 16)))
    assert (
        decided_counts(
            Case(jobs, known, [*nodes(1, 16), *extra_nodes(9, **settings_of_extra_nodes)])
        )
        == alone
    )
    assert sum(alone["a"]) == sum(alone["b"]) == 8


def test_each_pool_is_shared_among_its_own_jobs() -> None:
    left, right = [
        replace(node, labels={"pool": pool}) for node, pool in zip(nodes(2, 16), "lr", strict=True)
    ]
    names = ("a", "b", "c")
    jobs = [(constrained(job(name), in_pool(pool)), [node.name] * 2) for name, pool, node in
            zip(names, "llr", (left, left, right), strict=True)]  # fmt: skip
    decided = decided_counts(Case(jobs, {name: steps(2000) for name in names}, [left, right]))
    assert [sum(decided[name]) for name in names] == [8, 8, 16]


def test_a_job_that_no_node_admits_waits_and_takes_no_capacity() -> None:
    lost = constrained(job("lost"), in_pool("nowhere"))
    decided = Case([(job("a"), ON_NODE_00), (lost, [])], {"a": steps(1000)}).decisions()
    assert decided["lost"].action is Action.WAIT
    assert sum(decided["a"].counts) == 8


CONSTRAINTS = st.sampled_from(
    [
        NodeConstraints(),
        TOLERATES,
        in_pool("l"),
        in_pool("r"),
        in_pool("l", tolerations=TOLERATES.tolerations),
        NodeConstraints(affinity=((Requirement("pool", "Exists"),),)),
        NodeConstraints(
            affinity=((Requirement("metadata.name", "In", ("node-00",), field=True),),)
        ),
    ]
)
NODES = st.lists(
    st.builds(
        Node,
        st.just("x"),
        st.just(TASK),
        st.sampled_from([{}, {"pool": "l"}, {"pool": "r"}]),
        st.sampled_from([(), (TAINT,)]),
        st.booleans(),
    ),
    max_size=6,
)


@given(constraints=st.lists(CONSTRAINTS, max_size=5), found=NODES)
def test_jobs_share_a_pool_if_a_chain_of_nodes_connects_them(
    constraints: Sequence[NodeConstraints], found: Sequence[Node]
) -> None:
    """Oracle: the transitive closure of 'some node admits both jobs'."""
    cluster = [replace(node, name=f"node-{index:02}") for index, node in enumerate(found)]
    jobs = [constrained(job(str(index)), each) for index, each in enumerate(constraints)]
    classified = [as_classified(each, Eligibility.WAITING, each.counts) for each in jobs]
    admitted = [
        {node.name for node in cluster if refusal(node, each.worker.constraints) is None}
        for each in jobs
    ]
    reach = {
        (a, b)
        for a in range(len(jobs))
        for b in range(len(jobs))
        if a == b or admitted[a] & admitted[b]
    }
    reach |= {
        (a, b)
        for a in range(len(jobs))
        for b in range(len(jobs))
        if constraints[a] == constraints[b]
    }
    while len(wider := reach | {(a, d) for a, b in reach for c, d in reach if b == c}) > len(reach):
        reach = wider
    pools = [
        ({int(each.job.key.name) for each in pool.jobs}, [node.name for node in pool.nodes])
        for pool in pools_of(classified, cluster)
    ]
    assert sorted(number for members, _ in pools for number in members) == list(range(len(jobs)))
    for members, names in pools:
        assert all((a, b) in reach for a in members for b in members)
        assert set(names) == {name for each in members for name in admitted[each]}
    for (some, _), (others, _) in pairwise(pools):
        assert not any((a, b) in reach for a in some for b in others)
