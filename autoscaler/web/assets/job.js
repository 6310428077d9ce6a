// One job: its curve, its speed over counts, its timeline, where it runs and what was decided.
import { countsChart, curveChart, sweep } from "./charts.js";
import {
  ago, bar, clock, counts, duration, empty, figure, full, h, hasEnded, panel, phaseChip, redraw, remainingNow, replace,
  second, signed, size, unbroken,
} from "./dom.js";
import { state } from "./state.js";
import { whatIf } from "./whatif.js";

const REFRESH_MS = 3000;
const STORED_MS = 15000;
const LOG_MS = 60000;

const isUnmanaged = (row) => ["NotManaged", "LeftAlone"].includes(row.phase);

/** Whether nothing is known of its training, and nothing will be: it has ended, or it is only placed. */
const isUnknown = (found) => (hasEnded(found.row) || isUnmanaged(found.row)) && !found.charts.length && !found.speed;

const placedOnly = (row) => (row.isResized
  ? "It is placed as a gang and not managed, since it has no goal: the annotation optimus.dl/target-loss, for example, sets one."
  : `It is placed as a gang. A ${row.kind} is never resized.`);

export function jobView(namespace, name) {
  const place = `${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`;
  const path = `api/jobs/${place}`;
  const storedPath = `api/events/${place}`;
  const logPath = `api/logs/${place}`;
  const element = h("div", { class: "view job" }, empty("Loading", `${namespace}/${name}`));
  let detail = null;
  let shownCurve = "";
  let shownCounts = "";
  let shownCommands = "";
  let logarithmic = false;
  let loading = false;
  let again = false;
  let closed = false;
  let loadedAt = -Infinity;
  let loggedAt = -Infinity;
  let timer = null;
  let storedTimer = null;
  let asked = null;
  const boxes = {
    head: h("div", { class: "job-head" }), tiles: h("div", { class: "tiles" }), warnings: h("div", { class: "warnings" }),
    log: h("div", { hidden: true }), curves: h("div", {}), speed: h("div", {}), timeline: h("div", {}), counts: h("div", { class: "chart" }), rescales: h("div", {}),
    middle: h("div", {}), model: h("div", { class: "stack" }), whatIf: h("div", {}), placement: h("div", {}), decided: h("div", { class: "stack" }), told: h("div", {}), places: h("div", {}), decisions: h("div", {}), facts: h("div", {}), commands: h("ul", { class: "commands" }),
    events: h("div", {}, h("p", { class: "caption" }, "Loading")),
  };

  async function load() {
    if (loading) {
      again = true;
      return;
    }
    loading = true;
    again = false;
    clearTimeout(timer);
    let found = null;
    let status = 0;
    try {
      const answer = await fetch(path);
      status = answer.status;
      if (answer.ok) found = await answer.json();
    } catch {
      status = 0;
    }
    loading = false;
    loadedAt = performance.now();
    if (closed) return;
    if (found) draw(found);
    else if (status === 404) gone();
    else later();
    if (again) later();
  }

  function later() {
    clearTimeout(timer);
    timer = setTimeout(load, Math.max(REFRESH_MS - (performance.now() - loadedAt), 0));
  }

  /** Events are the API server's: they are asked for seldom, and while somebody looks. */
  async function loadStored() {
    storedTimer = setTimeout(loadStored, STORED_MS);
    if (document.hidden) return;
    let problem = "the server did not answer";
    try {
      const answer = await fetch(storedPath);
      if (closed) return;
      if (answer.ok) {
        const found = await answer.json();
        return redraw(boxes.events, () => stored(found));
      }
      problem = `the server answered ${answer.status}`;
    } catch { /* it is asked again */ }
    if (!boxes.events.querySelector("ol")) replace(boxes.events, empty("Not known", problem));
  }

  /** Of a job that is only placed its log is read while somebody looks. */
  async function loadLog() {
    loggedAt = performance.now();
    try {
      const answer = await fetch(logPath);
      const lines = answer.ok ? await answer.json() : [];
      if (closed || !lines.length) return;
      boxes.log.hidden = false;
      redraw(boxes.log, () => replace(boxes.log, panel("By its log", { note: "as kubectl optimus advise tells it" }, lines.map((each) => h("p", { class: "caption" }, each)))));
    } catch { /* it is asked again */ }
  }

  function stored(found) {
    const told = found.problems.map((each) => h("p", { class: "warning" }, each));
    const lines = found.events.map((each) => h("li", {},
      h("div", { class: "decision-head" }, h("span", { class: `action ${each.type === "Warning" ? "action-wait" : "action-keep"}` }, each.reason),
        each.about && each.about !== name && h("strong", {}, each.about.startsWith(`${name}-`) ? each.about.slice(name.length + 1) : each.about),
        h("span", { class: "note", title: full(Date.parse(each.last_at) / 1000) }, [each.last_at && second(Date.parse(each.last_at) / 1000), each.count > 1 && `${each.count} times`, each.component].filter(Boolean).join(" · "))),
      h("p", {}, each.message)));
    if (found.events.length || !found.problems.length || !boxes.events.querySelector("ol")) {
      replace(boxes.events, told, lines.length ? h("ol", { class: "decisions", tabindex: 0, "aria-label": "Events" }, lines) : null);
      boxes.eventsPanel.hidden = !told.length && !lines.length;
    }
  }

  function gone() {
    detail = null;
    replace(element, empty("There is no such job", `${namespace}/${name} is not there, or not any more.`), h("p", { class: "center" }, h("a", { href: "#/" }, "All jobs")));
  }

  function draw(found) {
    if (!detail) layout();
    detail = found;
    const row = found.row;
    redraw(boxes.head, () => replace(boxes.head,
      h("div", {}, h("p", { class: "crumbs" }, h("a", { href: state.list }, "Jobs"), " / ", row.namespace),
        h("h1", {}, row.name), h("div", { class: "job-sub" }, phaseChip(row.phase), h("span", { class: "note" }, `${row.kind} · submitted ${ago(row.createdAt, found.at)}`))),
      h("p", { class: "job-reason" }, row.action && h("span", { class: "action" }, row.action), row.needs || found.reason || found.leftAlone || (isUnmanaged(row) ? placedOnly(row) : "nothing was decided yet")),
      row.deadlineAt && !hasEnded(row) && deadline(row, found)));
    replace(boxes.warnings, found.warnings.map((each) => h("p", { class: "warning" }, each)));
    boxes.model.hidden = !found.speed?.speed.length && !found.speed?.samples.length;
    boxes.timeline.hidden = !found.counts.length && !found.rescales.length;
    boxes.middle.className = boxes.model.hidden ? "" : "columns even";
    boxes.curves.hidden = isUnknown(found) && !hasEnded(row);
    boxes.placement.hidden = !found.places.length;
    boxes.decided.hidden = !found.decisions.length;
    boxes.told.className = boxes.decided.hidden ? "" : "columns even";
    if (isUnmanaged(row) && !hasEnded(row) && !document.hidden && performance.now() - loggedAt > LOG_MS) loadLog();
    tiles(found);
    redraw(boxes.curves, () => curves(found));
    redraw(boxes.speed, () => speed(found));
    redraw(boxes.timeline, () => timeline(found));
    asked.show(found);
    places(found);
    redraw(boxes.decisions, () => decisions(found));
    drawCommands(row);
    replace(boxes.facts, h("dl", { class: "facts" }, found.facts.map((each) => h("div", {}, h("dt", {}, each.name), h("dd", {}, each.value)))));
  }

  function drawCommands(row) {
    const lines = commands(row);
    if (lines.join() === shownCommands) return;
    shownCommands = lines.join();
    redraw(boxes.commands, () => replace(boxes.commands, lines.map(command)));
  }

  function layout() {
    replace(boxes.model, boxes.speed, boxes.whatIf);
    replace(boxes.placement, panel("Placement", { note: "by node" }, boxes.places));
    replace(boxes.decided, panel("Decisions", { note: "newest first; repeats grouped" }, boxes.decisions));
    replace(boxes.told, boxes.decided, boxes.eventsPanel = panel("Events", { note: "on the job and its pods, newest first" }, boxes.events));
    replace(boxes.middle, boxes.model, h("div", { class: "stack" }, boxes.timeline, boxes.placement));
    replace(element, boxes.head, boxes.warnings, boxes.tiles, boxes.log, boxes.curves, boxes.middle,
      boxes.told, panel("Settings", {}, boxes.facts), panel("kubectl", { note: "with your own rights" }, boxes.commands));
    replace(boxes.timeline, panel("Timeline", { note: "rescales are shaded" }, boxes.counts, boxes.rescales));
    shownCurve = shownCounts = shownCommands = "";
    asked = whatIf(namespace, name, boxes.whatIf);
  }

  function tiles(found) {
    const row = found.row;
    const left = remainingNow(row, found.at);
    const cut = (row.metric ?? "").lastIndexOf(" ");
    const value = row.metric ? row.metric.slice(cut + 1) : figure(row.loss);
    const [of, goal] = [row.metric ? row.metric.slice(0, Math.max(cut, 0)) || "metric" : "Loss", row.goal ? `goal ${row.goal}` : "no goal"];
    const speed = row.speed === undefined ? "–" : `${figure(row.speed, 3)} /s`;
    const books = row.books && tile("Saved", signed(row.saved), row.books, null, row.saved < 0 ? "alert" : "");
    if (hasEnded(row) || isUnmanaged(row)) {
      const place = found.places.flatMap((each) => each.replicas.map(() => each.node));
      replace(boxes.tiles,
        tile("Size", unbroken(size(row)), hasEnded(row) ? "at its end" : ""),
        !hasEnded(row) && tile("Pods", `${place.filter(Boolean).length} of ${place.length}`, "have a node"),
        value !== "–" && tile(of, value, "the last one"),
        row.goal && tile("Goal", row.outlook === "goal met" ? "Met" : "Not met", [row.goal, row.outlook !== "goal met" && row.percent && `${row.percent} % of the way`].filter(Boolean).join("; ")),
        (found.trained || found.trainedSeconds > 0) && trainedTile(found),
        row.speed !== undefined && tile("Speed", speed, "steps, as measured last"),
        books);
      return;
    }
    replace(boxes.tiles,
      tile("Size", unbroken(size(row)), row.targetWorkers !== undefined ? `going to ${counts(row.targetPs, row.targetWorkers)}` : moves(row.rescales ?? 0, found.profilingRuns)),
      tile(of, value, goal),
      tile("Progress", row.percent === undefined ? "–" : `${row.percent} %`, `trained for ${duration(found.trainedSeconds)}`, row.percent === undefined ? null : bar(row.percent, `${row.percent} %`)),
      tile("Remaining", left ? duration(left.median) : "–", 
        [row.endsAt && h("span", { title: full(row.endsAt) }, `done at ${clock(row.endsAt, state.at || found.at)} UTC`), row.outlook, left && left.high > left.low && `${duration(left.low)} to ${duration(left.high)} with 80 %`]
          .filter(Boolean).flatMap((each) => ["; ", each]).slice(1)),
      tile("Speed", speed, `steps; a rescale ${found.priceMeasured ? "costs" : "is taken to cost"} ${duration(found.priceSeconds)}`),
      books);
  }

  function curves(found) {
    const text = JSON.stringify([found.charts, isUnknown(found), hasEnded(found.row)]);
    if (text === shownCurve) return;
    shownCurve = text;
    if (!found.charts.length) return replace(boxes.curves, isUnknown(found) && h("p", { class: "caption" }, "The job has ended, and nothing of its training is known here."));
    const drawn = found.charts.map((chart) => {
      const box = h("div", { class: "chart" });
      const note = h("p", { class: "caption" }, caption(chart, hasEnded(found.row)));
      const title = chart.name === "loss" ? "Loss" : chart.name;
      const positive = chart.value.length > 0 && Math.min(...chart.value, chart.goal ?? 1) > 0;
      const scale = positive && h("button", { type: "button", class: "filter", "aria-pressed": String(logarithmic), onclick: () => { logarithmic = !logarithmic; shownCurve = ""; redraw(boxes.curves, () => curves(detail)); } }, "Log scale");
      return [panel(`${title} over ${chart.unit}`, { note: chart.goalText && `goal ${chart.goalText}`, actions: scale }, chart.k.length > 0 && box, note), box, chart];
    });
    replace(boxes.curves, h("div", { class: drawn.length > 1 ? "columns even" : "" }, drawn.map(([each]) => each)));
    sweep();
    for (const [, box, chart] of drawn) if (chart.k.length) curveChart(box, chart, logarithmic);
  }

  function speed(found) {
    const chart = found.speed;
    if (boxes.model.hidden) return replace(boxes.speed);
    const kept = boxes.speed.querySelector("[aria-pressed=true]")?.dataset.what ?? "speed";
    const holder = h("div", {});
    const pick = (what) => {
      for (const each of buttons.children) each.setAttribute("aria-pressed", String(each.dataset.what === what));
      replace(holder, chart.speed.length ? surface(chart, what, asked.ask) : samples(chart));
    };
    const choices = chart.speed.length ? [["speed", "Speed"], ["remaining", "Time to goal"]] : [];
    const buttons = h("div", { class: "segmented", role: "group", "aria-label": "What is shown" },
      choices.map(([what, label]) => h("button", { type: "button", "data-what": what, onclick: () => pick(what) }, label)));
    replace(boxes.speed, panel("Speed by size", { actions: buttons, note: chart.expected ? "expected" : "" }, holder, h("p", { class: "caption" }, chart.speed.length ? `By the model. A dot marks a size that was measured, the frame the ${hasEnded(found.row) ? "last one." : "present one. Click a size, or set it under What if, to ask what it would mean."}` : chart.reason)));
    pick(kept);
  }

  function timeline(found) {
    const text = JSON.stringify([found.counts, found.rescales]);
    if (text === shownCounts) return;
    shownCounts = text;
    if (found.counts.length) {
      replace(boxes.counts);
      sweep();
      countsChart(boxes.counts, found.counts, found.rescales, found.at);
    }
    const newest = [...found.rescales].reverse();
    replace(boxes.rescales, newest.length ? h("ul", { class: "rescales", tabindex: 0, "aria-label": "Rescales" }, newest.map((each) => h("li", {},
      h("span", { class: "when", title: full(each.beganAt) }, second(each.beganAt)),
      h("span", { class: "change" }, each.purpose === "profiling" && "profiling run: ", `${counts(each.fromPs, each.fromWorkers)} → ${each.toWorkers ? counts(each.toPs, each.toWorkers) : "suspended"}`),
      h("span", { class: `outcome ${each.outcome === "reached" ? "good" : ""}` }, each.endedAt ? each.outcome : each.step || "in progress"),
      h("span", { class: "cost" }, each.priceSeconds !== null ? `cost ${duration(each.priceSeconds)}` : each.endedAt ? `took ${duration(each.endedAt - each.beganAt)}` : `for ${duration(found.at - each.beganAt)}`),
      h("span", { class: "why clamp", title: each.why }, each.why)))) : h("p", { class: "caption" }, found.since ? `No rescale since ${clock(found.since, found.at)}.` : ""));
  }

  function places(found) {
    replace(boxes.places, found.places.length ? h("ul", { class: "places" }, found.places.map((place) => h("li", {},
      h("div", { class: "place-head" }, h("strong", {}, place.node || "no node yet"), place.kind && h("span", { class: "note" }, place.kind)),
      h("div", { class: "replicas" }, place.replicas.map((each) => h("span", {
        class: `replica role-${each.role === "ps" ? "ps" : each.role === "worker" ? "worker" : "other"} ${each.phase === "Running" && !each.leaving ? "" : "pending"}`,
        title: each.leaving ? "is being deleted" : each.phase,
      }, [`${each.role === "ps" ? "PS" : each.role} ${each.index}`, each.restarts && `${each.restarts} restart${each.restarts > 1 ? "s" : ""}`, each.leaving ? "leaving" : each.phase !== "Running" && each.phase.toLowerCase()].filter(Boolean).join(" · ")))),
      place.replicas.filter((each) => each.problem).map((each) => h("p", { class: "caption warn" }, `${each.role} ${each.index}: ${each.problem}`))))) : null);
  }

  function decisions(found) {
    const newest = [...found.decisions].reverse();
    replace(boxes.decisions, newest.length ? h("ol", { class: "decisions", tabindex: 0, "aria-label": "Decisions" }, newest.map((each) => h("li", {},
      h("div", { class: "decision-head" }, h("span", { class: `action action-${each.action}` }, each.action),
        h("span", {}, each.fromPs === each.ps && each.fromWorkers === each.workers ? counts(each.ps, each.workers) : `${counts(each.fromPs, each.fromWorkers)} → ${counts(each.ps, each.workers)}`),
        h("span", { class: "note", title: full(each.lastAt) }, each.times > 1 ? `${second(each.at)} to ${second(each.lastAt)}, ${each.times} times` : second(each.at))),
      h("p", {}, each.reason)))) : null);
  }

  load();
  loadStored();
  return {
    element,
    title: name,
    update({ changed, reset }) {
      if (reset || changed.has(detail?.row.uid) || performance.now() - loadedAt > 3 * REFRESH_MS) later();
    },
    repaint() {
      shownCurve = shownCounts = "";
      if (detail) draw(detail);
    },
    close() {
      closed = true;
      clearTimeout(timer);
      clearTimeout(storedTimer);
    },
  };
}

