"""Policies of the API server by which bindings fail that a test chooses."""

from typing import Final

from kubernetes.client.exceptions import ApiException

from tests.harness.api import CORE, Api, in_namespace
from tests.harness.waiting import wait_until

_GROUP: Final = "/apis/admissionregistration.k8s.io/v1"
POLICIES: Final = f"{_GROUP}/validatingadmissionpolicies"
BINDINGS: Final = f"{_GROUP}/validatingadmissionpolicybindings"
_PROBE: Final = in_namespace(CORE, "default", "pods", "probe") + "/binding"
_MESSAGE: Final = "not bound there"


class BindingPolicies:
    """The policies that one test has made."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._names: list[str] = []

    def add(self, name: str, allowed: str) -> None:
        """The API server refuses bindings from now on, but where this CEL expression of the binding
        holds: not for a pod `probe` and `node-1`."""
        rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"]}
        spec = {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [{**rule, "resources": ["pods/binding"]}]},
            "validations": [{"expression": allowed, "message": _MESSAGE}],
        }
        self._api.create(POLICIES, {"metadata": {"name": name}, "spec": spec})
        bound = {"policyName": name, "validationActions": ["Deny"]}
        self._api.create(BINDINGS, {"metadata": {"name": name}, "spec": bound})
        self._names.append(name)
        wait_until(f"the policy {name} is in force", self._are_refused)

    def clear(self) -> None:
        """Every pod may be bound again."""
        for name in self._names:
            self._api.delete(f"{BINDINGS}/{name}")
            self._api.delete(f"{POLICIES}/{name}")
        if self._names:
            wait_until("no policy is in force", lambda: not self._are_refused())
        self._names.clear()

    def _are_refused(self) -> bool:
        """Whether a binding is refused. The API server hears of its policies a moment late."""
        target = {"apiVersion": "v1", "kind": "Node", "name": "node-1"}
        try:
            self._api.create(_PROBE, {"metadata": {"name": "probe"}, "target": target})
        except ApiException as error:
            return _MESSAGE in str(error)
        raise AssertionError("a pod that is not there was bound")
