"""CustomResourceDefinitions: what they make the server serve."""

from collections.abc import Iterator
from typing import Any

from localcluster.embedded.apiserver.kinds import Json, Resource, ScalePaths
from localcluster.embedded.apiserver.pods import with_condition
from localcluster.embedded.apiserver.refusals import Problem, invalid_value, required


def resources_of(definition: Json) -> Iterator[Resource]:
    """Yield the kinds that a definition serves, one for each version."""
    spec = definition["spec"]
    names = spec["names"]
    for version in spec["versions"]:
        if not version.get("served"):
            continue
        subresources = version.get("subresources") or {}
        yield Resource(
            group=spec["group"],
            version=version["name"],
            plural=names["plural"],
            kind=names["kind"],
            namespaced=spec.get("scope", "Namespaced") == "Namespaced",
            short_names=tuple(names.get("shortNames") or ()),
            has_status="status" in subresources,
            scale=_scale(subresources.get("scale")),
            schema=(version.get("schema") or {}).get("openAPIV3Schema") or {},
            list_kind=names.get("listKind") or f"{names['kind']}List",
            columns=tuple(version.get("additionalPrinterColumns") or ()),
            selectable=tuple(
                each["jsonPath"].strip(".") for each in version.get("selectableFields") or ()
            ),
        )


def established(definition: Json, now: str) -> Json:
    """Return a definition whose status says that it is served."""
    status: dict[str, Any] = dict(definition.get("status") or {})
    conditions = status.get("conditions") or []
    for kind, reason, message in (
        ("NamesAccepted", "NoConflicts", "no conflicts found"),
        ("Established", "InitialNamesAccepted", "the initial names have been accepted"),
    ):
        condition = {
            "type": kind,
            "status": "True",
            "lastTransitionTime": now,
            "reason": reason,
            "message": message,
        }
        conditions = with_condition(conditions, condition)
    versions = [each["name"] for each in definition["spec"]["versions"] if each.get("storage")]
    names = definition["spec"]["names"]
    status.update({"conditions": conditions, "acceptedNames": names, "storedVersions": versions})
    return {**definition, "status": status}


def with_defaults(body: Json) -> Json:
    """Return a new definition with the defaults of its names."""
    spec: Json = body.get("spec") or {}
    names: Json = spec.get("names") or {}
    kind = str(names.get("kind") or "")
    filled = {"singular": kind.lower(), "listKind": f"{kind}List", **names}
    stored = [each["name"] for each in spec.get("versions") or () if each.get("storage")]
    status = {
        "conditions": None,
        "acceptedNames": {"plural": "", "kind": ""},
        "storedVersions": stored,
    }
    return {
        **body,
        "spec": {"conversion": {"strategy": "None"}, **spec, "names": filled},
        "status": status,
    }


def problems(body: Json, _old: Json | None) -> Iterator[Problem]:
    """Yield what is wrong with a definition."""
    spec: Json = body.get("spec") or {}
    name = body["metadata"]["name"]
    if name != f"{(spec.get('names') or {}).get('plural')}.{spec.get('group')}":
        yield invalid_value("metadata.name", name, 'must be spec.names.plural+"."+spec.group')
    versions = spec.get("versions") or ()
    if sum(bool(each.get("storage")) for each in versions) != 1:
        yield invalid_value(
            "spec.versions", versions, "must have exactly one version marked as storage version"
        )
    for index, each in enumerate(versions):
        root = (each.get("schema") or {}).get("openAPIV3Schema")
        place = f"spec.versions[{index}].schema.openAPIV3Schema"
        if not root:
            yield required(place)
        elif root.get("type") != "object":
            yield invalid_value(
                f"{place}.type", root.get("type") or "", "must be object at the root"
            )


def _scale(scale: Json | None) -> ScalePaths | None:
    if scale is None:
        return None
    return ScalePaths(
        tuple(scale["specReplicasPath"].strip(".").split(".")),
        tuple(scale["statusReplicasPath"].strip(".").split(".")),
    )
