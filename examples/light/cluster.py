"""Which task of which job this process is: TF_CONFIG of a TFJob, or DMLC_* and MX_CONFIG of an
MXJob.

A chief (or master) trains as trainer 0 and the workers follow it; without one, worker 0 is trainer
0, which loads and saves the checkpoints.
"""

import ipaddress
import json
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Resolve = Callable[[str], str | None]


class BadEnvironment(ValueError):
    """The environment does not say which task this is; the message says what is missing."""


@dataclass(frozen=True)
class Address:
    """Where a task listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


@dataclass(frozen=True)
class Task:
    """This process among the tasks of its job."""

    role: str
    """`ps`, `trainer` or `scheduler`."""
    index: int | None
    """Place among the tasks of that role; None: the scheduler gives one (servers of an MXJob)."""
    ps_count: int
    trainer_count: int
    ps_addresses: tuple[Address, ...] = ()
    """Known beforehand in a TFJob; in an MXJob the scheduler sends them."""
    scheduler: Address | None = None
    node_host: str = ""
    """DMLC_NODE_HOST: the address on which this task is to be reached."""


def read_task(environment: Mapping[str, str]) -> Task:
    """Read the task from the environment; BadEnvironment where that cannot be done."""
    if environment.get("DMLC_ROLE"):
        return _mxnet_task(environment)
    if environment.get("TF_CONFIG"):
        return _tensorflow_task(environment)
    raise BadEnvironment(
        "neither TF_CONFIG nor DMLC_ROLE is set: a task of a TFJob with a PS and a worker, or of "
        "an MXJob, has one"
    )


def bind_host(task: Task, wanted: str, own_name: str | None, resolve: Resolve) -> str | None:
    """Choose the address to listen on: as wanted, the node's, loopback if the own name means it;
    None: all."""
    if wanted or task.node_host:
        return wanted or task.node_host
    address = resolve(own_name) if own_name else None
    return address if address and ipaddress.ip_address(address).is_loopback else None


def resolve_ipv4(name: str) -> str | None:
    """Look a name up; None where it is not known (yet)."""
    try:
        return socket.gethostbyname(name)
    except OSError:
        return None


def _tensorflow_task(environment: Mapping[str, str]) -> Task:
    config = _json_object("TF_CONFIG", environment["TF_CONFIG"])
    try:
        cluster, kind, index = (
            config["cluster"],
            str(config["task"]["type"]).lower(),
            int(config["task"]["index"]),
        )
        tasks = {
            str(role).lower(): [_address(entry) for entry in entries]
            for role, entries in cluster.items()
        }
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise BadEnvironment(f"TF_CONFIG does not list a cluster and a task: {error!r}") from error
    chiefs = len(tasks.get("chief", [])) + len(tasks.get("master", []))
    trainers = chiefs + len(tasks.get("worker", []))
    ps = tuple(tasks.get("ps", []))
    if not ps or not trainers:
        raise BadEnvironment(
            f"TF_CONFIG lists {len(ps)} PSs and {trainers} workers: training needs one of each"
        )
    if kind not in {"ps", "chief", "master", "worker"}:
        raise BadEnvironment(
            f"the role {kind!r} of TF_CONFIG has no part in this trainer: ps, worker or chief has"
        )
    if not 0 <= index < len(tasks.get(kind, [])):
        raise BadEnvironment(
            f"TF_CONFIG gives this task index {index} among {len(tasks.get(kind, []))} {kind} tasks"
        )
    place = index + chiefs if kind == "worker" else index
    role = "ps" if kind == "ps" else "trainer"
    return Task(role, place, len(ps), trainers, ps, node_host=environment.get("DMLC_NODE_HOST", ""))


def _mxnet_task(environment: Mapping[str, str]) -> Task:
    roles = {"scheduler": "scheduler", "server": "ps", "worker": "trainer"}
    kind = environment["DMLC_ROLE"].lower()
    if kind not in roles:
        raise BadEnvironment(f"DMLC_ROLE is {kind!r}: scheduler, server or worker was expected")
    try:
        root = Address(environment["DMLC_PS_ROOT_URI"], int(environment["DMLC_PS_ROOT_PORT"]))
        servers, workers = int(environment["DMLC_NUM_SERVER"]), int(environment["DMLC_NUM_WORKER"])
        index = _mxnet_index(environment, kind)
    except KeyError as error:
        raise BadEnvironment(
            f"{error.args[0]} is missing from the environment of this {kind}"
        ) from error
    except (TypeError, ValueError) as error:
        raise BadEnvironment(
            f"a DMLC_* variable or MX_CONFIG is no number where one is due: {error}"
        ) from error
    if servers < 1 or workers < 1:
        raise BadEnvironment(
            f"the job has {servers} servers and {workers} workers: training needs one of each"
        )
    if kind == "worker" and (index is None or not 0 <= index < workers):
        raise BadEnvironment(
            f"this worker's index among {workers} is {index}: DMLC_WORKER_ID or MX_CONFIG gives it"
        )
    node_host = environment.get("DMLC_NODE_HOST", "")
    return Task(roles[kind], index, servers, workers, scheduler=root, node_host=node_host)


def _mxnet_index(environment: Mapping[str, str], kind: str) -> int | None:
    if kind == "worker" and environment.get("DMLC_WORKER_ID"):
        return int(environment["DMLC_WORKER_ID"])
    if not environment.get("MX_CONFIG"):
        return None
    return int(_json_object("MX_CONFIG", environment["MX_CONFIG"])["task"]["index"])


def _json_object(name: str, text: str) -> dict[str, Any]:
    try:
        document = json.loads(text)
    except ValueError as error:
        raise BadEnvironment(f"{name} is no JSON: {error}") from error
    if not isinstance(document, dict):
        raise BadEnvironment(f"{name} is no JSON object")
    return document


def _address(entry: str) -> Address:
    host, _, port = entry.rpartition(":")
    return Address(host.strip("[]"), int(port))
