"""Every name that a user or an operator meets is explained, and no page names what does not
exist."""

import ast
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import MISSING, Field
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from prometheus_client import CollectorRegistry

import autoscaler.metrics
import autoscaler.settings
import autoscaler.web
import extender.metrics
import extender.settings
from extender.filter import REFUSALS
from extender.http.app import Endpoints, RoutedApp, Verbs, create_app
from optimus.cli import job_table, speed_table
from optimus.interval import Action
from optimus.jobs import Counts
from optimus.kube.contract import (
    KIND_ORDERS,
    POLICY_MEMORY,
    WAIT_ANNOTATION,
    WAITING_EVENT,
    Annotation,
    Phase,
)
from optimus.kube.errors import ErrorKind
from optimus.nodes import NODE_PRICE_LABEL
from optimus.placement import PLACEMENT_RULES
from optimus.policies import POLICIES, policy_named
from optimus.rescale.words import Outcome
from optimus.runtime.settings import file_fields, flag, flag_fields, sentences_of
from optimus.runtime.settings_file import key_of
from tests.harness.exposed_metrics import exposed_metrics
from tests.unit.docs.pages import ROOT, all_pages, page, spans

_USER: Final = page("docs/user-guide.md")
_OPERATOR: Final = page("docs/operator-guide.md")
_REFERENCE: Final = page("docs/reference.md")
_OPERATIONS: Final = page("docs/operations.md")
_PROTOCOL: Final = page("docs/extender-protocol.md")
_README: Final = page("README.md")

_OURS: Final = {value for name, value in vars(Annotation).items() if name.isupper()}
_NOT_WRITTEN_BY_USERS: Final = {
    Annotation.SUSPENDED_BY,
    Annotation.REQUEUED,
    Annotation.GOAL_MET,
}
_NOT_ON_JOBS: Final = {
    "optimus.dl/pool",
    NODE_PRICE_LABEL,
    "optimus.dl/training",
    "optimus.dl/v1alpha1",
    KIND_ORDERS,
    POLICY_MEMORY,
    "optimus.dl/page",
    WAIT_ANNOTATION,
}
_MISSPELT_ON_PURPOSE: Final = {"optimus.dl/target-los"}
_PROGRAMS: Final = {
    "autoscaler": autoscaler.settings.Settings,
    "extender": extender.settings.Settings,
}


def _annotations() -> set[str]:
    """Those of the reference's table, written in full or by what follows the slash."""
    names = {name for row in _REFERENCE.rows("Annotations") for name in spans(row[0])}
    return {name if "/" in name else f"optimus.dl/{name}" for name in names}


def test_every_annotation_that_users_write_is_in_the_reference() -> None:
    assert _annotations() == _OURS - _NOT_WRITTEN_BY_USERS


def test_no_page_names_an_annotation_that_is_not_there() -> None:
    for each in all_pages():
        named = set(re.findall(r"optimus\.dl/[a-z0-9]+(?:-[a-z0-9]+)*", each.text))
        assert named <= _OURS | _NOT_ON_JOBS | _MISSPELT_ON_PURPOSE, each.name


@pytest.mark.parametrize("name", sorted(_NOT_WRITTEN_BY_USERS))
def test_an_annotation_that_the_programs_write_is_documented(name: str) -> None:
    assert name in _USER.text + _REFERENCE.text + _PROTOCOL.text


def test_the_architecture_names_the_mark_of_everyone_who_suspends_a_job() -> None:
    """Marks are found in the methods that write ``"suspend": True``."""
    writer = ast.parse((ROOT / "optimus/kube/writer.py").read_text())
    methods = (each for each in ast.walk(writer) if isinstance(each, ast.FunctionDef))
    suspending = [text for each in methods if "'suspend': True" in (text := ast.unparse(each))]
    written = {name for text in suspending for name in re.findall(r"Annotation\.(\w+)", text)}
    channel = page("docs/architecture.md").text.partition("## The channel between")[2]
    for name in written:
        assert f"`{getattr(Annotation, name)}`" in channel.partition("\n## ")[0]
    assert len(written) == len(suspending) == 1


@pytest.mark.parametrize(("program", "settings"), _PROGRAMS.items())
def test_the_reference_says_of_every_flag_what_its_help_says(
    program: str, settings: type[Any]
) -> None:
    rows = _REFERENCE.rows(f"Flags of the {program}")
    assert [" | ".join(row) for row in rows] == _settings(settings, flag_fields(settings), flag)


