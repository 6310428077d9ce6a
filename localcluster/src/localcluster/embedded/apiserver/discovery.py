"""What the server says of itself: its version, its groups, the kinds of each."""

from collections.abc import Iterator

from localcluster.embedded.apiserver.kinds import Json, Kinds

VERSION: Json = {
    "major": "1",
    "minor": "36",
    "gitVersion": "v1.36.3-embedded",
    "gitCommit": "",
    "gitTreeState": "",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "",
    "platform": "",
}
HEALTH = frozenset({"/healthz", "/readyz", "/livez"})


def document(kinds: Kinds, path: str, address: str) -> Json | None:
    """Return the document at a path outside of the kinds themselves; None where there is none."""
    parts = path.strip("/").split("/")
    match parts:
        case ["version"]:
            return VERSION
        case ["api"]:
            served = [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}]
            return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": served}
        case ["api", "v1"]:
            return _resources(kinds, "", "v1")
        case ["apis"]:
            groups = [_group(kinds, name) for name in kinds.groups()]
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
        case ["apis", group] if kinds.versions(group):
            return {"kind": "APIGroup", "apiVersion": "v1", **_group(kinds, group)}
        case ["apis", group, version] if version in kinds.versions(group):
            return _resources(kinds, group, version)
    return None


def _group(kinds: Kinds, name: str) -> Json:
    versions = [
        {"groupVersion": f"{name}/{version}", "version": version}
        for version in kinds.versions(name)
    ]
    return {"name": name, "versions": versions, "preferredVersion": versions[0]}


def _resources(kinds: Kinds, group: str, version: str) -> Json:
    def described() -> Iterator[Json]:
        for each in kinds.all():
            if (each.group, each.version) == (group, version):
                yield from each.describe()

    named = f"{group}/{version}" if group else version
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": named,
        "resources": list(described()),
    }
