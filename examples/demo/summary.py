"""The summary at the demo's end: decisions with reasons, and the error of each first forecast."""

from collections.abc import Mapping, Sequence

from rich.console import Console

from examples.demo.journal import Row, Story
from examples.demo.view import line, table


def print_summary(console: Console, rows: Sequence[Row], stories: Mapping[str, Story]) -> None:
    """The last table, then each job's decisions and how good its first forecast was."""
    console.print()
    console.print(table(rows, console.width))
    for name, story in stories.items():
        console.print()
        console.print(f"[bold]{name}[/bold]: {_ending(story)}")
        for entry in story.rescales:
            console.print(line(entry), soft_wrap=True)
        forecast = _forecast(story)
        if forecast:
            console.print(forecast)


def _ending(story: Story) -> str:
    if story.reached_at is None:
        return "did not reach its goal within the demo's time limit"
    return f"reached its goal {story.reached_at - story.submitted_at:.0f} s after it was submitted"


def _forecast(story: Story) -> str:
    if story.first_forecast is None or story.reached_at is None:
        return ""
    at, remaining_seconds = story.first_forecast
    took = story.reached_at - at
    return (
        f"first forecast, {at - story.submitted_at:.0f} s after submission: {remaining_seconds} s "
        f"remaining at its counts then; actual: {took:.0f} s"
    )
