// Charts drawn by uPlot, in the colours of the theme.
import { clock, figure, h, second, token } from "./dom.js";

const uPlot = window.uPlot;
const live = new Set();

/** A chart is read and zoomed by keys, too. `title` names it. */
function track(chart, box, title) {
  keys(chart, box, title);
  const observer = new ResizeObserver(() => {
    const width = Math.floor(box.clientWidth);
    if (width > 0 && width !== chart.width) chart.setSize({ width, height: chart.height });
  });
  observer.observe(box);
  const entry = { chart, box, observer };
  live.add(entry);
  return entry;
}

function keys(chart, box, title) {
  const said = h("span", { class: "sr", role: "status" });
  box.append(said);
  box.tabIndex = 0;
  box.setAttribute("role", "application");
  box.setAttribute("aria-label", `${title}: arrow keys read values, plus and minus zoom, 0 shows all`);
  let at = null;
  const shown = () => {
    const { min, max } = chart.scales.x;
    return chart.data[0].map((_, index) => index).filter((index) => chart.data[0][index] >= min && chart.data[0][index] <= max && chart.data.slice(1).some((each) => each[index] != null));
  };
  const read = (by) => {
    const points = shown();
    if (!points.length) return;
    const now = points.findIndex((each) => at !== null && each >= at);
    at = points[at === null ? (by > 0 ? 0 : points.length - 1) : Math.min(Math.max((now < 0 ? points.length - 1 : now) + by, 0), points.length - 1)];
    chart.setCursor({ left: chart.valToPos(chart.data[0][at], "x"), top: 4 });
    said.textContent = chart.series.map((each, index) => [each.label, chart.data[index][at]]).filter(([, value]) => value != null)
      .map(([label, value], index) => `${label ?? "at"} ${index ? figure(value) : chart.series[0].value(chart, value)}`).join(", ");
  };
  const zoom = (factor) => {
    const { min, max } = chart.scales.x;
    const xs = chart.data[0];
    const [first, last] = [Math.min(xs[0], chart.full?.min ?? xs[0]), xs[xs.length - 1]];
    const centre = at === null ? (min + max) / 2 : xs[at];
    const half = factor * (max - min) / 2;
    chart.full ??= { min, max };
    chart.setScale("x", factor ? { min: Math.max(centre - half, first), max: Math.min(centre + half, last) } : chart.full);
  };
  const known = { ArrowLeft: () => read(-1), ArrowRight: () => read(1), "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2), 0: () => zoom(0) };
  box.onkeydown = (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !known[event.key]) return;
    event.preventDefault();
    known[event.key]();
  };
}

/** Destroys charts whose place has left the page. */
export function sweep() {
  for (const entry of live) {
    if (!entry.box.isConnected) {
      entry.observer.disconnect();
      entry.chart.destroy();
      live.delete(entry);
    }
  }
}

function axis(more = {}) {
  return {
    stroke: token("--text-faint"),
    grid: { stroke: token("--grid"), width: 1 },
    ticks: { show: false },
    font: "12px system-ui, sans-serif",
    gap: 6,
    ...more,
  };
}

/** Below a chart: as high as one line of numbers, and of a label where there is one. */
const BELOW = 26;
/** Seconds, minutes, hours, days: no two ticks have one text. */
const STEPS = [1, 2, 5, 10, 15, 30, ...[1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720, 1440, 2880, 10080].map((each) => 60 * each)];
const utc = (at) => uPlot.tzDate(new Date(1000 * at), "Etc/UTC");

/** The marks of a legend are drawn as their lines: solid, dashed or dotted. */
const LEGEND = { markers: { dash: (plot, index) => (!plot.series[index].dash ? "solid" : plot.series[index].dash[0] < 4 ? "dotted" : "dashed") } };

/** Half of a tick's text may stand beyond the last point. */
function beyond(labels) {
  return [10, labels, null, null];
}

