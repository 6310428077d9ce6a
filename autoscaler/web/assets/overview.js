// The overview: a line for each job. Those that need somebody come first, then those that run, then those that ended.
import { bar, clock, duration, empty, figure, full, h, hasEnded, jobLink, phaseChip, readable, redraw, remainingNow, replace, size } from "./dom.js";
import { state } from "./state.js";

const MOST = 300;

/** The groups, in their order: what they are called, who is in them, and who comes first. */
const GROUPS = {
  attention: ["Needs attention", (row) => row.rank > 0, (a, b) => a.rank - b.rank || b.priority - a.priority || a.createdAt - b.createdAt],
  running: ["Running", (row) => !row.rank && !hasEnded(row), (a, b) => (a.endsAt ?? Infinity) - (b.endsAt ?? Infinity) || a.createdAt - b.createdAt],
  ended: ["Ended", (row) => !row.rank && hasEnded(row), (a, b) => b.createdAt - a.createdAt],
};

export function overview(parameters) {
  const filter = {
    text: parameters.get("q") ?? "", namespace: parameters.get("namespace") ?? "",
    group: parameters.get("show") in GROUPS ? parameters.get("show") : "",
  };
  const tiles = h("div", { class: "filters", role: "group", "aria-label": "Groups" });
  const search = h("input", {
    type: "search", placeholder: "Name or reason", "aria-label": "Filter jobs", value: filter.text,
    oninput: () => { filter.text = search.value; changed(); },
  });
  const namespaces = h("select", { "aria-label": "Namespace", hidden: true, onchange: () => { filter.namespace = namespaces.value; changed(); } });
  const groups = new Map(Object.entries(GROUPS).map(([name, [title]]) => [name, group(name, title)]));
  const nothing = h("div", { hidden: true });
  const toolbar = h("div", { class: "toolbar", hidden: true }, tiles, h("div", { class: "search" }, namespaces, search));
  const element = h("div", { class: "view jobs" }, h("h1", { class: "sr" }, "Jobs"),
    toolbar, [...groups.values()].map((each) => each.element), nothing);

  /** What is shown is in the address: it can be kept, sent, and gone back to. */
  function address() {
    const named = [["q", filter.text], ["show", filter.group], ["namespace", filter.namespace]];
    const query = new URLSearchParams(named.filter(([, each]) => each)).toString();
    state.list = `#/${query && `?${query}`}`;
    history.replaceState(null, "", state.list);
  }

  function changed() {
    draw();
    address();
  }

  function draw() {
    const text = filter.text.trim().toLowerCase();
    const all = [...state.rows.values()];
    const found = all.filter((row) => (!filter.namespace || row.namespace === filter.namespace) &&
      (!text || `${row.namespace}/${row.name} ${row.needs ?? ""} ${row.reason ?? ""} ${row.goal ?? ""}`.toLowerCase().includes(text)));
    const totals = {};
    let shown = 0;
    for (const [name, [, holds, order]] of Object.entries(GROUPS)) {
      const rows = found.filter(holds).sort((a, b) => order(a, b) || (a.uid < b.uid ? -1 : 1));
      totals[name] = rows.length;
      const isShown = !filter.group || filter.group === name;
      groups.get(name).show(isShown ? rows : [], Boolean(filter.group || text));
      shown += isShown ? rows.length : 0;
    }
    redraw(tiles, () => replace(tiles, Object.entries(GROUPS).map(([name, [title]]) => h("button", {
      type: "button", class: `filter ${name === "attention" && totals[name] ? "alert" : ""}`, "data-group": name, "aria-pressed": String(filter.group === name),
      onclick: () => { filter.group = filter.group === name ? "" : name; changed(); },
    }, title, h("span", { class: "count" }, totals[name])))));
    nothing.hidden = shown > 0;
    toolbar.hidden = !all.length;
    if (!shown) {
      replace(nothing, all.length ? empty("No job matches", "Clear the filter to see all of them.")
        : empty(state.received ? "No training jobs yet" : "Loading", state.received ? "TFJobs, MXJobs, PyTorchJobs and JobSets appear here once they are submitted. A goal, such as the annotation optimus.dl/target-loss, has one managed." : ""));
    }
    chooser(all);
  }

  function chooser(all) {
    const names = [...new Set([...all.map((row) => row.namespace), filter.namespace])].filter(Boolean).sort();
    namespaces.hidden = names.length < 2;
    if (namespaces.dataset.names === names.join()) return;
    namespaces.dataset.names = names.join();
    replace(namespaces, h("option", { value: "" }, "Namespace"), names.map((each) => h("option", { value: each }, each)));
    namespaces.value = filter.namespace;
  }

  return { element, update: draw };
}

const COLUMNS = { "c-phase": "Phase", "c-size": "Size", "c-value": "Loss or metric, goal", "c-progress": "Progress", "c-ends": "Left, done at", "c-reason": "Last decision" };

