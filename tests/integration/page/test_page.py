"""The page in a real browser: every view, sizes, themes, the keyboard, and hostile text."""

import re
from collections.abc import Iterator

import pytest

from optimus.kube.contract import Phase
from tests.integration.page.accessibility import axe_source, violations
from tests.integration.page.browser import Browser
from tests.integration.page.conftest import ServedPage, served
from tests.unit.autoscaler.web.sample_cluster import HOSTILE, SampleCluster

pytestmark = pytest.mark.browser

VIEWS = {
    "overview": ("", ".line"),
    "job": ("#/jobs/team-a/resnet-0", ".chart canvas"),
    "waiting": ("#/jobs/team-b/seq2seq-13", ".job-reason"),
    "ended jobs": ("#/?show=ended", ".line"),
    "nodes": ("#/nodes", ".node"),
}
DRAWN = "document.documentElement.dataset.version"


@pytest.fixture(scope="module")
def page() -> Iterator[ServedPage]:
    with served(SampleCluster(40, hostile=True)) as found:
        yield found


def go(browser: Browser, page: ServedPage, path: str = "", shows: str = "main") -> None:
    browser.open("about:blank")
    browser.open(page.address + path)
    browser.wait(f"{DRAWN} && !!document.querySelector({shows!r})")


WIDTHS = (360, 400, 768, 1280, 2560)
SETTLED = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
CUT = """
[...document.querySelectorAll("main *, header *")]
  .filter((each) => each.clientWidth > 0 && each.scrollWidth > each.clientWidth)
  .filter((each) => getComputedStyle(each).overflowX !== "auto" && !each.matches(".sr, .live-text"))
  .filter((each) => !each.closest(".line"))
  .map((each) => `${each.tagName} ${each.className}: ${each.textContent.slice(0, 80)}`)
"""
"""What is wider than its place. Two boxes may be scrolled, two texts are for screen readers, and
lines of the list are cut on purpose: the view of a job has all of it."""


@pytest.fixture(scope="module")
def extremes() -> Iterator[ServedPage]:
    with served(SampleCluster(12, extreme=True)) as found:
        yield found


@pytest.mark.parametrize("view", [*VIEWS, "extremes", "extreme job", "extreme nodes"])
def test_nothing_is_cut_at_any_width(
    browser: Browser, page: ServedPage, extremes: ServedPage, view: str
) -> None:
    """Every cell, and whatever else has a text, shows all of it."""
    shown = {
        **{name: (page, path, shows) for name, (path, shows) in VIEWS.items()},
        "extremes": (extremes, "", ".line"),
        "extreme job": (extremes, f"#/jobs/{extremes.cluster.extreme_job}", ".chart canvas"),
        "extreme nodes": (extremes, "#/nodes", ".node"),
    }
    go(browser, *shown[view])
    for width in WIDTHS:
        browser.look(width, 900)
        browser.value(SETTLED)
        assert browser.value("document.documentElement.scrollWidth") <= width, "nothing sticks out"
        assert browser.value(CUT) == [], width
    assert browser.complaints == []


@pytest.fixture(scope="session")
def axe() -> str:
    return axe_source()


@pytest.mark.parametrize(("theme", "width"), [("light", 1280), ("dark", 360)])
@pytest.mark.parametrize("view", VIEWS)
def test_axe_has_no_complaint(
    browser: Browser, page: ServedPage, axe: str, view: str, theme: str, width: int
) -> None:
    """Names, roles, contrast, order of headings: the rules of WCAG 2.2 AA that a program can
    check."""
    browser.look(width, 900, theme)
    go(browser, page, *VIEWS[view])
    if "job" in VIEWS[view][0]:
        browser.wait("!!document.querySelector('ol[aria-label=Events]')")
    browser.value(SETTLED)
    assert violations(browser, axe) == []


def test_times_are_in_utc_and_say_so_whatever_the_zone_of_the_browser(
    browser: Browser, page: ServedPage
) -> None:
    browser.call("Emulation.setTimezoneOverride", timezoneId="Asia/Tokyo")
    try:
        go(browser, page, "#/jobs/team-a/resnet-0", ".chart canvas")
        assert "07:59:30" in browser.value("document.querySelector('.decisions').innerText")
        assert "UTC" in browser.value("document.querySelector('header').innerText")
        title = browser.value("document.querySelector('.decisions .note').title")
        assert title.startswith("Jan 15, 2027")
        assert "4:59:30" in title, "and the local time"
    finally:
        browser.call("Emulation.setTimezoneOverride", timezoneId="")