/** Instants below a time axis: with seconds where less than ten minutes are shown. */
function instants(plot, ticks) {
  const { min, max } = plot.scales.x;
  return ticks.map((each) => (max - min < 600 ? second(each) : clock(each, max)));
}

/** Losses or a metric, the fitted curve with its band, the goal and when it is expected. */
export function curveChart(box, chart, logarithmic) {
  const last = chart.fitK.length ? chart.fitK[chart.fitK.length - 1] : Math.max(...chart.k, 1);
  const past = chart.fitK.map((k, index) => (k <= chart.done ? chart.fit[index] : null));
  const ahead = chart.fitK.map((k, index) => (k >= chart.done && last > chart.done ? chart.fit[index] : null));
  const tables = [
    [chart.k, chart.value],
    [chart.fitK, past, ahead, chart.low, chart.high],
    [[0, last], [chart.goal, chart.goal]],
  ];
  const data = uPlot.join(tables);
  const main = token("--series-1");
  const number = (_, value) => (value == null ? "" : figure(value));
  const options = {
    width: Math.max(box.clientWidth, 200),
    height: 320,
    padding: beyond(18),
    cursor: { drag: { x: true, y: false, uni: 20 } },
    legend: LEGEND,
    scales: { x: { time: false, range: (_, low, high) => [Math.min(0, low), high] }, y: logarithmic ? { distr: 3, range: (_, low, high) => [low * 0.9, high * 1.1] } : { range: padded } },
    axes: [axis({ label: chart.unit, labelSize: 20, labelFont: "12px system-ui", labelGap: 0, size: BELOW, values: (_, ticks) => ticks.map((each) => figure(each)) }), axis({ size: 58, values: (_, ticks) => ticks.map((each) => figure(each)) })],
    bands: [{ series: [5, 4], fill: token("--band") }],
    series: [
      { label: chart.unit, value: (_, value) => (value == null ? "" : figure(value, 4)) },
      { label: chart.name, stroke: token("--points"), paths: () => null, points: { show: true, size: 5, fill: token("--points"), stroke: token("--points") }, value: number },
      { label: "fit", stroke: main, width: 2, spanGaps: true, points: { show: false }, value: number },
      { label: "forecast", stroke: main, width: 2, dash: [6, 5], spanGaps: true, points: { show: false }, value: number },
      { label: "80 % interval", stroke: "transparent", auto: false, spanGaps: true, points: { show: false }, value: (plot, value, _, index) => (value == null ? "" : `${figure(value)} to ${figure(plot.data[5][index])}`) },
      { label: "upper end", stroke: "transparent", auto: false, spanGaps: true, points: { show: false }, value: number },
      { label: "goal", stroke: token("--goal"), width: 1.5, dash: [3, 4], spanGaps: true, points: { show: false }, value: number },
    ],
    hooks: { draw: [(plot) => marks(plot, chart)], ready: [curveLegend] },
  };
  track(new uPlot(options, data, box), box, `${chart.name} over ${chart.unit}`);
}

/** Points and the band are drawn as such; both ends of the band are one entry; what is not drawn has none. */
function curveLegend(plot) {
  const entries = plot.root.querySelectorAll(".u-legend .u-series");
  entries[1].querySelector(".u-marker").classList.add("mark-dot");
  entries[4].querySelector(".u-marker").classList.add("mark-band");
  entries.forEach((each, index) => { each.hidden = index === 5 || !plot.data[index].some((value) => value != null); });
}

function padded(plot, low, high) {
  if (low === null) return [0, 1];
  const room = (high - low || Math.abs(high) || 1) * 0.06;
  return [low >= 0 ? Math.max(low - room, 0) : low - room, high + room];
}

