// The overview: the cluster's use over time, who waits, and every job.
import { useChart, useData } from "./charts.js";
import {
  ago, amount, bar, clock, counts, duration, empty, figure, full, h, hasEnded, jobLink, panel, phaseChip, phaseName, redraw, remainingNow, replace,
  resourceName, signed, size, unbroken,
} from "./dom.js";
import { state } from "./state.js";
import { table } from "./table.js";

const MOST_WAITING = 12;

export function overview(parameters) {
  const filter = {
    text: parameters.get("q") ?? "", phase: parameters.get("phase") ?? "", namespace: parameters.get("namespace") ?? "",
    since: parameters.get("since") in RANGES ? parameters.get("since") : "",
  };
  const order = { sort: parameters.get("sort") ?? SORT, page: Number(parameters.get("page")) || 1 };
  const tiles = h("div", { class: "tiles" });
  const chartBox = h("div", { class: "chart" });
  const chartPanel = panel("Cluster use", { note: "requested by all pods, in percent of what nodes offer" }, chartBox);
  const waitingBox = h("div", { class: "waiting-list", tabindex: 0, role: "region", "aria-label": "Waiting jobs" });
  const waitingNote = h("span", { class: "note" });
  const waitingPanel = panel("Waiting", { actions: waitingNote, className: "waiting" }, waitingBox);
  const search = h("input", {
    type: "search", placeholder: "Filter by name or reason", "aria-label": "Filter jobs", value: filter.text,
    oninput: () => { filter.text = search.value; list(true); },
  });
  const namespaces = h("select", { "aria-label": "Namespace", hidden: true, onchange: () => { filter.namespace = namespaces.value; list(true); } });
  const range = h("select", { "aria-label": "Submitted", onchange: () => { filter.since = range.value; list(true); } },
    Object.entries(RANGES).map(([name, [label]]) => h("option", { value: name, selected: name === filter.since }, label)));
  const chips = h("div", { class: "filters", role: "group", "aria-label": "Phases" });
  const jobs = table(COLUMNS, {
    label: "Jobs", ...order, keyOf: (row) => row.uid, versionOf: (row) => row,
    moved: (found) => { Object.assign(order, found); address(); },
  });
  const nothing = h("div", { hidden: true });
  const jobsPanel = panel("Jobs", { actions: h("div", { class: "search" }, namespaces, range, search), className: "jobs" }, chips, jobs.element, nothing);
  const element = h("div", { class: "view" }, h("h1", { class: "sr" }, "Overview"), tiles,
    h("div", { class: "columns" }, chartPanel, waitingPanel), jobsPanel);
  let chart = null;
  let names = "";

  /** What is shown is in the address: it can be kept, sent, and gone back to. */
  function address() {
    const named = [["q", filter.text], ["phase", filter.phase], ["namespace", filter.namespace], ["since", filter.since], ["sort", order.sort === SORT ? "" : order.sort], ["page", order.page > 1 ? order.page : ""]];
    const query = new URLSearchParams(named.filter(([, each]) => each)).toString();
    state.list = `#/${query && `?${query}`}`;
    history.replaceState(null, "", state.list);
  }

  function drawUse() {
    const shown = state.cluster.map((each) => each.resource);
    if (!shown.length || !state.use.length) {
      chart = null;
      names = "";
      replace(chartBox, empty("No nodes yet", "The cluster's use is drawn from its first node on."));
    } else if (chart && names === shown.join()) {
      chart.setData(useData(state.use, shown));
    } else {
      names = shown.join();
      replace(chartBox);
      chart = useChart(chartBox, state.use, shown, shown.map(resourceName));
    }
  }

  function list(restart = false) {
    const text = filter.text.trim().toLowerCase();
    const all = [...state.rows.values()];
    const from = filter.since ? state.at - RANGES[filter.since][1] : -Infinity;
    const found = all.filter((row) =>
      is(row, filter.phase) && row.createdAt >= from &&
      (!filter.namespace || row.namespace === filter.namespace) &&
      (!text || `${row.namespace}/${row.name} ${row.reason ?? ""} ${row.goal ?? ""}`.toLowerCase().includes(text)));
    jobs.element.hidden = found.length === 0;
    jobs.show(found, { restart });
    nothing.hidden = found.length > 0;
    if (!found.length) {
      replace(nothing, all.length
        ? empty("No job matches", "Clear the filter to see all of them.")
        : empty(state.received ? "No training jobs yet" : "Loading", state.received ? "TFJobs, MXJobs, PyTorchJobs and JobSets appear here once they are submitted. The annotation optimus.dl/target-loss, for example, has a TFJob or MXJob managed." : ""));
    }
    phases(all);
    chooser(all);
  }

  function chooser(all) {
    const names = [...new Set([...all.map((row) => row.namespace), filter.namespace])].filter(Boolean).sort();
    namespaces.hidden = names.length < 2;
    if (namespaces.dataset.names === names.join()) return;
    namespaces.dataset.names = names.join();
    replace(namespaces, h("option", { value: "" }, "All namespaces"), names.map((each) => h("option", { value: each }, each)));
    namespaces.value = filter.namespace;
  }

  function phases(all) {
    const totals = new Map();
    for (const row of all) totals.set(row.phase, (totals.get(row.phase) ?? 0) + 1);
    const focused = document.activeElement?.dataset?.phase;
    const make = (phase, name, total) => h("button", {
      type: "button", class: "filter", "data-phase": phase, "aria-pressed": String(filter.phase === phase),
      onclick: () => choose(phase),
    }, name, h("span", { class: "count" }, total));
    const known = ORDER.filter((each) => totals.has(each));
    const group = filter.phase in GROUPS && make(filter.phase, GROUP_NAMES[filter.phase], all.filter(GROUPS[filter.phase]).length);
    replace(chips, make("", "All", all.length), group, known.map((each) => make(each, phaseName(each), totals.get(each))));
    if (focused !== undefined) chips.querySelector(`[data-phase="${CSS.escape(focused)}"]`)?.focus();
  }

  /** One phase or group; the same again: all of them. */
  function choose(phase) {
    filter.phase = filter.phase === phase ? "" : phase;
    list(true);
    drawTiles();
  }

  /** A figure that shows its jobs when it is clicked. */
  function button(phase, name, value, note, kind = "") {
    return h("button", { type: "button", class: `tile ${kind}`, "data-tile": phase, "aria-pressed": String(filter.phase === phase), onclick: () => choose(phase) },
      h("span", { class: "tile-name" }, name), h("span", { class: "tile-value" }, value), h("span", { class: "tile-note" }, note));
  }

  function drawTiles() {
    const focused = document.activeElement?.dataset?.tile;
    const rows = [...state.rows.values()];
    const number = (which) => rows.filter((row) => is(row, which)).length;
    const ends = rows.filter((row) => row.endsAt && row.remaining).sort((a, b) => a.endsAt - b.endsAt)[0];
    const late = rows.filter(isLate).length;
    const moved = rows.filter((row) => row.saved !== undefined);
    const saved = moved.reduce((sum, row) => sum + row.saved, 0);
    const [broken, ended] = [rows.filter(isBroken).length, number("ended")];
    replace(tiles,
      state.cluster.map((each) => {
        const percent = each.allocatable ? (100 * each.requested) / each.allocatable : 0;
        const of = `${amount(each.resource, each.requested)} of ${amount(each.resource, each.allocatable)}`;
        return tile(resourceName(each.resource), `${figure(percent, 3)} %`, of, bar(percent, `${figure(percent, 3)} %`, percent > 95 ? "full" : ""));
      }),
      button("running", GROUP_NAMES.running, number("running"), `${rows.length} jobs on ${state.nodes} nodes`),
      button("Waiting", "Waiting", number("Waiting"), number("Waiting") ? "for capacity or pods" : "queue is empty"),
      ended ? button("ended", GROUP_NAMES.ended, ended, number("Failed") ? `${number("Failed")} failed` : "none failed") : null,
      moved.length ? tile("Saved", signed(saved), `by moving ${moved.length} ${moved.length === 1 ? "job" : "jobs"}, stops and repeated training counted`, null, saved < 0 ? "alert" : "") : null,
      tile("Next to finish", ends ? duration(ends.endsAt - state.at) : "–", ends ? jobLink(ends) : "no forecast yet"),
      (broken || late) ? button("attention", GROUP_NAMES.attention, number("attention"), [broken && `${broken} with a problem`, late && `${late} late`].filter(Boolean).join(", "), "alert") : null);
    if (focused !== undefined) tiles.querySelector(`[data-tile="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
  }

  function drawWaiting() {
    const rows = [...state.rows.values()].filter((row) => row.phase === "Waiting" || row.waits).sort((a, b) => b.priority - a.priority || a.createdAt - b.createdAt);
    waitingNote.textContent = rows.length > MOST_WAITING ? `the first ${MOST_WAITING} of ${rows.length}` : "";
    if (!rows.length) {
      replace(waitingBox, empty("Queue is empty", "Every job that can run has its nodes."));
      return;
    }
    replace(waitingBox, rows.slice(0, MOST_WAITING).map((row) => h("article", { class: "waiter" },
      h("div", { class: "waiter-head" }, jobLink(row), h("span", { class: "note" }, row.namespace), h("span", { class: "waiter-when" },
        row.waits?.awaits ? (row.waits.expectedAt ? `about ${clock(row.waits.expectedAt, state.at)}` : "start not known") : `${ago(row.createdAt, state.at)}`)),
      row.waits?.behind && h("p", {}, h("span", { class: "key" }, "behind "), row.waits.behind),
      row.waits?.awaits && h("p", {}, h("span", { class: "key" }, "until "), `${row.waits.awaits} ends`),
      !(row.waits?.behind || row.waits?.awaits) && h("p", { class: "clamp" }, row.waits?.text || row.reason || "Its pods do not exist yet."))));
  }

  return {
    element,
    update() {
      redraw(tiles, drawTiles);
      drawUse();
      redraw(waitingBox, drawWaiting);
      list();
    },
    repaint() {
      chart = null;
      drawUse();
    },
  };
}

function tile(name, value, note, extra, kind = "") {
  return h("div", { class: `tile ${kind}` }, h("span", { class: "tile-name" }, name), h("span", { class: "tile-value" }, value), extra, h("span", { class: "tile-note" }, note));
}

const SORT = "phase";
const RUNNING = ["Training", "Profiling", "WaitingForCheckpoint", "Suspending", "Resizing", "Starting"];

/** By when a job was submitted; seconds. */
const RANGES = { "": ["Any time"], "1h": ["Last hour", 3600], "24h": ["Last 24 hours", 86400], "7d": ["Last 7 days", 604800], "30d": ["Last 30 days", 2592000] };

const isLate = (row) => /at risk|no counts meet/.test(row.deadline ?? "");
const isBroken = (row) => row.phase === "Failed" || row.phase === "LeftAlone" || Boolean(row.complaint);

/** Several phases under one name, in the address as a phase is. */
const GROUPS = {
  running: (row) => RUNNING.includes(row.phase),
  ended: hasEnded,
  attention: (row) => isBroken(row) || isLate(row),
};
const GROUP_NAMES = { running: "Training", ended: "Ended", attention: "Needs attention" };
const is = (row, phase) => !phase || (GROUPS[phase]?.(row) ?? row.phase === phase);

const ORDER = [
  "Training", "Profiling", "WaitingForCheckpoint", "Suspending", "Resizing", "Starting", "Waiting", "Suspended", "Paused",
  "AtTarget", "Completed", "Failed", "LeftAlone", "NotManaged",
];

const COLUMNS = [
  { key: "name", title: "Job", className: "c-name", value: (row) => row.name, cell: (row) => [jobLink(row), h("span", { class: "sub" }, `${row.namespace} · ${row.kind}`)] },
  { key: "phase", title: "Phase", className: "c-phase", value: (row) => ORDER.indexOf(row.phase), cell: (row) => phaseChip(row.phase) },
  { key: "counts", title: "Size", className: "c-counts num", numeric: true, value: (row) => (row.workers === undefined ? null : trainers(row) * 1e6 + row.ps), cell: countsCell },
  { key: "loss", title: "Loss or metric", className: "c-loss num", numeric: true, value: (row) => row.loss, cell: lossCell },
  { key: "percent", title: "Progress", className: "c-progress", numeric: true, value: (row) => row.percent, cell: progressCell },
  { key: "remaining", title: "Remaining", className: "c-remaining num", value: (row) => row.remaining?.median, cell: remainingCell },
  { key: "ends", title: "Done at", className: "c-ends num", value: (row) => row.endsAt, cell: (row) => row.endsAt ? h("span", { title: full(row.endsAt) }, clock(row.endsAt, state.at), deadlineCell(row)) : null },
  { key: "reason", title: "Last decision", className: "c-reason", value: (row) => row.decidedAt, numeric: true, cell: reasonCell },
];

const trainers = (row) => (row.replicas ? Object.values(row.replicas).reduce((sum, each) => sum + each, 0) : row.workers);

function countsCell(row) {
  const target = row.targetWorkers !== undefined && row.targetWorkers !== null;
  return [unbroken(size(row)), target && h("span", { class: "sub" }, unbroken(`→ ${counts(row.targetPs, row.targetWorkers)}`))];
}

function lossCell(row) {
  if (!row.metric && row.loss === undefined && !row.goal) return null;
  const value = row.metric ? row.metric.slice(row.metric.lastIndexOf(" ") + 1) : figure(row.loss);
  return [h("span", { title: row.metric || "loss" }, value), row.goal && h("span", { class: "sub", title: row.goal }, row.goal)];
}

function progressCell(row) {
  if (row.percent === undefined || row.percent === null) return null;
  return h("span", { class: "progress" }, bar(row.percent, `${row.percent} %`), h("span", {}, `${row.percent} %`));
}

function remainingCell(row) {
  const found = remainingNow(row, state.at);
  if (!found) return row.outlook ? [h("span", { class: "faint" }, "–"), h("span", { class: "sub" }, row.outlook)] : null;
  const spread = found.high > found.low;
  return [duration(found.median), spread && h("span", { class: "sub", title: "80 % interval" }, unbroken(`${duration(found.low)} – ${duration(found.high)}`)), row.outlook && h("span", { class: "sub" }, row.outlook)];
}

function deadlineCell(row) {
  if (!row.deadlineAt) return null;
  const late = /at risk|no counts meet|has passed/.test(row.deadline ?? "");
  return h("span", { class: `sub ${late ? "bad" : ""}` }, `by ${clock(row.deadlineAt, state.at)}`);
}

function reasonCell(row) {
  const text = row.complaint || row.reason || "";
  if (!text && !row.action && !row.decidedAt) return null;
  return [
    h("span", { class: `clamp ${row.complaint ? "warn" : ""}`, title: text }, row.action && h("span", { class: "action" }, row.action), text || "–"),
    hasEnded(row) && row.books && h("span", { class: "sub" }, row.books),
    row.decidedAt && h("span", { class: "sub" }, ago(row.decidedAt, state.at)),
  ];
}
