"""Rewrites the generated parts of ``docs/reference.md``: ``make reference``.

A part stands between ``<!-- generated: NAME -->`` and ``<!-- end -->``. It has what the programs,
the CRDs and the manifests say themselves: docstrings under settings, descriptions in schemas, help
texts of metrics and of the command line. Everything else on the page is written by hand.
"""

import argparse
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, Field, fields
from importlib import import_module
from inspect import getmembers, isclass
from pathlib import Path
from typing import Any, Final

import yaml
from prometheus_client.parser import text_string_to_metric_families

import autoscaler.settings
import extender.settings
from optimus.cli.commands import COMMANDS
from optimus.cli.main import parser_of
from optimus.policies import POLICIES
from optimus.runtime.settings import file_fields, flag, flag_fields, sentences_of
from optimus.runtime.settings_file import key_of
from tests.harness.exposed_metrics import exposition

ROOT: Final = Path(__file__).parents[1]
PAGE: Final = ROOT / "docs" / "reference.md"
_BLOCK: Final = re.compile(r"(<!-- generated: (.+?) -->\n)(.*?)(<!-- end -->)", re.DOTALL)
_PIPE: Final = r"\|"
_RIGHTS: Final = ("rbac-autoscaler.yaml", "rbac-scheduler.yaml")
_ELSEWHERE: Final[Mapping[tuple[str, ...], str]] = {
    ("simulate",): "[The simulator](simulator.md) has its options."
}
_OF_ALL_COMMANDS: Final = {
    *("help", "namespace", "all_namespaces", "context", "kubeconfig", "print_as", "watch", "every"),
}
"""Options that the page explains once."""

Row = tuple[str, ...]


def generated(page: str) -> str:
    """The page with its generated parts as they are now.

    Raises:
        KeyError: the page asks for a part that does not exist.
    """
    return _BLOCK.sub(lambda block: f"{block[1]}\n{_PARTS[block[2]]()}\n\n{block[4]}", page)


def _table(head: Row, rows: Iterable[Row]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join(
        f"| {' | '.join(cell.replace('|', _PIPE) for cell in line)} |" for line in lines
    )


def _settings(
    what: str, fields_of: Callable[[type[Any]], Iterable[Field[Any]]], name_of: Callable[[str], str]
) -> tuple[str, str]:
    """The autoscaler's settings, and those of the extender that are not the same."""
    rows = [
        [
            (f"`{name_of(each.name)}`", _default(each), sentences_of(settings)[each.name])
            for each in fields_of(settings)
        ]
        for settings in (autoscaler.settings.Settings, extender.settings.Settings)
    ]
    head = (what, "default", "meaning")
    same = ", ".join(row[0] for row in rows[1] if row in rows[0])
    own = _table(head, (row for row in rows[1] if row not in rows[0]))
    return _table(head, rows[0]), f"{own}\n\nAs for the autoscaler: {same or 'none'}."


def _default(field: Field[Any]) -> str:
    if field.default in (None, "", (), MISSING):
        return ""
    value = f"{field.default:g}" if isinstance(field.default, float) else str(field.default)
    return f"`{value.lower() if isinstance(field.default, bool) else value}`"


def _policies() -> str:
    """The options of all policies; one row for those that say the same of an option."""
    options: dict[tuple[str, str, str], list[str]] = {}
    for name in POLICIES:
        module = import_module(f"optimus.policies.{name.replace('-', '_')}")
        classes: list[Any] = [each for _, each in getmembers(module, isclass)]
        (policy,) = (each for each in classes if getattr(each, "name", None) == name)
        sentences = sentences_of(policy)
        for field in fields(policy):
            if field.name in sentences:
                sentence = sentences[field.name].replace("``", "`").partition(". ")[0]
                row = (f"`{key_of(field.name)}`", _default(field), sentence)
                options.setdefault(row, []).append(f"`{name}`")
    rows = [(", ".join(policies), *row) for row, policies in options.items()]
    return _table(("policy", "option", "default", "meaning"), rows)


def _columns() -> str:
    definition = yaml.safe_load((ROOT / "manifests/crds/crd-trainingprofiles.yaml").read_text())
    version = definition["spec"]["versions"][0]
    status = version["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]
    rows = []
    for column in version["additionalPrinterColumns"]:
        field = column["jsonPath"].removeprefix(".status.")
        wide = " (`-o wide`)" if column.get("priority") else ""
        if field in status:
            rows.append((f"`{column['name'].upper()}`{wide}", status[field]["description"]))
    return _table(("column", "meaning"), rows)


def _metrics() -> str:
    with tempfile.TemporaryDirectory() as folder:
        families = list(text_string_to_metric_families(exposition(Path(folder))))
    rows = [
        (f"`{each.name}{'_total' * (each.type == 'counter')}`", each.type, each.documentation)
        for each in families
        if not each.name.endswith("_created")
    ]
    return _table(("metric", "type", "meaning"), rows)


def _rights() -> str:
    verbs: dict[tuple[str, str], list[str]] = {}
    for name in _RIGHTS:
        for body in yaml.safe_load_all((ROOT / "manifests" / name).read_text()):
            for rule in body.get("rules", ()) if body else ():
                names = [f"{each} alone" for each in rule.get("resourceNames", ())]
                row = (f"`{body['metadata']['name']}`", ", ".join(rule["verbs"]))
                verbs.setdefault(row, []).extend([*rule["resources"], *names])
    rows = [(role, may, ", ".join(resources)) for (role, may), resources in verbs.items()]
    return _table(("role", "may", "what"), rows)


def _commands() -> str:
    parts = []
    for command in COMMANDS:
        summary = command.summary[0].upper() + command.summary[1:]
        options = "\n".join(f"- {each}" for each in _options(command.path))
        options = _ELSEWHERE.get(command.path, options)
        parts.append(f"### optimus {' '.join(command.path)}\n\n{summary}.\n\n{options}".rstrip())
    return "\n\n".join(parts)


def _options(path: tuple[str, ...]) -> Iterator[str]:
    parser = parser_of(COMMANDS, path)
    for word in path:
        parser = next(each for each in _actions(parser) if each.choices).choices[word]  # type: ignore[index]
    for action in _actions(parser):
        if action.dest not in _OF_ALL_COMMANDS:
            value = f" {action.metavar}" if action.metavar and action.option_strings else ""
            name = action.option_strings[-1] if action.option_strings else action.metavar
            text = (action.help or "") % vars(action)
            yield f"`{name}{value}`: {text}"


def _actions(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    found: list[argparse.Action] = vars(parser)["_actions"]
    return found


_PARTS: Final[Mapping[str, Callable[[], str]]] = {
    "flags of the autoscaler": lambda: _settings("flag", flag_fields, flag)[0],
    "flags of the extender": lambda: _settings("flag", flag_fields, flag)[1],
    "section autoscaler": lambda: _settings("key", file_fields, key_of)[0],
    "section extender": lambda: _settings("key", file_fields, key_of)[1],
    "section policy": _policies,
    "columns": _columns,
    "metrics": _metrics,
    "rights": _rights,
    "commands": _commands,
}

if __name__ == "__main__":
    PAGE.write_text(generated(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
