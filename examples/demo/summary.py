"""The summary at the demo's end: decisions with reasons, and the error of each first forecast."""

from collections.abc import Mapping, Sequence

from rich.console import Console

from examples.demo.journal import JobHistory, Row
from examples.demo.view import line, table


def print_summary(
    console: Console, rows: Sequence[Row], histories: Mapping[str, JobHistory]
) -> None:
    """The last table, then each job's decisions and how good its first forecast was."""
    console.print()
    console.print(table(rows, console.width))
    for name, history in histories.items():
        console.print()
        console.print(f"[bold]{name}[/bold]: {_ending(history)}")
        for entry in history.rescales:
            console.print(line(entry), soft_wrap=True)
        forecast = _forecast(history)
        if forecast:
            console.print(forecast)


def _ending(history: JobHistory) -> str:
    if history.reached_at is None:
        return "did not reach its goal within the demo's time limit"
    return (
        f"reached its goal {history.reached_at - history.submitted_at:.0f} s after it was submitted"
    )


def _forecast(history: JobHistory) -> str:
    if history.first_forecast is None or history.reached_at is None:
        return ""
    at, remaining_seconds = history.first_forecast
    took = history.reached_at - at
    return (
        f"first forecast, {at - history.submitted_at:.0f} s after submission: "
        f"{remaining_seconds} s remaining at its counts then; actual: {took:.0f} s"
    )
