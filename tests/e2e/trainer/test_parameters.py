"""Real TensorFlow and MXNet: what each PS holds and receives, by default and balanced."""

from typing import Any

import pytest

from optimus_trainer.parameters import TOLERANCE
from tests.e2e.trainer.framework_processes import Environments, run, run_mxnet

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

MOST = 1 + TOLERANCE
PS = 3


def unevenness(held: list[int]) -> float:
    return max(held) * len(held) / sum(held)


@pytest.mark.parametrize("version", [1, 2])
def test_the_variables_of_tensorflow(frameworks: Environments, version: int) -> None:
    def parts(how: str) -> list[list[int]]:
        (found,) = run(frameworks, "tensorflow", "tensorflow_variables.py", version, PS, how)
        return list(found)

    default, balanced = parts("default"), parts("balanced")
    assert unevenness([held for held, _ in default]) > 1.5
    assert unevenness([held for held, _ in balanced]) <= MOST
    assert sum(held for held, _ in default) == sum(held for held, _ in balanced)
    requests = sum(count for _, count in balanced)
    assert 8 < requests <= 8 + 4 * (PS - 1), "few of the eight are cut"


@pytest.mark.parametrize("interface", ["module", "gluon"])
def test_the_traffic_of_mxnet(frameworks: Environments, interface: str) -> None:
    def train(how: str) -> tuple[list[int], Any]:
        """Bytes that each server received, and the parameters at the end."""
        said = run_mxnet(frameworks, PS, 2, "mxnet_traffic.py", interface, how)
        received: dict[int, int] = {}
        for each in said:
            if "server" in each:  # the last reports lack connections that are closed
                received[each["server"]] = max(received.get(each["server"], 0), each["received"])
        (parameters,) = (each["parameters"] for each in said if "parameters" in each)
        return list(received.values()), parameters

    default, parameters = train("default")
    balanced, same = train("balanced")
    assert unevenness(default) > 2
    assert unevenness(balanced) <= MOST
    # The same updates: momentum, decay by name and learning rate are those of the whole arrays.
    assert same.keys() == parameters.keys()
    for name, numbers in parameters.items():
        assert same[name] == pytest.approx(numbers, rel=1e-3, abs=1e-6), name