@pytest.mark.parametrize(("program", "settings"), _PROGRAMS.items())
def test_the_reference_says_of_every_value_of_the_file_what_its_docstring_says(
    program: str, settings: type[Any]
) -> None:
    rows = _REFERENCE.rows(f"Section {program}")
    assert [" | ".join(row) for row in rows] == _settings(settings, file_fields(settings), key_of)


def _settings(
    settings: type[Any], described: Iterable[Field[Any]], name_of: Callable[[str], str]
) -> list[str]:
    sentences = sentences_of(settings)
    return [
        f"`{name_of(each.name)}` | {_default(each)} | {sentences[each.name]}" for each in described
    ]


def _default(field: Field[Any]) -> str:
    if field.default in (None, "", (), MISSING):
        return "-"
    value = f"{field.default:g}" if isinstance(field.default, float) else str(field.default)
    return f"`{value.lower() if field.type is bool else value}`"


def test_the_reference_shows_a_file_that_both_processes_take(tmp_path: Path) -> None:
    (block,) = re.findall(r"```yaml\n(autoscaler:.*?)```", _REFERENCE.text, re.DOTALL)
    path = tmp_path / "config.yaml"
    path.write_text(block)
    deciding = autoscaler.settings.parse([f"--config={path}"], {})
    placing = extender.settings.parse([f"--config={path}"], {})
    assert deciding != autoscaler.settings.Settings(config=path)
    assert placing != extender.settings.Settings(config=path)


def test_the_reference_lists_the_options_of_every_policy() -> None:
    listed = {(row[0], row[1]) for row in _REFERENCE.rows("Section policy")}
    there: set[tuple[str, str]] = set()
    for name in POLICIES:
        with pytest.raises(ValueError, match="there is no option") as raised:
            policy_named(name, {"none": 1})
        options = str(raised.value).partition("its options are ")[2]
        there |= {(f"`{name}`", f"`{each}`") for each in options.split(", ") if each}
    assert listed == there


def _variables() -> set[str]:
    prefixes = {
        autoscaler.settings.Settings: "OPTIMUS_",
        extender.settings.Settings: "OPTIMUS_EXTENDER_",
    }
    return {
        prefix + field.name.upper()
        for settings, prefix in prefixes.items()
        for field in flag_fields(settings)
    }


def test_every_variable_that_a_page_names_is_a_setting() -> None:
    own = {
        "OPTIMUS_LOCALCLUSTER_BINARIES",
        "OPTIMUS_LOCALCLUSTER_KUBERNETES",
        "OPTIMUS_REQUIRE_E2E",
        "OPTIMUS_TEST_PYTORCH",
        "OPTIMUS_TEST_TRAINER",
    }
    known = _variables() | own
    for each in all_pages():
        named = set(re.findall(r"\bOPTIMUS_[A-Z_]*[A-Z]\b", each.text))
        assert named <= known, each.name


def test_the_manifests_set_no_flag_that_is_not_there() -> None:
    known = {flag(each.name) for settings in _PROGRAMS.values() for each in flag_fields(settings)}
    for name in ("autoscaler", "scheduler"):
        pod = yaml.safe_load((ROOT / f"manifests/{name}.yaml").read_text())["spec"]["template"][
            "spec"
        ]
        ours = [
            each
            for each in pod.get("initContainers", []) + pod["containers"]
            if each["command"][0] == "python"
        ]
        assert ours
        assert {argument.partition("=")[0] for each in ours for argument in each["args"]} <= known


def test_the_flags_that_the_operator_guide_names_are_there() -> None:
    known = {flag(each.name) for settings in _PROGRAMS.values() for each in flag_fields(settings)}
    others = {
        "--policy-config-file",
        "--policy-configmap",
        "--scale-down-unneeded-time",
        "--skip-nodes-with-custom-controller-pods",
        *("--install", "--namespace", "--create-namespace", "--set", "--kube-version"),
        "--take-ownership",
        *("--serviceaccount", "--from-file", "--custom-resource-state-config-file"),
        *("--certificate-identity", "--certificate-oidc-issuer", "--version", "--clusterrole"),
    }  # of kube-scheduler, old and new; Cluster Autoscaler; Helm; kubectl; cosign, ...
    ours = [
        code
        for code in _OPERATOR.code + _OPERATIONS.code + _PROTOCOL.code
        if not code.startswith(("kubectl", "docker"))
    ]
    named = {name for code in ours for name in re.findall(r"(?<!\w)--[a-z][a-z-]+", code)}
    assert named <= known | others