/** The lines of one group. Only what has changed is drawn again: a line is kept while its row is the same. */
function group(name, title) {
  const drawn = new Map();
  const list = h("ul", { class: "lines", "aria-label": title });
  const number = h("span", { class: "count" });
  const heading = h("h2", {}, title, number);
  const heads = name === "running" ? h("div", { class: "heads" }, heading, Object.entries(COLUMNS).map(([column, text]) => h("span", { class: `${column} note` }, text))) : heading;
  const more = h("button", { type: "button", onclick: () => { most = Infinity; show(rows, true); } });
  const isFold = name === "ended";
  const element = isFold ? h("details", { class: "group" }, h("summary", {}, heading), list, more) : h("section", { class: "group" }, heads, list, more);
  let most = MOST;
  let rows = [];
  let at = 0;

  function show(found, open) {
    rows = found;
    element.hidden = !rows.length;
    number.textContent = rows.length;
    if (isFold && open) element.open = true;
    const minute = Math.floor(state.at / 60); // what is left is told anew
    const keep = new Set();
    rows.slice(0, most).forEach((row, index) => {
      keep.add(row.uid);
      let known = drawn.get(row.uid);
      if (!known || known.row !== row || minute !== at) {
        const fresh = line(row, name);
        const focused = known?.element.contains(document.activeElement);
        known?.element.replaceWith(fresh);
        if (focused) fresh.querySelector("a").focus({ preventScroll: true });
        known = { element: fresh, row };
        drawn.set(row.uid, known);
      }
      if (list.children[index] !== known.element) list.insertBefore(known.element, list.children[index] ?? null);
    });
    at = minute;
    for (const [uid, each] of drawn) {
      if (!keep.has(uid)) {
        each.element.remove();
        drawn.delete(uid);
      }
    }
    more.hidden = rows.length <= most;
    more.textContent = `Show ${rows.length - most} more`;
  }
  return { element, show };
}

function line(row, name) {
  const awaits = awaited(row);
  const cells = name === "attention" ? [h("span", { class: "c-reason", title: awaits + row.needs }, awaits && h("strong", {}, awaits), row.needs)] : figures(row);
  const link = jobLink(row);
  // The whole line leads to the job; its text can be selected, too.
  const open = (event) => { if (event.target !== link && !String(getSelection())) link.click(); };
  return h("li", { class: `line line-${name}`, onclick: open }, h("span", { class: "c-name", title: `${row.namespace}/${row.name}` }, link, h("span", { class: "note" }, row.namespace)),
    h("span", { class: "c-phase" }, phaseChip(row.phase)), h("span", { class: "c-size" }, sizes(row)), cells);
}

/** The size, and what it is going to be: "2 PS · 4 → 6 W". */
function sizes(row) {
  if (row.targetWorkers === undefined) return size(row);
  if (row.replicas) return `${size(row)} → ${row.targetWorkers} W`;
  const [ps, workers] = [[row.ps, row.targetPs], [row.workers, row.targetWorkers]].map((each) => [...new Set(each)].join(" → "));
  return `${row.ps ? `${ps} PS · ` : ""}${workers} W`;
}

/** For whom or until when it waits, where that is known and why it is looked at. */
function awaited({ waits, needs }) {
  if (!waits?.text.endsWith(needs)) return "";
  return waits.expectedAt > state.at ? `about ${clock(waits.expectedAt, state.at)} UTC, when ${waits.awaits} ends: ` : waits.behind ? `behind ${waits.behind}: ` : "";
}

/** The goal without the name of what it is about: that is in its title. */
const goal = (row) => readable(row.goal).replace(/^.*(?=[\u2264\u2265])/, "").replace(/^(?![\u2264\u2265])/, "\u00b7 ");

function figures(row) {
  const left = remainingNow(row, state.at);
  const value = row.metric ? row.metric.slice(row.metric.lastIndexOf(" ") + 1) : row.loss === undefined ? "" : figure(row.loss);
  const percent = row.percent ?? null;
  return [
    h("span", { class: "c-value", title: row.goal }, value, row.goal && h("span", { class: "note" }, ` ${goal(row)}`)),
    h("span", { class: "c-progress" }, percent !== null && [bar(percent, `${percent} %`), h("span", {}, `${percent} %`)]),
    h("span", { class: "c-ends", title: full(row.endsAt) || row.outlook }, left && row.endsAt > state.at ? [duration(left.median), h("span", { class: "note" }, ` ${clock(row.endsAt, state.at)}`)] : row.outlook && h("span", { class: "note" }, row.outlook)),
    h("span", { class: "c-reason note", title: row.reason }, row.action && h("span", { class: "action" }, row.action), hasEnded(row) && row.books ? row.books : row.reason),
  ];
}