def test_hostile_text_is_shown_and_never_run(browser: Browser, page: ServedPage) -> None:
    go(browser, page, shows=".line")
    browser.wait("document.title === 'Optimus'")
    names = "[...document.querySelectorAll('.job-link')].map((each) => each.textContent)"
    assert HOSTILE in browser.value(names)
    browser.value(
        "[...document.querySelectorAll('.jobs .job-link')]"
        f".find((each) => each.textContent === {HOSTILE!r}).click()"
    )
    browser.wait("document.documentElement.dataset.view === 'job'")
    browser.wait("!document.querySelector('main').textContent.includes('Loading')")
    assert browser.value("document.querySelectorAll('main img, main script').length") == 0
    assert browser.value("document.title") != "1"


def test_the_policy_stops_what_would_be_injected(browser: Browser, page: ServedPage) -> None:
    go(browser, page)
    browser.value(
        "const each = document.createElement('script'); each.append('document.title = \"run\"');"
        "document.body.append(each); 0"
    )
    assert browser.value("document.title") != "run"
    parse = "document.body.innerHTML = '<b>x</b>'"
    assert browser.value(f"(() => {{ try {{ {parse}; return false }} catch {{ return true }} }})()")


def test_it_is_asked_what_more_workers_would_mean(browser: Browser, page: ServedPage) -> None:
    go(browser, page, "#/jobs/team-a/resnet-0", ".what-if-result p")
    browser.value(
        "[...document.querySelectorAll('.what-if button')]"
        ".find((each) => each.textContent === '+4 workers').click()"
    )
    browser.wait("document.querySelector('.what-if-main')?.textContent.includes('2 PS · 6 W')")
    assert "for the restart" in browser.value(
        "document.querySelector('.what-if-result').textContent"
    )
    cell = "document.querySelectorAll('.surface tbody tr')[2].querySelectorAll('td')[3]"
    browser.value(f"{cell}.click()")
    browser.wait("document.querySelector('.what-if-main')?.textContent.includes('3 PS · 4 W')")
    go(browser, page, "#/jobs/team-b/seq2seq-13", ".what-if-result p")
    waits = browser.value("document.querySelector('.what-if-result').textContent")
    assert re.match(r"Now: done [\d hmin]+ after it trains again\.", waits)
    assert browser.complaints == []


def test_a_job_without_parameter_servers_is_asked_about_by_its_workers(browser: Browser) -> None:
    cluster = SampleCluster(0)
    cluster.add_led()
    with served(cluster) as page:
        go(browser, page, "#/jobs/team-a/gpt-led", ".what-if-result p")
        browser.wait("document.querySelectorAll('.surface tbody tr').length === 1")
        assert browser.value("document.querySelector('.surface .here').textContent").endswith("now")
        browser.value("document.querySelectorAll('.surface td')[6].click()")
        browser.wait("document.querySelector('.what-if-main')?.textContent.includes('7 W')")
        browser.wait("document.querySelectorAll('.u-legend .u-label').length > 0")
        parts = ".surface, .what-if, .what-if-result, .u-legend, .tile"
        shown = f"[...document.querySelectorAll('{parts}')].map((each) => each.innerText).join()"
        assert "PS" not in str(browser.value(shown))
    assert browser.complaints == []


def test_an_ended_job_of_which_nothing_is_known_is_one_sentence(
    browser: Browser, page: ServedPage
) -> None:
    jobs = page.cluster.copy(0).jobs.values()
    ended = next(each for each in jobs if each.status.phase is Phase.COMPLETED)
    go(browser, page, f"#/jobs/{ended.key}", ".job-reason")
    shown = str(browser.value("document.querySelector('main').innerText"))
    assert shown.count("The job has ended, and nothing of its training is known") == 1
    for panel in ("No curve yet", "Not measured yet", "What if", "Nothing yet"):
        assert panel not in shown, panel


