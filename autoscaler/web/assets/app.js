// The page: one stream of updates, one view at a time.
import { sweep } from "./charts.js";
import { duration, replace } from "./dom.js";
import { jobView } from "./job.js";
import { nodesView } from "./nodes.js";
import { overview } from "./overview.js";
import { state } from "./state.js";

const STALE_SECONDS = 15;

const main = document.getElementById("main");
let view = null;

// --- the stream

function take(update) {
  if (update.reset) state.rows.clear();
  for (const uid of update.gone) state.rows.delete(uid);
  for (const row of update.rows) state.rows.set(row.uid, row);
  Object.assign(state, {
    cluster: update.cluster,
    at: update.at,
    leads: update.leads,
    leader: update.leader,
    silent: update.silentSeconds,
    version: update.version,
    received: performance.now(),
  });
  const changed = new Set(update.rows.map((row) => row.uid));
  schedule(() => view?.update?.({ changed, reset: update.reset || update.gone.length > 0 }));
}

let waiting = null;
function schedule(draw) {
  if (waiting !== null) cancelAnimationFrame(waiting);
  const run = () => {
    waiting = null;
    const began = performance.now();
    draw();
    header();
    document.documentElement.dataset.updateMs = (performance.now() - began).toFixed(1);
    document.documentElement.dataset.version = state.version;
    document.documentElement.dataset.rowsMs ??= performance.now().toFixed(1);
  };
  // A hidden page gets no frames, and has nothing to draw in a hurry.
  waiting = document.hidden ? (run(), null) : requestAnimationFrame(run);
}

let source = null;
function connect() {
  source = new EventSource("api/stream");
  source.onmessage = (event) => take(JSON.parse(event.data));
  source.onerror = () => header();
}

// --- the header

const live = document.getElementById("live");
const notice = document.getElementById("notice");

function header() {
  const since = state.received ? (performance.now() - state.received) / 1000 : Infinity;
  const connected = source?.readyState === EventSource.OPEN;
  const stale = since > STALE_SECONDS;
  live.dataset.state = !connected ? "broken" : stale ? "stale" : "live";
  const text = !connected ? (state.received ? "reconnecting" : "connecting") : stale ? `no news for ${duration(since)}` : "live";
  const shown = live.querySelector(".live-text");
  if (shown.textContent !== text) shown.textContent = text;
  const said = noticeText();
  notice.hidden = !said;
  notice.textContent = said;
}

function noticeText() {
  if (!state.received) return "";
  if (state.silent > 0) return `The API server has sent nothing for ${duration(state.silent)}: what is shown may be out of date.`;
  if (!state.leads) return `This instance stands by${state.leader ? `; ${state.leader} leads` : ""}. It shows what the profiles have; timelines are the leader's.`;
  return "";
}

setInterval(header, 1000);

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => view?.repaint?.());

// --- the views

function route() {
  const [path, query = ""] = location.hash.replace(/^#/, "").split("?");
  const parts = path.split("/").filter(Boolean).map(decodeURIComponent);
  const parameters = new URLSearchParams(query);
  if (parts[0] === "jobs" && parts.length === 3) return ["job", jobView(parts[1], parts[2], parameters)];
  if (parts[0] === "nodes") return ["nodes", nodesView(parameters)];
  return ["overview", overview(parameters)];
}

function show() {
  let name;
  view?.close?.();
  try {
    [name, view] = route();
  } catch {
    [name, view] = ["overview", overview(new URLSearchParams())];
  }
  for (const link of document.querySelectorAll("nav a")) {
    if (link.dataset.view === name) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  replace(main, view.element);
  sweep();
  view.update?.({ changed: new Set(), reset: true });
  document.title = view.title ? `${view.title} · Optimus` : "Optimus";
  document.documentElement.dataset.view = name;
}

addEventListener("hashchange", () => {
  show();
  main.focus({ preventScroll: true });
  scrollTo(0, 0);
});

addEventListener("keydown", (event) => {
  const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "/" && !typing) {
    const search = main.querySelector("input[type=search]");
    if (search) {
      event.preventDefault();
      search.focus();
    }
  } else if (event.key === "Escape" && typing) {
    event.target.blur();
  }
});

show();
connect();
