"""Scenarios that the operator matters to: a gang placed, resized by way of its checkpoint, changed
by somebody else, and completed."""

from tests.scenarios.test_changed_replicas import (
    test_the_policy_denies_it_and_the_job_trains_on,
    test_without_the_policy_a_job_that_was_made_larger_is_begun_again_as_a_whole,
    unpoliced,
)
from tests.scenarios.test_completion import (
    test_a_job_at_its_goal_ends_by_itself_with_at_target_complete,
)
from tests.scenarios.test_gang_scheduling import (
    test_a_gang_that_does_not_fit_waits_and_is_placed_once_capacity_is_free,
)
from tests.scenarios.test_pytorch_jobs import (
    test_a_pytorch_job_gets_the_workers_that_its_bounds_ask_for_and_goes_on,
)
from tests.scenarios.test_rescale import (
    test_a_job_whose_bounds_change_is_rescaled_and_resumes_from_its_checkpoint,
)

__all__ = [
    "test_a_gang_that_does_not_fit_waits_and_is_placed_once_capacity_is_free",
    "test_a_job_at_its_goal_ends_by_itself_with_at_target_complete",
    "test_a_job_whose_bounds_change_is_rescaled_and_resumes_from_its_checkpoint",
    "test_a_pytorch_job_gets_the_workers_that_its_bounds_ask_for_and_goes_on",
    "test_the_policy_denies_it_and_the_job_trains_on",
    "test_without_the_policy_a_job_that_was_made_larger_is_begun_again_as_a_whole",
    "unpoliced",
]
