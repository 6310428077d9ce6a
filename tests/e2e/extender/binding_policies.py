"""Policies of the API server by which bindings fail that a test chooses."""

from typing import Final

from tests.harness.api import Api

_GROUP: Final = "/apis/admissionregistration.k8s.io/v1"
POLICIES: Final = f"{_GROUP}/validatingadmissionpolicies"
BINDINGS: Final = f"{_GROUP}/validatingadmissionpolicybindings"


class BindingPolicies:
    """The policies that one test has made."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._names: list[str] = []

    def add(self, name: str, allowed: str) -> None:
        """The API server refuses bindings, but where this CEL expression of the binding holds."""
        rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"]}
        spec = {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [{**rule, "resources": ["pods/binding"]}]},
            "validations": [{"expression": allowed, "message": "not bound there"}],
        }
        self._api.create(POLICIES, {"metadata": {"name": name}, "spec": spec})
        bound = {"policyName": name, "validationActions": ["Deny"]}
        self._api.create(BINDINGS, {"metadata": {"name": name}, "spec": bound})
        self._names.append(name)

    def clear(self) -> None:
        """Every pod may be bound again."""
        for name in self._names:
            self._api.delete(f"{BINDINGS}/{name}")
            self._api.delete(f"{POLICIES}/{name}")
        self._names.clear()