function trainedTile(found) {
  const time = found.trainedSeconds > 0 && duration(found.trainedSeconds);
  if (!found.trained) return tile("Trained", time, "");
  const [value, step] = found.trained.split(/, (?=step)/);
  return tile("Trained", value, [step, time && `in ${time}`].filter(Boolean).join("; "));
}

/** The deadline, and how likely it is met, in one sentence; then what stands in its way. */
function deadline(row, found) {
  const [left, probability] = [row.deadlineAt - found.at, found.deadlineProbability];
  const when = `Deadline ${clock(row.deadlineAt, found.at)} UTC`;
  const problem = /at risk|no counts meet|has passed/.test(row.deadline ?? "");
  const chance = probability === null ? "how likely it is met is not known yet"
    : `its goal is met by then with a probability of ${probability > 0.99 ? "more than 99" : probability < 0.01 ? "less than 1" : Math.round(100 * probability)} %`;
  const sentence = left <= 0 ? `${when} has passed.` : `${when}, in ${duration(left)}: ${chance}.`;
  return [h("p", { class: `job-reason ${problem ? "warn" : ""}`, title: full(row.deadlineAt) }, sentence),
    problem && left > 0 && h("p", { class: "job-reason" }, row.deadline.replace(/^\S+: /, ""))];
}