def test_a_job_that_has_not_trained_has_no_chart_and_no_empty_column(browser: Browser) -> None:
    with served(SampleCluster(4, untrained=True)) as page:
        go(browser, page, "#/jobs/team-a/untrained", ".facts")
        panels = "[...document.querySelectorAll('.panel')].map((e) => [e.innerText, e.offsetWidth])"
        shown = browser.value(panels)
        (curve,) = (each for each in shown if each[0].startswith("Loss over epochs"))
        (placement,) = (each for each in shown if each[0].startswith("Placement"))
        assert curve[0].splitlines()[-1] == "its log has shown no losses yet"
        assert "0" not in curve[0].splitlines()
        assert placement[1] == curve[1]


@pytest.fixture(scope="module")
def others() -> Iterator[ServedPage]:
    with served(SampleCluster(4, others=True)) as found:
        yield found


def job_shown(browser: Browser, page: ServedPage, name: str) -> tuple[list[str], str]:
    """The tiles of a job, and its lines for a shell."""
    go(browser, page, f"#/jobs/team-a/{name}", ".commands li")
    tiles = browser.value("[...document.querySelectorAll('.tile')].map((each) => each.innerText)")
    lines = browser.value("document.querySelector('.commands').innerText")
    return [each.replace("\u00a0", " ") for each in tiles], lines


def test_a_job_that_ended_short_of_its_goal_says_so_and_offers_what_can_be_done(
    browser: Browser, others: ServedPage
) -> None:
    tiles, lines = job_shown(browser, others, "resnet-short")
    shown = dict(each.split("\n", 1) for each in tiles)
    assert shown["Goal"] == "Not met\n60 epochs; 40 % of the way"
    assert shown["Trained"] == "24 of 60 epochs\nstep 2,400, in 24 min"
    assert shown["Loss"].endswith("the last one")
    assert not any(re.search("^–|\n–", each) for each in tiles), tiles
    assert "optimus why" in lines
    assert "pause" not in lines
    assert browser.complaints == []


def test_a_job_that_is_only_placed_shows_what_is_known_of_it(
    browser: Browser, others: ServedPage
) -> None:
    tiles, lines = job_shown(browser, others, "gpt-placed")
    shown = dict(each.split("\n", 1) for each in tiles)
    assert [*shown] == ["Size", "Pods", "Loss", "Progress", "Remaining", "Speed"]
    assert shown["Pods"] == "4 of 4\nhave a node"
    assert shown["Progress"] == "30 %\n12 of 40 epochs, step 120"
    assert shown["Remaining"].startswith("14 min\ndone at 08:14")
    assert shown["Speed"] == "0.333 steps/s"
    assert "without optimus.dl/global-batch-size" in browser.value("document.body.innerText")
    assert "replica-type=master" in lines
    assert "optimus advise gpt-placed" in lines
    assert "pause" not in lines
    assert "trainingprofile" not in lines
    tiles, lines = job_shown(browser, others, "mpi-placed")
    assert tiles[0] == "Size\n4 W"
    assert "-l jobset.sigs.k8s.io/jobset-name=mpi-placed -o wide" in lines
    tiles, _ = job_shown(browser, others, "gpt-ended")
    assert tiles == ["Size\n1 master · 3 W\nat its end"]
    assert "Completed" in browser.value("document.querySelector('.job-head').innerText")
    job_shown(browser, others, "resnet-short")
    browser.wait("!!document.querySelector('.u-legend')")
    assert browser.value(LEGEND) == ["loss", "fit", "80 % interval"], "what is drawn, and no more"
    browser.wait("document.querySelectorAll('.panel').length > 4")
    panels = "[...document.querySelectorAll('.panel h2')]"
    panels += ".filter((each) => each.offsetWidth).map((each) => each.innerText)"
    assert "Timeline" not in browser.value(panels), "of a size that never changed"
    assert browser.complaints == []


LEGEND = """[...document.querySelectorAll('.chart .u-series:not([hidden]) .u-label')]
  .filter((each) => getComputedStyle(each).visibility === 'visible')
  .map((each) => each.innerText)"""
