"""Label and field selectors."""

from localcluster.embedded.apiserver.kinds import PODS
from localcluster.embedded.apiserver.selectors import Selection, parse_fields, parse_labels
from tests.cases import cases

POD = {
    "metadata": {"name": "p", "namespace": "ns", "labels": {"app": "web", "tier": "1"}},
    "spec": {"nodeName": "n1", "hostNetwork": True},
    "status": {"phase": "Running"},
}


@cases(
    ("selector", "chosen"),
    {
        "nothing asked for is everything": ("", True),
        "an equal value": ("app=web", True),
        "an equal value, spelled twice": ("app==web", True),
        "another value": ("app=db", False),
        "not that value": ("app!=db", True),
        "a missing label differs from any value": ("none!=db", True),
        "one of several": ("app in (db, web)", True),
        "none of those": ("app in (db)", False),
        "not one of those": ("app notin (db)", True),
        "a missing label is not one of any": ("none notin (db)", True),
        "there at all": ("app", True),
        "not there": ("none", False),
        "asked to be missing": ("!none", True),
        "asked to be missing, and there": ("!app", False),
        "several requirements": ("app in (web,db),tier=1", True),
        "several, of which one does not hold": ("app=web,tier=2", False),
    },
)
def test_label_selectors(selector: str, chosen: bool) -> None:
    assert Selection(labels=parse_labels(selector)).matches(POD) is chosen


@cases(
    ("selector", "chosen"),
    {
        "bound to the node": ("spec.nodeName=n1", True),
        "bound elsewhere": ("spec.nodeName!=n1", False),
        "all of them must hold": ("status.phase=Running,spec.nodeName=n2", False),
        "a missing field is empty": ("status.podIP=", True),
        "by name": ("metadata.name==p", True),
    },
)
def test_field_selectors(selector: str, chosen: bool) -> None:
    assert Selection(fields=parse_fields(PODS, selector)).matches(POD) is chosen