/** What a user asks next, as lines for a shell. */
export function commands(row) {
  const kubectl = `kubectl -n ${row.namespace}`;
  const isSet = row.kind === "JobSet" || row.kind === "TrainJob";
  const pods = `-l ${isSet ? "jobset.sigs.k8s.io/jobset-name" : "training.kubeflow.org/job-name"}=${row.name}`;
  const role = isSet ? "" : `,training.kubeflow.org/replica-type=${row.replicas?.master ? "master" : "worker"}`;
  return [
    `${kubectl} get pods ${pods} -o wide`,
    `${kubectl} logs ${pods}${role} --prefix --tail=20`,
    `${kubectl} get ${row.kind.toLowerCase()} ${row.name} -o yaml`,
    row.profile && `${kubectl} describe trainingprofile ${row.name}`,
    `kubectl optimus why ${row.name} -n ${row.namespace}`,
    row.replicas && !hasEnded(row) && `kubectl optimus advise ${row.name} -n ${row.namespace}`,
    row.profile && !isUnmanaged(row) && !hasEnded(row) && `${kubectl} annotate ${row.kind.toLowerCase()} ${row.name} optimus.dl/pause=true`,
  ].filter(Boolean);
}

function command(line) {
  const text = h("code", {}, line);
  const button = h("button", { type: "button", "aria-label": `Copy: ${line}`, onclick: copy }, "Copy");

  async function copy() {
    getSelection().selectAllChildren(text); // what is selected can be copied where the clipboard is not allowed
    try {
      await navigator.clipboard.writeText(line);
      button.textContent = "Copied";
    } catch {
      button.textContent = "Selected";
    }
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  }
  return h("li", {}, text, button);
}

