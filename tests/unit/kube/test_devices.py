"""Devices of dynamic resource allocation, read from the API server's JSON."""

import json

from optimus.kube.devices import (
    AttributeValue,
    DeviceRequest,
    decode_slice,
    decode_template,
    read_expression,
)
from tests.cases import cases

DRIVER = AttributeValue("", "gpu.example.com")
TYPE = AttributeValue("gpu.example.com/type", "gpu")
OF_DRIVER = 'device.driver == "gpu.example.com"'


@cases(
    ("text", "values", "is_whole"),
    {
        "a driver": (OF_DRIVER, {DRIVER}, True),
        "single quotes": ("device.driver=='gpu.example.com'", {DRIVER}, True),
        "as a driver ships it": (
            f"{OF_DRIVER} &&\n device.attributes['gpu.example.com'].type == 'gpu'",
            {DRIVER, TYPE},
            True,
        ),
        "a name in brackets": (
            'device.attributes["gpu.example.com"]["type"] == "gpu"',
            {TYPE},
            True,
        ),
        "numbers and booleans": (
            'device.attributes["a"].n == 3 && device.attributes["a"].ok == true',
            {AttributeValue("a/n", 3), AttributeValue("a/ok", True)},
            True,
        ),
        "an alternative": (f'{OF_DRIVER} || device.driver == "b"', set(), False),
        "a comparison": (f"{OF_DRIVER} && device.attributes['a'].n >= 3", set(), False),
        "a negation": (f"!({OF_DRIVER})", set(), False),
        "nothing": ("", set(), False),
        "an escape": (r'device.driver == "a\"b"', set(), False),
    },
)
def test_expressions_that_demand_values_are_read(
    text: str, values: set[AttributeValue], is_whole: bool
) -> None:
    found, whole = read_expression(text)
    assert set(found) == values
    assert whole == is_whole


@cases(
    "spec",
    {
        "reached by every node": {"allNodes": True, "devices": [{"name": "a"}]},
        "parts of others": {"nodeName": "n", "devices": [{"name": "a", "consumesCounters": [{}]}]},
        "for several claims": {
            "nodeName": "n",
            "devices": [{"name": "a", "allowMultipleAllocations": True}],
        },
    },
)
def test_devices_that_cannot_be_counted(spec: dict[str, object]) -> None:
    raw = {"metadata": {"name": "s"}, "spec": {"driver": "d", "pool": {"name": "p"}, **spec}}
    assert not decode_slice(json.dumps(raw).encode()).is_countable


GPU = {"deviceClassName": "gpu"}


@cases(
    ("asked", "expected"),
    {
        "one": ({"exactly": GPU}, ("gpu", 1, True)),
        "several": (
            {"exactly": GPU | {"count": 4, "allocationMode": "ExactCount"}},
            ("gpu", 4, True),
        ),
        "certain ones": ({"exactly": GPU | {"selectors": [{}]}}, ("gpu", 1, False)),
        "all of a node": ({"exactly": GPU | {"allocationMode": "All"}}, ("", 0, False)),
        "for an administrator": ({"exactly": GPU | {"adminAccess": True}}, ("", 0, False)),
        "tainted ones": ({"exactly": GPU | {"tolerations": [{}]}}, ("", 0, False)),
        "a part of one": ({"exactly": GPU | {"capacity": {"requests": {}}}}, ("", 0, False)),
        "one of several kinds": ({"firstAvailable": [GPU]}, ("", 0, False)),
    },
)
def test_requests_of_a_template(asked: dict[str, object], expected: tuple[str, int, bool]) -> None:
    devices = {"requests": [{"name": "r", **asked}]}
    raw = {"metadata": {"name": "t", "namespace": "ns"}, "spec": {"spec": {"devices": devices}}}
    assert decode_template(json.dumps(raw).encode()).requests == (DeviceRequest(*expected),)


def test_devices_that_are_to_be_alike_are_not_any_devices() -> None:
    devices = {"requests": [{"name": "r", "exactly": GPU}], "constraints": [{}]}
    raw = {"metadata": {"name": "t"}, "spec": {"spec": {"devices": devices}}}
    assert decode_template(json.dumps(raw).encode()).requests == (DeviceRequest("gpu", 1, False),)