def test_the_reference_lists_exactly_the_metrics_that_there_are(tmp_path: Path) -> None:
    listed = {name: row[1] for row in _REFERENCE.rows("Metrics") for name in spans(row[0])}
    assert listed == exposed_metrics(tmp_path)


def test_no_page_names_a_metric_that_is_not_there(tmp_path: Path) -> None:
    known = exposed_metrics(tmp_path)
    for each in all_pages():
        named = set(re.findall(r"\boptimus_(?:autoscaler|extender)_[a-z_]+[a-z]\b", each.text))
        assert {re.sub(r"_(bucket|sum|count)$", "", name) for name in named} <= known.keys(), (
            each.name
        )


_LABELS: Final = {
    "optimus_autoscaler_decisions_total": {each.value for each in Action},
    "optimus_autoscaler_rescales_total": {each.value for each in Outcome},
    "optimus_autoscaler_api_refusals_total": {each.value for each in ErrorKind},
}


@pytest.mark.parametrize("metric", _LABELS)
def test_the_values_of_a_label_are_documented(metric: str) -> None:
    (row,) = (row for row in _REFERENCE.rows("Metrics") if metric in row[0])
    assert set(spans(row[3])) == _LABELS[metric]


def test_the_causes_of_refusals_are_documented() -> None:
    (row,) = (
        row for row in _REFERENCE.rows("Metrics") if "optimus_extender_refusals_total" in row[0]
    )
    assert set(spans(row[3])) == {cause for _, cause in REFUSALS.values()} | {
        "reserved",
        "just bound",
    }


def test_every_sentence_of_a_refused_pod_is_in_the_extender_s_page() -> None:
    documented = "\n".join(" ".join(row) for row in _PROTOCOL.rows("Reasons of a refused pod"))
    for sentence, _ in REFUSALS.values():
        pattern = re.sub(r"\\{\w+\\}", ".+", re.escape(sentence))
        assert re.search(pattern, documented), sentence


def test_the_reference_lists_exactly_the_events_that_there_are() -> None:
    listed = {name for row in _REFERENCE.rows("Events") for name in spans(row[0])}
    assert listed == _event_reasons()


def _event_reasons() -> set[str]:
    """Of the calls that write an Event, the one argument that is a word in CamelCase."""
    writers = {
        "_Told",
        "JobEvent",
        "_emit",
        "_warn_once",
        "_emit_once",
        "Notice",
        "JobNotice",
        "emit",
    }
    found = {WAITING_EVENT}
    for call in (*_calls("autoscaler"), *_calls("extender")):
        name = getattr(call.func, "id", None) or getattr(call.func, "attr", None)
        if name in writers:
            words = [
                each.value
                for each in call.args
                if isinstance(each, ast.Constant) and isinstance(each.value, str)
            ]
            found |= {word for word in words if re.fullmatch(r"(?:[A-Z][a-z]+)+", word)}
    return found


def _calls(folder: str) -> Iterator[ast.Call]:
    for path in sorted((ROOT / folder).rglob("*.py")):
        yield from (
            node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)
        )


def test_every_phase_is_explained() -> None:
    assert {word for row in _REFERENCE.rows("Phases") for word in row[0].split(", ")} == {
        each.value for each in Phase
    }


def test_every_printed_column_is_explained() -> None:
    definition = yaml.safe_load((ROOT / "manifests/crds/crd-trainingprofiles.yaml").read_text())
    columns = [
        each["name"].upper()
        for each in definition["spec"]["versions"][0]["additionalPrinterColumns"]
    ]
    assert [name for row in _REFERENCE.rows("Columns") for name in spans(row[0])] == columns


def test_every_policy_is_named_where_it_is_chosen() -> None:
    for where in (page("docs/policies.md"), page("CHANGELOG.md")):
        assert {name for name in POLICIES if f"`{name}`" not in where.text} == set(), where.name


def test_every_placement_rule_is_named_where_it_is_chosen() -> None:
    where = page("docs/policies.md")
    assert {name for name in PLACEMENT_RULES if f"`{name}`" not in where.text} == set()


def test_the_guide_s_table_of_the_configuration_says_what_is_shipped() -> None:
    shipped = yaml.safe_load((ROOT / "scheduler-config/kube-scheduler-config.yaml").read_text())
    shipped |= shipped["extenders"][0] | {
        **{f"leaderElection.{name}": each for name, each in shipped["leaderElection"].items()},
        "profiles[].plugins.postFilter.disabled": shipped["profiles"][0]["plugins"]["postFilter"][
            "disabled"
        ],
    }
    for row in _REFERENCE.rows("Fields of the scheduler configuration"):
        (name,), (value,) = spans(row[0]), spans(row[1])
        assert yaml.safe_load(value) == shipped[name], name


