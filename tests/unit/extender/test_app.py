"""The HTTP application, in process: every answer is one that kube-scheduler can show to a user."""

import json
import logging
from collections.abc import Mapping, Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from werkzeug.test import Client

from extender.answers import FilterResult
from extender.http.app import Endpoints, Verbs, create_app, create_health_app
from extender.metrics import FaultHandler, Metrics
from extender.preempt import Victims
from optimus.jobs import JobKey
from optimus.kube.pods import Pod
from tests.cases import cases
from tests.unit.properties import examples

POD = {"metadata": {"name": "p", "namespace": "ns", "uid": "u"}, "spec": {"containers": []}}
LIMIT = 20_000


def keep_first(pod: Pod, names: Sequence[str]) -> FilterResult:
    if pod.name == "bad":
        raise RuntimeError("broken")
    return FilterResult(
        tuple(names[:1]), dict.fromkeys(names[1:], "not the first"), "" if names else "none"
    )


def score_three(pod: Pod, names: Sequence[str]) -> dict[str, int]:
    if pod.name == "bad":
        raise RuntimeError("broken")
    return dict.fromkeys(names, 3)


def allow_first(pod: Pod, victims: Mapping[str, Victims]) -> dict[str, Victims]:
    if pod.name == "bad":
        raise RuntimeError("broken")
    return {node: victims[node] for node in list(victims)[:1]}


VERBS = Verbs(keep_first, score_three, allow_first, lambda *_: None)


class Ready:
    def __init__(self) -> None:
        self.missing: str | None = None

    def __call__(self) -> str | None:
        return self.missing


@pytest.fixture(scope="module")
def ready() -> Ready:
    return Ready()


@pytest.fixture(scope="module")
def browser(ready: Ready) -> Client:
    return Client(create_app(Endpoints(VERBS, ready, Metrics(), LIMIT)))


def body(**arguments: object) -> bytes:
    return json.dumps({"Pod": POD, "Nodes": None, "NodeNames": ["n1", "n2"]} | arguments).encode()


def test_filter_and_prioritize(browser: Client) -> None:
    answer = browser.post("/filter", data=body())
    assert (answer.status_code, answer.mimetype) == (200, "application/json")
    assert answer.headers["Content-Length"] == str(len(answer.data))
    assert answer.json == {
        "Nodes": None,
        "NodeNames": ["n1"],
        "FailedNodes": {},
        "FailedAndUnresolvableNodes": {"n2": "not the first"},
        "Error": "",
    }
    assert browser.post("/prioritize", data=body()).json == [
        {"Host": "n1", "Score": 3},
        {"Host": "n2", "Score": 3},
    ]


@pytest.mark.parametrize("verb", ["/filter", "/prioritize"])
@cases(
    ("sent", "sentence"),
    {
        "no body": (b"", "the body is not the JSON of ExtenderArgs"),
        "no JSON": (b"\x1f\x8b\x08", "the body is not the JSON of ExtenderArgs"),
        "too large": (b"x" * (LIMIT + 1), "more than the 20000 bytes that are read"),
        "a fault of ours": (
            body(Pod={**POD, "metadata": {"name": "bad", "uid": "u"}}),
            "internal error in",
        ),
    },
)
def test_a_bad_call_is_answered_with_a_sentence(
    browser: Client, verb: str, sent: bytes, sentence: str
) -> None:
    answer = browser.post(verb, data=sent)
    assert answer.status_code == 200
    assert sentence in answer.get_json()["Error"]


def preemption(**arguments: object) -> bytes:
    offered = {"n1": {"Pods": [{"UID": "a"}], "NumPDBViolations": 1}, "n2": {"Pods": []}}
    asked = {"Pod": POD, "NodeNameToVictims": None, "NodeNameToMetaVictims": offered}
    return json.dumps(asked | arguments).encode()


