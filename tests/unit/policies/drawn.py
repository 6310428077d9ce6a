"""Problems drawn at random, small enough for slow answers."""

from hypothesis import strategies as st

from optimus.allocation import AllocationProblem
from optimus.jobs import CountBounds
from optimus.resources import Resources
from tests.unit.policies.problems import PaperSpeed, candidate, problem

speeds = st.builds(
    PaperSpeed,
    st.floats(1, 30),
    st.floats(0.01, 1),
    st.floats(0, 1),
    st.floats(0, 0.05),
    st.floats(0, 0.05),
)

bounds = st.builds(
    CountBounds,
    st.integers(1, 3),
    st.one_of(st.none(), st.integers(3, 6)),
    st.integers(1, 3),
    st.one_of(st.none(), st.integers(3, 6)),
)

tasks = st.builds(
    lambda cpu, gpu: Resources({"cpu": cpu, "gpu": gpu}),
    st.sampled_from([500, 1000, 2000]),
    st.sampled_from([0, 0, 1]),
)


@st.composite
def problems(draw: st.DrawFn) -> AllocationProblem:
    count = draw(st.integers(0, 5))
    candidates = [
        candidate(
            f"job-{index}",
            draw(speeds),
            draw(st.sampled_from([0.0, 10.0, 1000.0])),
            ps=draw(tasks),
            worker=draw(tasks),
            bounds=draw(bounds),
            may_grow=draw(st.booleans()),
            running=draw(st.booleans()),
            created_at=draw(st.sampled_from([0.0, 1.0])),
        )
        for index in range(count)
    ]
    return problem(
        Resources(cpu=draw(st.integers(0, 40)) * 1000, gpu=draw(st.integers(0, 8))), *candidates
    )