/** How often it was moved, and how often of these to measure its speed. */
function moves(rescales, runs) {
  const named = (number, name) => `${number || "no"} ${name}${number === 1 ? "" : "s"}`;
  return runs ? `${named(rescales, "rescale")}, among them ${named(runs, "profiling run")}` : named(rescales, "rescale");
}

function tile(name, value, note, extra, kind = "") {
  return h("div", { class: `tile ${kind}` }, h("span", { class: "tile-name" }, name), h("span", { class: "tile-value" }, value), extra, h("span", { class: "tile-note" }, note));
}

function caption(chart, ended) {
  const unit = chart.unit;
  const parts = [];
  if (ended && chart.k.length) parts.push(`The last value is of ${figure(chart.k[chart.k.length - 1])} ${unit}`);
  else if (chart.met) {
    const [low, median, high] = chart.met;
    parts.push(low === high ? `Done after ${figure(median)} ${unit}` : `Goal expected after ${figure(median)} ${unit}, between ${figure(low)} and ${figure(high)} with 80 %${chart.goalK === null ? "" : `; the curve alone meets it after ${figure(chart.goalK)}`}`);
  } else if (chart.reason) parts.push(chart.reason);
  if (chart.end !== null) parts.push(`the run is declared to end after ${figure(chart.end)} ${unit}`);
  if (chart.drops.length) parts.push(`the learning rate drops after ${chart.drops.map((each) => figure(each)).join(", ")}`);
  return parts.join("; ");
}

