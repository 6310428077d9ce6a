"""The page in a real browser: every view, sizes, themes, the keyboard, and hostile text.

``OPTIMUS_SCREENSHOTS=FOLDER`` keeps a picture of every view."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from optimus.kube.contract import Phase
from tests.integration.page.accessibility import axe_source, violations
from tests.integration.page.browser import Browser
from tests.integration.page.conftest import ServedPage, served
from tests.unit.autoscaler.web.sample_cluster import HOSTILE, SampleCluster

pytestmark = pytest.mark.browser

VIEWS = {
    "overview": ("", ".jobs tbody tr"),
    "job": ("#/jobs/team-a/resnet-0", ".chart canvas"),
    "waiting": ("#/jobs/team-b/seq2seq-13", ".job-reason"),
    "ended jobs": ("#/?phase=ended", ".jobs tbody tr"),
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


def keep(browser: Browser, name: str) -> None:
    folder = os.environ.get("OPTIMUS_SCREENSHOTS")
    if folder:
        browser.screenshot(Path(folder) / f"{name}.png", whole=True)


WIDTHS = (360, 400, 768, 1280, 2560)
SETTLED = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
CUT = """
[...document.querySelectorAll("main *, header *")]
  .filter((each) => each.clientWidth > 0 && each.scrollWidth > each.clientWidth)
  .filter((each) => getComputedStyle(each).overflowX !== "auto" && !each.matches(".sr, .live-text"))
  .map((each) => `${each.tagName} ${each.className}: ${each.textContent.slice(0, 80)}`)
