"""Label and field selectors."""

import pytest

from localcluster.embedded.apiserver.errors import StatusError
from localcluster.embedded.apiserver.kinds import PODS, Resource
from localcluster.embedded.apiserver.selectors import Selection, parse_fields, parse_labels

POD = {
    "metadata": {"name": "p", "namespace": "ns", "labels": {"app": "web", "tier": "1"}},
    "spec": {"nodeName": "n1", "hostNetwork": True},
    "status": {"phase": "Running"},
}
CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")


@pytest.mark.parametrize(
    ("selector", "chosen"),
    [
        pytest.param("", True, id="nothing asked for is everything"),
        pytest.param("app=web", True, id="an equal value"),
        pytest.param("app==web", True, id="an equal value, spelled twice"),
        pytest.param("app=db", False, id="another value"),
        pytest.param("app!=db", True, id="not that value"),
        pytest.param("none!=db", True, id="a missing label differs from any value"),
        pytest.param("app in (db, web)", True, id="one of several"),
        pytest.param("app in (db)", False, id="none of those"),
        pytest.param("app notin (db)", True, id="not one of those"),
        pytest.param("none notin (db)", True, id="a missing label is not one of any"),
        pytest.param("app", True, id="there at all"),
        pytest.param("none", False, id="not there"),
        pytest.param("!none", True, id="asked to be missing"),
        pytest.param("!app", False, id="asked to be missing, and there"),
        pytest.param("app in (web,db),tier=1", True, id="several requirements"),
        pytest.param("app=web,tier=2", False, id="several, of which one does not hold"),
    ],
)
def test_label_selectors(selector: str, chosen: bool) -> None:
    assert Selection(labels=parse_labels(selector)).matches(POD) is chosen


@pytest.mark.parametrize(
    ("selector", "chosen"),
    [
        pytest.param("spec.nodeName=n1", True, id="bound to the node"),
        pytest.param("spec.nodeName!=n1", False, id="bound elsewhere"),
        pytest.param("status.phase=Running,spec.nodeName=n2", False, id="all of them must hold"),
        pytest.param("status.podIP=", True, id="a missing field is empty"),
        pytest.param("metadata.name==p", True, id="by name"),
    ],
)
def test_field_selectors(selector: str, chosen: bool) -> None:
    assert Selection(fields=parse_fields(PODS, selector)).matches(POD) is chosen


@pytest.mark.parametrize(
    ("resource", "selector", "sentence"),
    [
        pytest.param(
            PODS,
            "spec.foo=1",
            "field label not supported: spec.foo",
            id="a field that pods do not offer",
        ),
        pytest.param(
            CONFIG_MAPS,
            "data.a=1",
            "field label not supported: data.a",
            id="a kind that offers only its name",
        ),
        pytest.param(
            PODS, "spec", "invalid selector: 'spec'; can't understand 'spec'", id="no comparison"
        ),
    ],
)
def test_fields_that_cannot_be_asked_for(resource: Resource, selector: str, sentence: str) -> None:
    with pytest.raises(StatusError) as refused:
        parse_fields(resource, selector)
    assert (refused.value.code, str(refused.value)) == (400, sentence)


def test_a_label_selector_that_makes_no_sense() -> None:
    with pytest.raises(StatusError, match="unable to parse requirement"):
        parse_labels("a===b")
