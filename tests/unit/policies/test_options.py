"""Options of a policy from plain values, as a file holds them."""

import pytest

from optimus.allocation.options import with_options
from optimus.policies import POLICIES, policy_named, policy_options
from optimus.policies.gavel_las import GavelLasPolicy
from optimus.policies.optimus import OptimusPolicy
from optimus.policies.optimus_paper import OptimusPaperPolicy, StopRule, Tie


def test_options_that_are_not_given_keep_their_defaults() -> None:
    made = with_options(OptimusPolicy, {"min-gain-fraction": 0, "look-ahead": 3})
    assert made == OptimusPolicy(min_gain_fraction=0.0, look_ahead=3)
    assert with_options(OptimusPaperPolicy, {"stop": "task"}) == OptimusPaperPolicy(
        stop=StopRule.TASK, tie=Tie.PS
    )
    assert with_options(GavelLasPolicy, {"tells-kinds": False}) == GavelLasPolicy(tells_kinds=False)


@pytest.mark.parametrize(
    ("policy", "options", "sentence"),
    [
        pytest.param("drf", {"a": 1}, "there is no option 'a': it has none", id="has no options"),
        pytest.param(
            "optimus",
            {"lookahead": 1},
            "there is no option 'lookahead': its options are min-gain-fraction, look-ahead",
            id="a wrong name",
        ),
        pytest.param(
            "optimus",
            {"look-ahead": 2.5},
            "look-ahead: a whole number of 0 or more is expected, not 2.5",
            id="a fraction of a task",
        ),
        pytest.param(
            "optimus",
            {"min-gain-fraction": float("nan")},
            "min-gain-fraction: a number of 0 or more is expected, not nan",
            id="not a number",
        ),
        pytest.param(
            "gavel-las",
            {"tells-kinds": 1},
            "tells-kinds: true or false is expected, not 1",
            id="a number for a switch",
        ),
        pytest.param(
            "optimus-paper",
            {"tie": "chief"},
            "tie: ps or worker is expected, not 'chief'",
            id="a value that is not among the names",
        ),
    ],
)
def test_an_option_that_cannot_be_used_is_refused_with_a_sentence(
    policy: str, options: dict[str, object], sentence: str
) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        policy_named(policy, options)
    assert str(caught.value) == sentence


@pytest.mark.parametrize("policy", POLICIES)
def test_every_policy_is_made_without_options(policy: str) -> None:
    assert policy_named(policy).name == policy


def test_a_file_of_options_names_policies_and_their_options() -> None:
    read = policy_options({"gavel-las": {"reset-seconds": 600}, "optimus-paper": None})
    assert read == {"gavel-las": {"reset-seconds": 600}, "optimus-paper": {}}
    assert policy_options(None) == {}


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        pytest.param(
            ["optimus"], "a mapping of policies is expected, not ['optimus']", id="a list"
        ),
        pytest.param(
            {"sjf": {}}, f"there is no policy 'sjf': there are {', '.join(POLICIES)}", id="a name"
        ),
        pytest.param(
            {"drf": 1}, "a mapping of options of drf is expected, not 1", id="a value for options"
        ),
        pytest.param(
            {"optimus": {"look-ahead": "far"}},
            "optimus: look-ahead: a whole number of 0 or more is expected, not 'far'",
            id="a value that an option does not take",
        ),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_with_a_sentence(
    value: object, sentence: str
) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        policy_options(value)
    assert str(caught.value) == sentence
