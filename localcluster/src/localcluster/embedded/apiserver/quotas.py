"""Plain ResourceQuotas: what a namespace uses, and what would be more than it may.

Those with scopes are stored and not obeyed."""

from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import Any, Final

from localcluster.embedded.apiserver.errors import forbidden
from localcluster.embedded.apiserver.kinds import PODS, Json, Resource
from localcluster.embedded.apiserver.pods import ENDED
from localcluster.embedded.apiserver.store import Store, Stored
from optimus.kube.quantity import parse_quantity

QUOTAS: Final = "resourcequotas"


def check(store: Store, resource: Resource, body: Json) -> None:
    """Refuse a new object that a quota of its namespace has no room for. Raises StatusError."""
    name, namespace = body["metadata"]["name"], body["metadata"].get("namespace", "")
    for quota in plain_quotas(store, namespace):
        hard = {key: parse_quantity(each) for key, each in quota.body["spec"]["hard"].items()}
        counted = [key for key in hard if _counted(key)[0] == resource.store_key]
        added = {key: _taken(key, body) for key in counted}
        missing = sorted(key for key in counted if added[key] is None)
        if missing:
            why = f"failed quota: {quota.name[1]}: must specify {','.join(missing)}"
            raise forbidden(resource, name, why)
        used = _used(store, namespace, counted)
        over = sorted(key for key in counted if used[key] + (added[key] or 0) > hard[key])
        if over:
            amounts = (
                f"{word}: {','.join(f'{key}={_text(of[key])}' for key in over)}"
                for word, of in (("requested", added), ("used", used), ("limited", hard))
            )
            why = f"exceeded quota: {quota.name[1]}, {', '.join(amounts)}"
            raise forbidden(resource, name, why)


def plain_quotas(store: Store, namespace: str) -> Iterator[Stored]:
    """Yield the quotas of a namespace that have no scopes."""
    for each in store.items(QUOTAS, namespace) if namespace else ():
        spec = each.body.get("spec") or {}
        if spec.get("hard") and not spec.get("scopes") and not spec.get("scopeSelector"):
            yield each


def with_usage(store: Store, quota: Json) -> Json:
    """Return a quota whose status says what is used."""
    hard = quota["spec"]["hard"]
    used = _used(store, quota["metadata"]["namespace"], hard)
    status = {"hard": hard, "used": {key: _text(each) for key, each in used.items()}}
    return {**quota, "status": status}


def _counted(key: str) -> tuple[str, str, str]:
    """Return the kind that a name of a quota is about, and of pods `requests` or `limits` of what;
    cpu is short for requests.cpu."""
    part, _, name = key.partition(".")
    if key in {"cpu", "memory", "ephemeral-storage"}:
        return PODS.store_key, "requests", key
    if part in {"requests", "limits"}:
        return PODS.store_key, part, name
    return key.removeprefix("count/"), "", ""


def _used(store: Store, namespace: str, keys: Iterable[str]) -> dict[str, Decimal]:
    return {
        key: sum(
            (
                _taken(key, each.body) or Decimal(0)
                for each in store.items(_counted(key)[0], namespace)
            ),
            Decimal(0),
        )
        for key in keys
    }


def _taken(key: str, body: Json) -> Decimal | None:
    """Return how much one object takes, None for a pod that does not say; an ended one nothing."""
    kind, which, name = _counted(key)
    if kind == PODS.store_key and (body.get("status") or {}).get("phase") in ENDED:
        return Decimal(0)
    if not which:
        return Decimal(1)
    amounts = [
        ((each.get("resources") or {}).get(which) or {}).get(name) for each in _running(body)
    ]
    if name in {"cpu", "memory"} and None in amounts:
        return None
    return sum((parse_quantity(each) for each in amounts if each is not None), Decimal(0))


def _running(pod: Json) -> list[Json]:
    sidecars = (each for each in pod["spec"].get("initContainers") or ())
    return [
        *pod["spec"]["containers"],
        *(e for e in sidecars if e.get("restartPolicy") == "Always"),
    ]


def _text(amount: Any) -> str:
    number = parse_quantity(amount)
    return str(int(number)) if number == int(number) else f"{int(number * 1000)}m"