"""
"""What is wider than its place. Two boxes may be scrolled, and two texts are for screen readers."""


@pytest.fixture(scope="module")
def extremes() -> Iterator[ServedPage]:
    with served(SampleCluster(12, extreme=True)) as found:
        yield found


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("view", [*VIEWS, "extremes", "extreme job", "extreme nodes"])
def test_nothing_is_cut_at_any_width(
    browser: Browser, page: ServedPage, extremes: ServedPage, view: str, theme: str
) -> None:
    """Every cell, and whatever else has a text, shows all of it."""
    shown = {
        **{name: (page, path, shows) for name, (path, shows) in VIEWS.items()},
        "extremes": (extremes, "", ".jobs tbody tr"),
        "extreme job": (extremes, f"#/jobs/{extremes.cluster.extreme_job}", ".chart canvas"),
        "extreme nodes": (extremes, "#/nodes", ".node"),
    }
    browser.look(WIDTHS[0], 900, theme)
    go(browser, *shown[view])
    assert browser.value("document.documentElement.dataset.theme") == theme
    for width in WIDTHS:
        browser.look(width, 900, theme)
        browser.value(SETTLED)
        assert browser.value("document.documentElement.scrollWidth") <= width, "nothing sticks out"
        assert browser.value(CUT) == [], width
        keep(browser, f"{view}-{theme}-{width}")
    assert browser.complaints == []


@pytest.fixture(scope="session")
def axe() -> str:
    return axe_source()


@pytest.mark.parametrize("width", [360, 1280])
@pytest.mark.parametrize("theme", ["light", "dark"])
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
        browser.value("document.querySelector('summary').click()")
    browser.value(SETTLED)
    assert violations(browser, axe) == []


def test_a_job_at_its_goal_has_no_time_left_and_no_missing_forecast(
    browser: Browser, extremes: ServedPage
) -> None:
    done = next(
        each.key
        for each in extremes.cluster.copy().jobs.values()
        if each.status.phase is Phase.AT_TARGET and each.key.namespace.startswith("a-")
    )
    go(browser, extremes, f"#/jobs/{done}", ".tile")
    texts = browser.value("[...document.querySelectorAll('.tile')].map((each) => each.innerText)")
    assert "Remaining\n–\ngoal met" in texts


def test_figures_have_no_powers_of_ten_where_digits_can_be_read(
    browser: Browser, extremes: ServedPage
) -> None:
    go(browser, extremes, "#/nodes", ".node")
    nodes = browser.value("document.querySelector('.node-grid').innerText")
    assert "of 24,000" in nodes
    assert "of 123,456" in nodes
    assert "e+" not in nodes
    assert "1 PS · 1 W · 1 scheduler" in nodes


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


def test_a_duration_is_rounded_before_it_is_cut_into_hours_and_minutes(
    browser: Browser, page: ServedPage
) -> None:
    go(browser, page)
    texts = browser.value(
        "import('/assets/dom.js').then((dom) => "
        "[59.6, 599.4, 3599, 7190, 86399, 172790].map(dom.duration))"
    )
    assert texts == ["1 m", "9 m 59 s", "1 h 0 m", "2 h 0 m", "1 d 0 h", "2 d 0 h"]


def test_rescales_and_profiling_runs_are_counted_as_they_are_drawn(
    browser: Browser, extremes: ServedPage
) -> None:
    training = next(
        each.key
        for each in extremes.cluster.copy().jobs.values()
        if each.status.phase is Phase.TRAINING and each.key.namespace.startswith("a-")
    )
    go(browser, extremes, f"#/jobs/{training}", ".tile")
    size = browser.value("document.querySelector('.tile').innerText")
    assert "1234 rescales, 4 profiling runs" in size


def test_a_legend_follows_its_chart_closely(browser: Browser, page: ServedPage) -> None:
    """The axis below a chart is as high as its texts, and its last text has its place."""
    go(browser, page, "#/jobs/team-a/resnet-0", ".chart canvas")
    gaps = browser.value(
        "[...document.querySelectorAll('.uplot')].map((each) => "
        "each.querySelector('.u-wrap').clientHeight - each.querySelector('.u-over').offsetTop"
        " - each.querySelector('.u-over').clientHeight)"
    )
    assert all(gap <= 50 for gap in gaps)
    right = browser.value(
        "[...document.querySelectorAll('.uplot')].map((each) => "
        "each.querySelector('.u-wrap').clientWidth - each.querySelector('.u-over').offsetLeft"
        " - each.querySelector('.u-over').clientWidth)"
    )
    assert all(room >= 18 for room in right)


def test_it_is_live(browser: Browser, page: ServedPage) -> None:
    go(browser, page)
    browser.wait("document.getElementById('live').dataset.state === 'live'")
    before = browser.value(DRAWN)
    page.tick()
    browser.wait(f"{DRAWN} !== {before!r}")


def test_hostile_text_is_shown_and_never_run(browser: Browser, page: ServedPage) -> None:
    go(browser, page, shows=".jobs tbody tr")
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
    keep(browser, "what-if-light-1360")
    cell = "document.querySelectorAll('.surface tbody tr')[2].querySelectorAll('td')[3]"
    browser.value(f"{cell}.click()")
    browser.wait("document.querySelector('.what-if-main')?.textContent.includes('3 PS · 4 W')")
    assert browser.complaints == []


def test_a_broken_job_says_what_is_wrong(browser: Browser, page: ServedPage) -> None:
    go(browser, page, "#/jobs/team-b/broken", ".job-head")
    browser.wait("document.body.textContent.includes('the losses are no numbers')")
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
    keep(browser, "ended")


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


def test_a_card_of_a_narrow_list_leaves_out_what_is_not_known(
    browser: Browser, others: ServedPage
) -> None:
    browser.look(360, 900, "light")
    go(browser, others, "#/?q=gpt-placed", ".jobs tbody tr")
    cells = "[...document.querySelectorAll('.jobs tbody td')].filter((each) => each.clientHeight)"
    shown = browser.value(f"{cells}.map((each) => each.innerText.trim())")
    assert "–" not in shown
    browser.look(1280, 900, "light")
    assert "–" in browser.value(f"{cells}.map((each) => each.innerText.trim())")


def test_a_job_that_ended_short_of_its_goal_says_so_and_offers_what_can_be_done(
    browser: Browser, others: ServedPage
) -> None:
    tiles, lines = job_shown(browser, others, "resnet-short")
    shown = dict(each.split("\n", 1) for each in tiles)
    assert shown["Goal"] == "Not met\n60 epochs; 40 % of the way"
    assert shown["Trained"] == "24 of 60 epochs\nstep 2,400; in 24 m"
    assert shown["Loss"].endswith("the last one")
    assert not any(re.search("^–|\n–", each) for each in tiles), tiles
    assert "optimus why" in lines
    assert "pause" not in lines
    assert browser.complaints == []


def test_a_job_that_is_only_placed_shows_what_is_known_of_it(
    browser: Browser, others: ServedPage
) -> None:
    tiles, lines = job_shown(browser, others, "gpt-placed")
    assert tiles == ["Size\n1 master · 3 W", "Pods\n4 of 4\nhave a node"]
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
    assert browser.complaints == []


@pytest.mark.parametrize("width", [400, 800, 1024, 1280])
def test_tiles_fill_their_rows(browser: Browser, page: ServedPage, width: int) -> None:
    browser.look(width, 900, "light")
    go(browser, page, *VIEWS["overview"])
    browser.value(SETTLED)
    right = "Math.max(...[...document.querySelectorAll('.tile')].filter((each) => each.offsetTop"
    last = "document.querySelector('.tile:last-child').offsetTop"
    ends = browser.value(f"{right} === {last}).map((each) => each.getBoundingClientRect().right))")
    assert isinstance(ends, int | float)
    whole = browser.value("document.querySelector('.tiles').getBoundingClientRect().right")
    assert ends == pytest.approx(whole, abs=1)
    keep(browser, f"tiles-{width}")


def test_a_job_that_is_not_there_says_so(browser: Browser, page: ServedPage) -> None:
    go(browser, page, "#/jobs/team-b/none")
    browser.wait("document.body.textContent.includes('There is no such job')")


def test_an_empty_cluster_says_what_to_do(browser: Browser) -> None:
    with served(SampleCluster(0)) as page:
        go(browser, page)
        browser.wait("document.body.textContent.includes('No training jobs yet')")
        keep(browser, "empty-light-1360")
        assert browser.complaints == []


def test_the_keyboard_is_enough(browser: Browser, page: ServedPage) -> None:
    go(browser, page, shows=".jobs tbody tr")
    browser.press("/", "Slash")
    browser.wait("document.activeElement.type === 'search'")
    for letter in "vgg-12":
        browser.press(letter)
    browser.wait("document.querySelectorAll('.jobs tbody tr').length === 1")
    browser.press("Escape", "Escape", 27)
    browser.value("document.querySelector('.jobs .job-link').focus()")
    browser.press("Enter", "Enter", 13)
    browser.wait("document.title.startsWith('vgg-12')")
    browser.press("n", "KeyN", 78)
    browser.wait("document.documentElement.dataset.view === 'nodes'")


def test_what_is_listed_is_in_the_address(browser: Browser, page: ServedPage) -> None:
    rows = "[...document.querySelectorAll('.jobs tbody tr')].map((each) => each.innerText)"
    go(browser, page, "#/?phase=Waiting&namespace=team-a&sort=-name", ".jobs tbody tr")
    shown = browser.value(rows)
    assert shown
    assert all("Waiting" in each and "team-a" in each for each in shown)
    names = [each.split()[0] for each in shown]
    assert names == sorted(names, reverse=True)
    browser.value("document.querySelector('[data-phase=\"\"]').click()")
    assert browser.value("location.hash") == "#/?namespace=team-a&sort=-name"
    browser.value(
        "const each = document.querySelector('.search select'); each.value = '';"
        "each.dispatchEvent(new Event('change')); 0"
    )
    assert browser.value("location.hash") == "#/?sort=-name"
    browser.value("document.querySelector('.jobs .job-link').click()")
    browser.wait("document.querySelector('.crumbs a')?.getAttribute('href') === '#/?sort=-name'")
    assert browser.complaints == []


def test_a_tile_and_a_range_of_time_choose_jobs_and_are_in_the_address(
    browser: Browser, page: ServedPage
) -> None:
    phases = "[...document.querySelectorAll('.jobs .phase')].map((each) => each.innerText)"
    go(browser, page, "#/?since=24h", ".jobs tbody tr")
    for tile, shown in (("ended", {"Completed", "Failed"}), ("Waiting", {"Waiting"})):
        browser.value(f"document.querySelector('[data-tile={tile}]').click()")
        assert set(browser.value(phases)) == shown
        assert browser.value("location.hash") == f"#/?phase={tile}&since=24h"
        assert browser.value("document.activeElement.tagName") != "SELECT"
    browser.value("document.querySelector('[data-tile=attention]').focus()")
    browser.press("Enter", "Enter", 13)
    assert browser.value("location.hash") == "#/?phase=attention&since=24h"
    assert browser.value("document.activeElement.dataset.tile") == "attention"
    browser.press("Enter", "Enter", 13)
    choose = "each.value = '1h'; each.dispatchEvent(new Event('change'))"
    browser.value(f"const each = document.querySelector('[aria-label=Submitted]'); {choose}; 0")
    assert browser.value("location.hash") == "#/?since=1h"
    assert "resnet-0" not in browser.value("document.querySelector('.jobs').innerText")
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


def test_the_lines_of_a_train_job_name_the_labels_of_its_jobset(
    browser: Browser, page: ServedPage
) -> None:
    go(browser, page, "#/", ".jobs")
    row = "{ namespace: 'ns', name: 'j', kind: 'TrainJob' }"
    lines = browser.value(f"import('/assets/job.js').then((job) => job.commands({row}))")
    pods = "-l jobset.sigs.k8s.io/jobset-name=j"
    assert lines == [
        f"kubectl -n ns get pods {pods} -o wide",
        f"kubectl -n ns logs {pods} --prefix --tail=20",
        "kubectl -n ns get trainjob j -o yaml",
        "kubectl optimus why j -n ns",
    ]


def test_a_job_shows_its_events_and_its_yaml(browser: Browser, page: ServedPage) -> None:
    go(browser, page, "#/jobs/team-a/resnet-0", ".chart canvas")
    events = browser.wait("document.querySelector('ol[aria-label=Events]')?.innerText")
    assert "Rescaled" in events.split("\n")[0]
    assert re.search(r"BackOff\s+worker-1\s+07:59:00 · 7 times · kubelet", events)
    assert "7 restarts" in browser.value("document.querySelector('.places').innerText")
    assert HOSTILE in events, "text, and no markup"
    browser.value("document.querySelector('summary').click()")
    shown = browser.value("document.querySelector('.yaml:not(.log)').innerText")
    assert "optimus.dl/target-loss: '0.15'" in shown
    assert "secret" not in shown
    assert browser.complaints == []


def test_a_log_is_read_by_keyboard_with_a_token_that_nothing_keeps(
    browser: Browser, page: ServedPage
) -> None:
    go(browser, page, "#/jobs/team-a/resnet-0", "input[type=password]")
    field, log = "document.querySelector('input[type=password]')", "document.querySelector('.log')"
    for token, shows in (("wrong", "this token may not read it"), ("right", "The last lines of")):
        browser.value(f"{field}.focus()")
        for letter in token:
            browser.press(letter)
        browser.press("Enter", "Enter", 13)
        browser.wait(f"document.body.innerText.includes({shows!r})")
    text = browser.value(f"{log}.textContent")
    assert text.startswith("resnet-0-worker-1 now\n")
    assert HOSTILE in text
    assert browser.value(f"{log}.children.length") == 0
    keep(browser, "log-light-1360")
    kept = (
        "JSON.stringify([document.cookie, {...localStorage}, {...sessionStorage}, location.href])"
    )
    assert "right" not in browser.value(kept) + browser.value(f"{field}.value")
    browser.value(f"{field}.closest('.what-if').querySelector('[type=checkbox]').click()")
    browser.value(f"{field}.focus()")
    browser.press("Enter", "Enter", 13)
    browser.wait(f"{log}.textContent.startsWith('resnet-0-worker-1 before')")
    browser.value(f"{field}.closest('.what-if').querySelector('button:last-child').click()")
    browser.press("Enter", "Enter", 13)
    browser.wait("document.body.innerText.includes('A token is needed')")
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
    go(browser, page, shows=".waiting-list a")
    focused = "document.activeElement.textContent"
    browser.value("document.querySelectorAll('.waiting-list a')[1].focus()")
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
    assert "Deadline 09:10 UTC, in 1 h 10 m: its goal is met by then with a probability of " in head


def test_a_loss_is_drawn_on_a_logarithmic_scale_where_that_is_asked_for(
    browser: Browser, page: ServedPage
) -> None:
    go(browser, page, "#/jobs/team-a/resnet-0", ".chart canvas")
    pressed = "document.querySelector('.panel-head .filter').getAttribute('aria-pressed')"
    browser.value("document.querySelector('.panel-head .filter').click()")
    assert browser.value(pressed) == "true"
    keep(browser, "log-scale-light-1360")
    assert browser.complaints == []


def test_the_theme_is_chosen_and_kept(browser: Browser, page: ServedPage) -> None:
    go(browser, page)
    for choice, theme in (("light", "light"), ("dark", "dark")):
        browser.value("document.getElementById('theme').click()")
        browser.wait(f"document.documentElement.dataset.themeChoice === {choice!r}")
        assert browser.value("document.documentElement.dataset.theme") == theme
    go(browser, page)
    assert browser.value("document.documentElement.dataset.theme") == "dark"
    browser.value("localStorage.clear()")


def test_a_thousand_jobs_are_one_page_of_rows(browser: Browser) -> None:
    with served(SampleCluster(1000)) as page:
        go(browser, page, shows=".jobs tbody tr")
        assert browser.value("document.querySelectorAll('.jobs tbody tr').length") == 50
        assert "of 1000" in browser.value("document.querySelector('.pager').textContent")
        browser.value("[...document.querySelectorAll('.pager button')].at(-1).click()")
        browser.wait("document.querySelector('.pager').textContent.includes('51–100')")
        before = browser.value(DRAWN)
        page.tick()
        browser.wait(f"{DRAWN} !== {before!r}")
        assert browser.value("document.querySelector('.pager').textContent").startswith("51–100")
        keep(browser, "thousand-light-1360")
        assert browser.complaints == []
