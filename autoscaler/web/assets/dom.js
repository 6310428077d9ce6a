// Elements and texts. Everything that comes from the cluster is set as text, never as markup.

export function h(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [key, each] of Object.entries(value)) element.style.setProperty(key, each);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  append(element, children);
  return element;
}

function append(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}

export function replace(element, ...children) {
  element.replaceChildren();
  append(element, children);
}

/** Draws a box anew: what had the focus has it again, and what was scrolled stays so. */
export function redraw(box, draw) {
  const find = () => [...box.querySelectorAll("a, button, input, select, [tabindex]")];
  const before = find().map((each) => [each === document.activeElement, each.scrollTop, each.scrollLeft]);
  draw();
  find().forEach((each, index) => {
    const [focused, top, left] = before[index] ?? [];
    if (top) each.scrollTop = top;
    if (left) each.scrollLeft = left;
    if (focused && each !== document.activeElement) each.focus({ preventScroll: true });
  });
}

// --- figures

export function duration(seconds) {
  if (seconds === null || seconds === undefined || !isFinite(seconds)) return "–";
  const s = Math.max(Math.round(seconds), 0);
  if (s < 60) return `${s} s`;
  if (s < 600) return [`${Math.floor(s / 60)} min`, s % 60 && `${s % 60} s`].filter(Boolean).join(" ");
  const minutes = Math.round(s / 60); // rounded before it is cut into parts: no 1 h 60 min
  if (minutes < 60) return `${minutes} min`;
  if (minutes < 1440) return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
  if (s >= 1000 * 86400) return `${figure(s / 86400 / 365.25, 2)} years`;
  const hours = Math.round(s / 3600);
  return `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

/** A duration that may be below 0. */
export const signed = (seconds) => (seconds < 0 ? `−${duration(-seconds)}` : duration(seconds));

/** A goal as it is read: "loss \u2264 0.15". */
export const readable = (goal) => goal.replace("<=", "\u2264").replace(">=", "\u2265");

const WHOLE = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

/** So many significant digits, but no power of ten where whole digits can be read: 14,460. */
export function figure(value, digits = 4) {
  if (value === null || value === undefined || !isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size >= 10 ** (digits - 1) && size < 1e9) return WHOLE.format(value);
  const text = Number(value).toPrecision(digits);
  return size && (size < 1e-4 || size >= 1e9) ? Number(text).toExponential() : String(Number(text));
}

// Reasons, Events and the command line tell times in UTC; so does the page, and says so once.
const ZONE = { timeZone: "UTC" };
const TIME = new Intl.DateTimeFormat(undefined, { ...ZONE, hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const SECOND = new Intl.DateTimeFormat(undefined, { ...ZONE, hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
const DAY = new Intl.DateTimeFormat(undefined, { ...ZONE, weekday: "short", hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const DATE = new Intl.DateTimeFormat(undefined, { ...ZONE, dateStyle: "medium" });
const FULL = new Intl.DateTimeFormat(undefined, { ...ZONE, dateStyle: "medium", timeStyle: "long" });
const LOCAL = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "long" });
const LAST_SECONDS = Date.UTC(9999, 11, 31) / 1000;

/** A Date; of an instant that Date cannot hold, as the end of a job with very many epochs, the last of the year 9999. */
function dateOf(at) {
  return new Date(1000 * Math.min(at, LAST_SECONDS));
}

/** The time left now: that of the forecast less what has passed since it was made. */
export function remainingNow(row, at) {
  const found = row.remaining;
  if (!found || !row.endsAt || !found.median) return found;
  const part = Math.min(Math.max((row.endsAt - at) / found.median, 0), 1);
  return { low: found.low * part, median: found.median * part, high: found.high * part };
}

export function clock(at, now) {
  if (at === null || at === undefined) return "–";
  const apart = Math.abs(at - now);
  const form = apart < 43200 ? TIME : apart < 518400 ? DAY : DATE; // a week later the day's name would be the same
  return form.format(dateOf(at));
}

export function second(at) {
  return at === null || at === undefined ? "–" : SECOND.format(dateOf(at));
}

export function full(at) {
  if (at === null || at === undefined) return "";
  const [utc, local] = [FULL.format(dateOf(at)), LOCAL.format(dateOf(at))];
  return utc === local ? utc : `${utc}; here ${local}`;
}

export function ago(at, now) {
  return at === null || at === undefined ? "–" : `${duration(Math.max(now - at, 0))} ago`;
}

export function counts(ps, workers) {
  return ps === null || ps === undefined ? "–" : `${ps ? `${ps} PS · ` : ""}${workers} W`;
}

/** Where a line is full, it is broken between the parts of a text alone. */
export const unbroken = (text) => text.replace(/(?<![·–]) (?![·–])/g, "\u00a0");

/** Replicas by role: "2 PS · 3 W · 1 scheduler". */
export function roleCounts(replicas) {
  const names = { ps: "PS", worker: "W" };
  return Object.entries(replicas).map(([role, number]) => `${number} ${names[role] ?? role}`).join(" · ");
}

/** The counts of a job; without PSs all that trains: "1 master · 3 W". */
export const size = (row) => (row.replicas ? roleCounts(row.replicas) : counts(row.ps, row.workers));

const GI = 2 ** 30;
export function amount(resource, value) {
  if (resource === "cpu") return figure(value / 1000, 3);
  if (resource === "memory") return value >= 1024 * GI ? `${figure(value / GI / 1024, 3)} Ti` : `${figure(value / GI, 3)} Gi`;
  return WHOLE.format(value);
}

export function resourceName(resource) {
  return { cpu: "CPU", memory: "Memory" }[resource] ?? resource.replace(/^.*\//, "").toUpperCase();
}

// --- small parts

const PHASES = {
  Training: "good", Failing: "bad", Profiling: "info", AtTarget: "done", Completed: "done", Waiting: "wait",
  WaitingForCheckpoint: "info", Suspending: "info", Resizing: "info", Starting: "info",
  Suspended: "idle", Paused: "idle", WaitingForItsTurn: "idle", Failed: "bad", LeftAlone: "bad", Running: "good",
};
const PHASE_NAMES = {
  AtTarget: "At target", WaitingForCheckpoint: "Awaits checkpoint", LeftAlone: "Left alone", WaitingForItsTurn: "Awaits its turn", NotRunning: "Not running",
};

export const hasEnded = (row) => ["Completed", "Failed"].includes(row.phase);

export const phaseName = (phase) => PHASE_NAMES[phase] ?? phase;

export function phaseChip(phase) {
  return h("span", { class: `phase phase-${PHASES[phase] ?? "idle"}` }, h("span", { class: "dot", "aria-hidden": "true" }), phaseName(phase));
}

export function bar(percent, label, kind = "") {
  const value = Math.min(Math.max(percent ?? 0, 0), 100);
  return h("span", { class: `bar ${kind}`, role: "img", "aria-label": label }, h("span", { class: "bar-fill", style: { width: `${value}%` } }));
}

export function jobLink(row) {
  const path = `#/jobs/${encodeURIComponent(row.namespace)}/${encodeURIComponent(row.name)}`;
  return h("a", { href: path, class: "job-link" }, row.name);
}

export function panel(title, properties, ...children) {
  const { note, actions } = properties ?? {};
  return h("section", { class: "panel" },
    h("div", { class: "panel-head" }, h("h2", {}, title), note && h("span", { class: "note" }, note), actions),
    children);
}

export function empty(title, text) {
  return h("div", { class: "empty" }, h("strong", {}, title), text && h("p", {}, text));
}

export function token(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}