@pytest.mark.parametrize("job", ["", "j", "/j", "ns/"])
def test_inspect_says_how_a_job_is_named(browser: Client, job: str) -> None:
    answer = browser.get(f"/inspect?job={job}")
    assert answer.status_code == 400
    assert "NAMESPACE/NAME is expected" in answer.get_json()["Error"]


def test_a_fault_is_answered_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    def inspect(_: JobKey | None) -> bytes:
        raise RuntimeError("broken")

    metrics = Metrics()
    handler = FaultHandler(lambda where: metrics.faults.labels(where).inc())
    caplog.set_level(logging.ERROR)  # the other tests are quiet
    logging.getLogger().addHandler(handler)
    client = Client(create_app(Endpoints(VERBS, lambda: None, metrics, LIMIT, inspect)))
    answer = client.get("/inspect")
    assert answer.status_code == 500
    assert "internal error in inspect" in answer.get_json()["Error"]
    client.post("/filter", data=body(Pod={**POD, "metadata": {"name": "bad", "uid": "u"}}))
    logging.getLogger("any").error("without a traceback, which is no internal error")
    logging.getLogger().removeHandler(handler)
    assert metrics.text().decode().count("optimus_extender_faults_total{") == 2
    for where in ("inspect", "filter"):
        line = f'optimus_extender_faults_total{{where="{where}"}} 1.0'
        assert line in metrics.text().decode()


@examples(150)
@given(verb=st.sampled_from(["/filter", "/prioritize", "/preempt"]), sent=st.binary(max_size=200))
def test_any_bytes_get_200_and_a_sentence(browser: Client, verb: str, sent: bytes) -> None:
    answer = browser.post(verb, data=sent)
    assert answer.status_code == 200
    assert answer.get_json()["Error"]


@examples(150)
@given(
    pod=st.dictionaries(
        st.sampled_from(["metadata", "spec", "status"]),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(max_size=4),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(
                    st.sampled_from(
                        [
                            "name",
                            "uid",
                            "containers",
                            "labels",
                            "ownerReferences",
                            "resources",
                            "requests",
                        ]
                    ),
                    inner,
                    max_size=3,
                )
            ),
            max_leaves=8,
        ),
    ),
    names=st.lists(st.text(max_size=5), max_size=4),
)
def test_any_pod_gets_an_answer(browser: Client, pod: dict[str, object], names: list[str]) -> None:
    answer = browser.post(
        "/filter", data=msgspec.json.encode({"Pod": pod, "Nodes": None, "NodeNames": names})
    )
    assert answer.status_code == 200
    assert answer.get_json()["Error"] or set(answer.get_json()["NodeNames"]) <= set(names)


def test_until_the_caches_are_filled_every_filter_is_refused() -> None:
    ready = Ready()
    browser = Client(create_app(Endpoints(VERBS, ready, Metrics(), LIMIT)))
    ready.missing = "pods not read yet"
    for _ in range(2):
        assert browser.post("/filter", data=body()).get_json()["Error"] == (
            "the extender is not ready: pods not read yet"
        )
        assert browser.get("/readyz").status_code == 503
        assert browser.get("/readyz").text == "pods not read yet\n"
        assert browser.get("/healthz").status_code == 200
    ready.missing = None
    ready_now = browser.get("/readyz")
    assert (ready_now.status_code, ready_now.text) == (200, "ok\n")
    assert ready_now.content_type == browser.get("/healthz").content_type
    assert ready_now.content_type == "text/plain; charset=utf-8"
    assert browser.post("/filter", data=body()).get_json()["Error"] == ""


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("POST", "/filter", 404),
        ("POST", "/prioritize", 404),
        ("GET", "/healthz", 200),
        ("GET", "/metrics", 200),
    ],
)
def test_the_health_address_serves_health_alone(
    ready: Ready, method: str, path: str, status: int
) -> None:
    app = create_health_app(Endpoints(VERBS, ready, Metrics(), LIMIT))
    answer = Client(app).open(path, method=method, data=body() if method == "POST" else None)
    assert answer.status_code == status
    assert status == 200 or "is for health and metrics" in answer.get_json()["Error"]


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
