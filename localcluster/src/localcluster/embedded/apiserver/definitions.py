"""CustomResourceDefinitions: defaults, checks and the kinds that they make the server serve."""

from collections.abc import Iterator

from localcluster.embedded.apiserver.kinds import Json, Resource
from localcluster.embedded.apiserver.pods import with_condition


def resources_of(definition: Json) -> Iterator[Resource]:
    """Yield the kinds that a definition serves, one for each version."""
    spec = definition["spec"]
    names = spec["names"]
    for version in spec["versions"]:
        if version.get("served"):
            yield Resource(
                group=spec["group"],
                version=version["name"],
                plural=names["plural"],
                kind=names["kind"],
                namespaced=spec.get("scope", "Namespaced") == "Namespaced",
                short_names=tuple(names.get("shortNames") or ()),
                subresources=("status",) if "status" in (version.get("subresources") or {}) else (),
                schema=version["schema"]["openAPIV3Schema"],
                list_kind=names.get("listKind") or f"{names['kind']}List",
                columns=tuple(version.get("additionalPrinterColumns") or ()),
            )


def established(definition: Json, now: str) -> Json:
    """Return a definition whose status says that it is served."""
    conditions = definition["status"].get("conditions") or []
    for kind, reason, message in (
        ("NamesAccepted", "NoConflicts", "no conflicts found"),
        ("Established", "InitialNamesAccepted", "the initial names have been accepted"),
    ):
        text = {"reason": reason, "message": message, "lastTransitionTime": now}
        conditions = with_condition(conditions, {"type": kind, "status": "True", **text})
    status = {"conditions": conditions, "acceptedNames": definition["spec"]["names"]}
    return {**definition, "status": {**definition["status"], **status}}


def with_defaults(body: Json) -> Json:
    """Return a new definition with the defaults of its names."""
    spec, kind = body["spec"], body["spec"]["names"]["kind"]
    names = {"singular": kind.lower(), "listKind": f"{kind}List", **spec["names"]}
    stored = [each["name"] for each in spec["versions"] if each.get("storage")]
    return {**body, "spec": {**spec, "names": names}, "status": {"storedVersions": stored}}