/** The end of what is known, drops of the learning rate, and the interval in which the goal is met. */
function marks(plot, chart) {
  const { ctx, bbox } = plot;
  const at = (k) => Math.round(plot.valToPos(k, "x", true)) + 0.5;
  const inside = (k) => k >= plot.scales.x.min && k <= plot.scales.x.max;
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  ctx.clip();
  const line = (k, colour, dash) => {
    if (!inside(k)) return;
    ctx.strokeStyle = colour;
    ctx.lineWidth = devicePixelRatio;
    ctx.setLineDash(dash.map((each) => each * devicePixelRatio));
    ctx.beginPath();
    ctx.moveTo(at(k), bbox.top);
    ctx.lineTo(at(k), bbox.top + bbox.height);
    ctx.stroke();
  };
  for (const drop of chart.drops) line(drop, token("--text-faint"), [2, 3]);
  if (chart.end !== null) line(chart.end, token("--text-faint"), [8, 3]);
  if (chart.met) {
    const [low, , high] = chart.met;
    ctx.globalAlpha = 0.1;
    ctx.fillStyle = token("--goal");
    ctx.fillRect(at(low), bbox.top, at(Math.min(high, plot.scales.x.max)) - at(low), bbox.height);
    ctx.globalAlpha = 1;
    if (low === high) line(low, token("--goal"), [3, 4]); // an amount of training
  }
  if (chart.goalK !== null && chart.goal !== null && inside(chart.goalK)) {
    ctx.setLineDash([]);
    ctx.fillStyle = token("--goal");
    ctx.beginPath();
    ctx.arc(at(chart.goalK), plot.valToPos(chart.goal, "y", true), 4.5 * devicePixelRatio, 0, 2 * Math.PI);
    ctx.fill();
  }
  ctx.restore();
}

const WORKERS = "--series-1";
const PS = "--series-2";

/** Counts over time in steps; rescales are shaded from their begin to their end. */
export function countsChart(box, points, rescales, now) {
  const x = points.map((each) => each.at);
  const workers = points.map((each) => each.workers);
  const ps = points.map((each) => each.ps);
  x.push(Math.max(now, x[x.length - 1] + 1));
  workers.push(workers[workers.length - 1]);
  ps.push(ps[ps.length - 1]);
  const whole = (_, value) => (value == null ? "" : figure(value));
  const stepped = uPlot.paths.stepped({ align: 1 });
  const most = Math.max(...workers, ...ps, ...rescales.map((each) => Math.max(each.toWorkers, each.toPs)), 1);
  const hasPs = Math.max(...ps) > 0;
  const options = {
    width: Math.max(box.clientWidth, 200),
    height: 180,
    padding: beyond(34),
    tzDate: utc,
    cursor: { drag: { x: true, y: false } },
    legend: LEGEND,
    scales: { x: { time: true }, y: { range: [0, most + 1] } },
    axes: [axis({ values: instants, space: 90, size: BELOW, incrs: STEPS }), axis({ size: 44, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000], values: (_, ticks) => ticks.map((each) => figure(each)) })],
    series: [
      { value: (_, at) => (at == null ? "" : second(at)) },
      { label: "workers", stroke: token(WORKERS), width: 2, paths: stepped, points: { show: false }, value: whole },
      ...(hasPs ? [{ label: "PS", stroke: token(PS), width: 2, dash: [6, 5], paths: stepped, points: { show: false }, value: whole }] : []),
    ],
    hooks: { drawClear: [(plot) => shade(plot, rescales, now)] },
  };
  track(new uPlot(options, hasPs ? [x, workers, ps] : [x, workers], box), box, `${hasPs ? "PSs and workers" : "Workers"} over time`);
}

function shade(plot, rescales, now) {
  const { ctx, bbox } = plot;
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  ctx.clip();
  ctx.fillStyle = token("--rescale");
  for (const each of rescales) {
    if (each.outcome === "withdrawn") continue;
    const left = plot.valToPos(each.beganAt, "x", true);
    const right = plot.valToPos(each.endedAt ?? now, "x", true);
    ctx.fillRect(left, bbox.top, Math.max(right - left, 2 * devicePixelRatio), bbox.height);
  }
  ctx.restore();
}
