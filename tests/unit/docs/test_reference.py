"""The reference has what there is, and no page names what does not exist."""

import ast
import re
from pathlib import Path
from typing import Any, Final

import autoscaler.settings
import extender.settings
from autoscaler.profile.events import _NORMAL
from docs.generate_reference import PAGE, generated
from extender.gang_states import SENTENCES
from optimus.cli import job_table
from optimus.kube.contract import WAITING_EVENT, Annotation, Phase
from optimus.placement import PLACEMENT_RULES
from optimus.policies import POLICIES
from optimus.runtime.settings import flag_fields
from tests.harness.exposed_metrics import exposed_metrics
from tests.unit.docs.pages import ROOT, all_pages, page, spans

_REFERENCE: Final = page("docs/reference.md")
_PROGRAMS: Final[dict[str, type[Any]]] = {
    "OPTIMUS_": autoscaler.settings.Settings,
    "OPTIMUS_EXTENDER_": extender.settings.Settings,
}
_OF_TESTS: Final = ("OPTIMUS_LOCALCLUSTER_", "OPTIMUS_TEST_", "OPTIMUS_REQUIRE_")


def test_the_page_is_what_the_programs_say() -> None:
    assert generated(PAGE.read_text()) == PAGE.read_text(), "run make reference"


def test_every_annotation_is_in_the_reference() -> None:
    ours = {value for name, value in vars(Annotation).items() if name.isupper()}
    listed = {
        f"optimus.dl/{name}" for row in _REFERENCE.rows("Annotations") for name in spans(row[0])
    }
    assert listed <= ours
    assert {name for name in ours - listed if f"`{name}`" not in _REFERENCE.text} == set()


def test_every_phase_is_in_the_reference() -> None:
    phases = {word for row in _REFERENCE.rows("Phases") for word in row[0].split(", ")}
    assert phases == {each.value for each in Phase}


def test_the_reference_has_the_events_that_there_are() -> None:
    """A reason is found by its form: words in CamelCase in a module of Events."""
    listed = {name for row in _REFERENCE.rows("Events") for name in spans(row[0])}
    assert listed <= _texts("*.py")
    camel_case = re.compile(r"(?:[A-Z][a-z]+){2,}")
    assert {name for name in _texts("*events.py") if camel_case.fullmatch(name)} <= listed
    assert listed >= _NORMAL


def _texts(pattern: str) -> set[str]:
    """The texts in modules of the two processes."""
    paths = [path for name in ("autoscaler", "extender") for path in (ROOT / name).rglob(pattern)]
    nodes = (node for path in paths for node in ast.walk(ast.parse(path.read_text())))
    constants = (node.value for node in nodes if isinstance(node, ast.Constant))
    return {WAITING_EVENT, *(each for each in constants if isinstance(each, str))}


def test_no_page_names_a_variable_or_a_metric_that_is_not_there(tmp_path: Path) -> None:
    variables = {
        prefix + field.name.upper()
        for prefix, settings in _PROGRAMS.items()
        for field in flag_fields(settings)
    }
    metrics = exposed_metrics(tmp_path).keys()
    for each in all_pages():
        named = set(re.findall(r"\bOPTIMUS_[A-Z_]*[A-Z]\b", each.text))
        assert {name for name in named if not name.startswith(_OF_TESTS)} <= variables, each.name
        named = set(re.findall(r"\boptimus_(?:autoscaler|extender)_[a-z_]+[a-z]\b", each.text))
        assert {re.sub(r"_(bucket|sum|count)$", "", name) for name in named} <= metrics, each.name


def test_the_file_that_the_reference_shows_is_one_that_both_processes_take(tmp_path: Path) -> None:
    (block,) = re.findall(r"```yaml\n(autoscaler:.*?)```", _REFERENCE.text, re.DOTALL)
    path = tmp_path / "config.yaml"
    path.write_text(block)
    deciding = autoscaler.settings.parse([f"--config={path}"], {})
    placing = extender.settings.parse([f"--config={path}"], {})
    assert deciding != autoscaler.settings.Settings(config=path)
    assert placing != extender.settings.Settings(config=path)


def test_the_columns_of_a_table_of_jobs_are_listed_in_their_order() -> None:
    listed = spans(_REFERENCE.text.partition("**Jobs**")[2])[1:]
    assert listed[: len(job_table.COLUMNS)] == list(job_table.COLUMNS)


def test_every_policy_and_placement_rule_is_named_where_it_is_chosen() -> None:
    text = page("docs/policies.md").text
    assert {name for name in (*POLICIES, *PLACEMENT_RULES) if f"`{name}`" not in text} == set()


def test_every_sentence_of_a_refused_pod_is_in_the_extender_s_page() -> None:
    rows = page("docs/extender-protocol.md").rows("Reasons of a refused pod")
    documented = "\n".join(" ".join(row) for row in rows)
    for sentence in SENTENCES.values():
        pattern = re.sub(r"\\{\w+\\}", ".+", re.escape(sentence))
        assert re.search(pattern, documented), sentence
