"""What a profile says of the end that a program or its user declares."""

import pytest

from tests.cases import cases
from tests.unit.autoscaler.controller_harness import ControllerHarness
from tests.unit.autoscaler.fake_cluster import FakeCluster
from tests.unit.autoscaler.fake_job import tf_job


def declared_end(**annotations: str) -> str:
    cluster = FakeCluster()
    harness = ControllerHarness(cluster, expects=False)
    cluster.submit(tf_job("a", 1, 2, min_ps="1", min_workers="1", **annotations))
    harness.run(240)
    return harness.status("a").declared_end


# The loss of the job is 1 / (0.5 k + 1) + 0.05 after k epochs.
@pytest.mark.parametrize(
    ("target", "said", "least", "most"),
    [
        ("0.08", "its goal is met by then with a probability of ", 90, 100),
        ("1e-6", "goal unlikely: ", 0, 50),
    ],
)
def test_the_probability_of_meeting_the_goal_by_the_end_is_shown(
    target: str, said: str, least: int, most: int
) -> None:
    found = declared_end(target_loss=target, lr_schedule="constant:1000")
    assert found.startswith(f"after 1000 epochs; {said}")
    probability = found.partition(said)[2].removesuffix("%")
    assert least <= int(probability) <= most


@cases(
    "annotations",
    {
        "no end is declared": {"target_loss": "0.08"},
        "a goal in epochs": {"target_epochs": "1000", "lr_schedule": "constant:2000"},
    },
)
def test_nothing_is_shown_where_it_would_say_nothing(annotations: dict[str, str]) -> None:
    assert declared_end(**annotations) == ""


def test_an_unlikely_goal_is_said_everywhere_in_the_same_words() -> None:
    cluster = FakeCluster()
    harness = ControllerHarness(cluster)
    cluster.submit(
        tf_job(
            "a", 1, 2, min_ps="1", min_workers="1", target_loss="0.01", lr_schedule="constant:99"
        )
    )
    harness.run(240)
    status = harness.status("a")
    said = status.declared_end.partition("; ")[2]
    assert said.startswith("goal unlikely: ")
    (condition,) = (each for each in status.conditions if each.reason == "GoalUnlikely")
    assert condition.message.startswith(said.partition(":")[0])
    (text,) = cluster.messages("GoalUnlikely")
    assert "goal unlikely: " in text