def test_the_first_job_s_annotation_is_the_same_in_the_readme_and_in_the_guide() -> None:
    written = [re.search(r"optimus.dl/target-loss: (\S+)", each.text) for each in (_README, _USER)]
    assert written[0] is not None
    assert written[1] is not None
    assert written[0][1] == written[1][1]


def test_prometheus_finds_the_ports_that_serve_metrics() -> None:
    (pattern,) = re.findall(r"regex: (\S+), action: keep", _REFERENCE.text)
    ports = []
    for name in ("autoscaler", "scheduler"):
        manifest = yaml.safe_load((ROOT / f"manifests/{name}.yaml").read_text())
        ports += [
            each["name"] for each in _ours(manifest)["ports"] if re.fullmatch(pattern, each["name"])
        ]
    assert ports == ["http", "health"]


def _autoscaler_paths() -> set[str]:
    app = autoscaler.web.create_app(CollectorRegistry(), lambda: None, lambda: None)
    return {rule.rule for rule in app.url_map.iter_rules() if rule.endpoint != "static"}


def _extender_paths() -> set[str]:
    return {path for _, path in _extender_app().routes}


def _extender_app() -> RoutedApp:
    verbs = Verbs(*[lambda *_: None] * 4)  # type: ignore[arg-type]
    return create_app(Endpoints(verbs, lambda: None, extender.metrics.Metrics(), 1))


@pytest.mark.parametrize(
    "paths", [_autoscaler_paths(), _extender_paths()], ids=["autoscaler", "extender"]
)
def test_every_path_that_is_served_is_in_the_docs(paths: set[str]) -> None:
    documented = set(re.findall(r"(?<!\w)/[a-z]+\b", _OPERATOR.text + _REFERENCE.text))
    assert paths - documented == set()


def test_probes_ask_for_paths_that_are_served() -> None:
    served = {"autoscaler": _autoscaler_paths(), "scheduler": _extender_paths()}
    for name, paths in served.items():
        container = _ours(yaml.safe_load((ROOT / f"manifests/{name}.yaml").read_text()))
        asked = [value["httpGet"]["path"] for key, value in container.items() if "Probe" in key]
        assert asked
        assert set(asked) <= paths


def test_the_guide_s_overlay_fits_the_manifests() -> None:
    (block,) = (
        each
        for each in re.findall(r"```yaml\n(.*?)```", _OPERATOR.text, re.DOTALL)
        if "Kustomization" in each
    )
    overlay = yaml.safe_load(block)
    shipped = {
        name: (ROOT / f"manifests/{name}.yaml").read_text() for name in ("autoscaler", "scheduler")
    }
    for image in overlay["images"]:
        assert f"image: {image['name']}:" in "".join(shipped.values())
    base = yaml.safe_load((ROOT / "manifests/kustomization.yaml").read_text())
    (shared, _), (settings,) = base["configMapGenerator"], overlay["configMapGenerator"]
    merged = {"behavior": "merge", "literals": settings["literals"]}
    assert settings == {"name": shared["name"], "namespace": shared["namespace"], **merged}
    names = {literal.partition("=")[0] for literal in settings["literals"]}
    assert names <= {literal.partition("=")[0] for literal in shared["literals"]}
    assert names <= _variables()


def _ours(manifest: Any) -> Any:
    pod = manifest["spec"]["template"]["spec"]
    (found,) = (
        each
        for each in pod.get("initContainers", []) + pod["containers"]
        if each["command"][0] == "python"
    )
    return found


def test_the_columns_of_a_table_of_jobs_are_documented_in_their_order() -> None:
    assert [name for row in _REFERENCE.rows("A table of jobs") for name in spans(row[0])] == list(
        job_table.COLUMNS
    )


def test_the_columns_of_a_table_of_speeds_are_those_that_are_read(tmp_path: Path) -> None:
    names = [name for row in _REFERENCE.rows("A table of speeds") for name in spans(row[0])]
    table = tmp_path / "speeds.csv"
    table.write_text("\n".join([",".join(names), *(f"sync,{ps},2,1.5,64" for ps in range(1, 5))]))
    (read,) = speed_table.read_speed_tables(table).tables
    assert read.repeats == {Counts(p, 2): (1.5,) for p in range(1, 5)}
    assert read.batch is not None