/** A table of PSs and workers, coloured by value: it can be read by a screen reader as it is. */
function surface(chart, what, ask) {
  const values = what === "speed" ? chart.speed : chart.remaining;
  const known = values.flat().filter((each) => each !== null && isFinite(each));
  const [low, high] = [Math.min(...known), Math.max(...known)];
  const measured = new Map();
  for (const each of chart.samples) measured.set(`${each.ps}/${each.workers}`, each);
  const workers = values[0]?.length ?? 0;
  // Without PSs there is one line, and its heading would say nothing.
  const least = chart.ps ? 1 : 0;
  const shade = (value) => {
    if (value === null) return null;
    const part = high > low ? (Math.log(value + 1e-9) - Math.log(low + 1e-9)) / (Math.log(high + 1e-9) - Math.log(low + 1e-9)) : 1;
    return what === "speed" ? part : 1 - part;
  };
  return h("div", { class: "surface-box", tabindex: 0, role: "region", "aria-label": "Speed by size" }, h("table", { class: "surface" },
    h("thead", {}, h("tr", {}, h("th", { scope: "col", class: "corner" }, least ? "PS \\ workers" : "workers"), Array.from({ length: workers }, (_, w) => h("th", { scope: "col" }, w + 1)))),
    h("tbody", {}, values.map((line, p) => h("tr", {}, h("th", { scope: "row" }, least ? p + least : what === "speed" ? chart.unit : "left"), line.map((value, w) => {
      const sample = measured.get(`${p + least}/${w + 1}`);
      const here = chart.ps === p + least && chart.workers === w + 1;
      const part = shade(value);
      const text = value === null ? "" : what === "speed" ? figure(value, 3) : short(value);
      const words = [counts(p + least, w + 1), value === null ? "out of bounds" : what === "speed" ? `${figure(value, 3)} ${chart.unit}` : duration(value), sample && `measured ${figure(sample.stepsPerSecond, 3)} ${chart.unit}${sample.nodeKind ? ` on ${sample.nodeKind}` : ""}`, here && "now"].filter(Boolean).join("; ");
      return h("td", { class: here ? "here" : "", title: words, onclick: () => ask(p + least, w + 1), style: part === null ? null : { "--part": `${Math.round(8 + 84 * part)}%` } },
        text, sample && h("span", { class: "sample", role: "img", "aria-label": "measured" }), here && h("span", { class: "sr" }, "now"));
    }))))));
}

function short(seconds) {
  if (seconds < 90) return `${Math.round(seconds)}s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)}m`;
  return seconds < 172800 ? `${figure(seconds / 3600, 2)}h` : `${figure(seconds / 86400, 2)}d`;
}

function samples(chart) {
  return h("ul", { class: "tags" }, chart.samples.map((each) => h("li", {}, `${counts(each.ps, each.workers)}: ${figure(each.stepsPerSecond, 3)} ${chart.unit}`)));
}