OVERLAPPING = """[...document.querySelectorAll('.sample')].filter((dot) => {
  const text = document.createRange();
  text.selectNode(dot.parentElement.firstChild);
  return dot.getBoundingClientRect().top < text.getBoundingClientRect().bottom - 2;
}).length"""


def test_a_dot_stands_below_the_speed_that_was_measured(browser: Browser, page: ServedPage) -> None:
    go(browser, page, "#/jobs/team-a/resnet-0", ".sample")
    assert browser.value(OVERLAPPING) == 0


LINES = "[...document.querySelectorAll('.line')]"


@pytest.mark.parametrize(("width", "most"), [(1280, 160), (400, 200)])
def test_the_first_job_is_high_on_the_page_on_one_line_with_its_reason(
    browser: Browser, page: ServedPage, width: int, most: int
) -> None:
    browser.look(width, 900, "light")
    go(browser, page, *VIEWS["overview"])
    assert browser.value(f"{LINES}[0].getBoundingClientRect().top") < most
    heights = browser.value(f"{LINES}.map((each) => each.offsetHeight)")
    assert max(heights) <= (28 if width > 640 else 46)
    shown = browser.value(f"{LINES}.map((each) => each.innerText)")
    assert "Failed" in shown[0]
    assert "exit code 137 (OOMKilled)" in shown[0]
    waits = "about 11:05 UTC, when team-a/lm-4 ends: 3 workers of 4 cpu lack a place"
    assert any(waits in each for each in shown if "Waiting" in each)
    titles = browser.value("[...document.querySelectorAll('.c-reason')].map((e) => e.title)")
    assert any(each.startswith(waits) for each in titles), "what is cut is in its title"
    rights = "[...document.querySelectorAll('.c-ends .note')].map((e) => e.getBoundingClientRect())"
    assert len({*browser.value(f"{rights}.filter((e) => e.width).map((e) => e.right)")}) == 1


def test_a_job_that_is_not_there_says_so(browser: Browser, page: ServedPage) -> None:
    go(browser, page, "#/jobs/team-b/none")
    browser.wait("document.body.textContent.includes('There is no such job')")


def test_an_empty_cluster_says_what_to_do(browser: Browser) -> None:
    with served(SampleCluster(0)) as page:
        go(browser, page)
        browser.wait("document.body.textContent.includes('No training jobs yet')")
        assert browser.complaints == []


def test_the_keyboard_is_enough(browser: Browser, page: ServedPage) -> None:
    go(browser, page, shows=".line")
    browser.press("/", "Slash")
    browser.wait("document.activeElement.type === 'search'")
    for letter in "vgg-12":
        browser.press(letter)
    browser.wait("document.querySelectorAll('.line').length === 1")
    browser.press("Escape", "Escape", 27)
    browser.value("document.querySelector('.jobs .job-link').focus()")
    assert browser.value(f"getComputedStyle({LINES}[0]).outlineStyle") == "solid"
    browser.press("Enter", "Enter", 13)
    browser.wait("document.title.startsWith('vgg-12')")


def test_what_is_listed_is_in_the_address(browser: Browser, page: ServedPage) -> None:
    go(browser, page, "#/?q=e&show=attention&namespace=team-a", ".line")
    shown = browser.value(f"{LINES}.map((each) => each.innerText)")
    assert shown
    assert all("team-a" in each for each in shown)
    assert browser.value(f"{LINES}.every((each) => each.matches('.line-attention'))")
    browser.value("document.querySelector('[data-group=attention]').focus()")
    browser.press("Enter", "Enter", 13)
    assert browser.value("location.hash") == "#/?q=e&namespace=team-a"
    assert browser.value("document.activeElement.dataset.group") == "attention"
    browser.value("document.querySelector('[data-group=ended]').click()")
    assert browser.value("location.hash") == "#/?q=e&show=ended&namespace=team-a"
    choose = "each.value = ''; each.dispatchEvent(new Event('change'))"
    browser.value(f"{{const each = document.querySelector('[aria-label=Namespace]'); {choose}}}")
    assert browser.value("location.hash") == "#/?q=e&show=ended"
    browser.value("document.querySelector('[data-group=ended]').click()")
    # The whole line leads to the job.
    browser.value("document.querySelector('.line-running .c-progress').click()")
    browser.wait("document.querySelector('.crumbs a')?.getAttribute('href') === '#/?q=e'")
    assert browser.complaints == []


def test_a_job_has_lines_for_a_shell(browser: Browser, page: ServedPage) -> None:
    go(browser, page, "#/jobs/team-a/resnet-0", ".commands li")
    lines = browser.value(
        "[...document.querySelectorAll('.commands code')].map((e) => e.innerText)"
    )
    assert "kubectl -n team-a get mxjob resnet-0 -o yaml" in lines
    assert "kubectl optimus why resnet-0 -n team-a" in lines
    browser.value("document.querySelector('.commands button').click()")
    browser.wait("/Copied|Selected/.test(document.querySelector('.commands button').textContent)")
    assert browser.value("getSelection().toString()") == lines[0]


def test_a_job_shows_its_events(browser: Browser, page: ServedPage) -> None:
    go(browser, page, "#/jobs/team-a/resnet-0", ".chart canvas")
    events = browser.wait("document.querySelector('ol[aria-label=Events]')?.innerText")
    assert "Rescaled" in events.split("\n")[0]
    assert re.search(r"BackOff\s+worker-1\s+07:59:00 · 7 times · kubelet", events)
    assert "7 restarts" in browser.value("document.querySelector('.places').innerText")
    assert HOSTILE in events, "text, and no markup"
    assert browser.complaints == []


def test_a_chart_is_read_and_zoomed_by_keyboard(browser: Browser, page: ServedPage) -> None:
    go(browser, page, "#/jobs/team-a/resnet-0", ".chart canvas")
    browser.value("document.querySelector('.chart').focus()")
    said = "document.querySelector('.chart [role=status]').textContent"
    for expected in (r"epochs 0, goal 0\.15", r"epochs 1, loss 1\.\d+, fit 1\.\d+"):
        browser.press("ArrowRight", "ArrowRight", 39)
        assert re.match(expected, browser.value(said))
    legend = "document.querySelector('.chart .u-legend').innerText"
    assert re.search(r"80 % interval\s*[\d.]+ to [\d.]+", browser.value(legend))
    before = browser.value("document.querySelector('.chart canvas').toDataURL()")
    browser.press("+", "Equal", 187)
    browser.wait(f"document.querySelector('.chart canvas').toDataURL() !== {before!r}")
    browser.press("0", "Digit0", 48)
    browser.wait(f"document.querySelector('.chart canvas').toDataURL() === {before!r}")
    assert browser.complaints == []


def test_an_update_leaves_the_focus_where_it_is(browser: Browser, page: ServedPage) -> None:
    go(browser, page, shows=".line a")
    focused = "document.activeElement.textContent"
    browser.value("document.querySelectorAll('.line a')[1].focus()")
    name, before = browser.value(focused), browser.value(DRAWN)
    page.tick()
    browser.wait(f"{DRAWN} !== {before!r}")
    assert browser.value(focused) == name
    go(browser, page, "#/jobs/team-a/resnet-0", ".chart canvas")
    browser.value("document.querySelector('.panel-head .filter').focus()")
    browser.press("Enter", "Enter", 13)
    assert browser.value(focused) == "Log scale"


def test_a_deadline_is_one_sentence_with_its_probability(
    browser: Browser, page: ServedPage
) -> None:
    go(browser, page, "#/jobs/team-a/resnet-0", ".job-head")
    head = browser.wait(
        "document.querySelector('.job-head').innerText.includes('Deadline') && "
        "document.querySelector('.job-head').innerText"
    )
    assert (
        "Deadline 09:10 UTC, in 1 h 10 min: its goal is met by then with a probability of " in head
    )


def test_of_a_thousand_jobs_the_first_lines_are_drawn_and_an_update_is_quick(
    browser: Browser,
) -> None:
    with served(SampleCluster(1000)) as page:
        go(browser, page, shows=".line")
        running = "document.querySelectorAll('.line-running').length"
        assert browser.value(running) == 300
        before = browser.value(DRAWN)
        page.tick()
        browser.wait(f"{DRAWN} !== {before!r}")
        browser.value("document.querySelector('.group > button:not([hidden])').click()")
        assert browser.value(running) > 300
        assert browser.complaints == []
