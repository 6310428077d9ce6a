// What other counts would mean: asked of the server, which has the forecast and the nodes.
import { clock, counts, duration, empty, h, hasEnded, panel, replace } from "./dom.js";

const ASK_MS = 200;

/** Draws into a box. show(detail) takes the job as it is now; ask(ps, workers) sets the counts. */
export function whatIf(namespace, name, box) {
  const path = `api/what-if/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`;
  const wanted = { ps: 0, workers: 0 };
  let present = null;
  let chosen = false;
  let trains = true;
  let number = 0;
  let timer = null;
  const result = h("div", { class: "what-if-result", role: "status" });
  const inputs = { ps: stepper("ps", "PS"), workers: stepper("workers", "Workers") };
  const more = h("button", { type: "button", onclick: () => ask(present.ps, present.workers + 4) }, "+4 workers");
  const form = h("div", { class: "what-if" }, inputs.ps.element, inputs.workers.element, more);
  replace(box, panel("What if", { note: "nothing is changed" }, form, result));

  function stepper(role, label) {
    const input = h("input", { type: "number", min: 1, max: 10000, "aria-label": label, onchange: () => step(Number(input.value) - wanted[role]) });
    const step = (by) => {
      const value = Math.min(Math.max(Math.round(wanted[role] + by) || 1, 1), 10000);
      ask(role === "ps" && present.ps ? value : wanted.ps, role === "workers" ? value : wanted.workers);
    };
    const element = h("div", { class: "stepper" }, h("span", { class: "key" }, label),
      h("button", { type: "button", "aria-label": `one ${label} less`, onclick: () => step(-1) }, "−"), input,
      h("button", { type: "button", "aria-label": `one ${label} more`, onclick: () => step(1) }, "+"));
    return { element, input };
  }

  function ask(ps, workers) {
    Object.assign(wanted, { ps, workers });
    chosen = ps !== present.ps || workers !== present.workers;
    inputs.ps.input.value = ps;
    inputs.workers.input.value = workers;
    clearTimeout(timer);
    timer = setTimeout(load, ASK_MS);
  }

  async function load() {
    const mine = ++number;
    let found = null;
    try {
      const answer = await fetch(`${path}?${new URLSearchParams(wanted)}`);
      found = answer.ok ? await answer.json() : null;
    } catch {
      found = null;
    }
    if (mine === number && box.isConnected && found) draw(found);
  }

  /** When it is done; of a job that does not train now, how long after it does. */
  const when = (found, at) => (trains ? `at ${clock(found.ends_at, at)}, in ${duration(found.remaining.median)}` : `${duration(found.remaining.median)} after it trains again`);

  function draw({ answer, sentences }) {
    if (answer.problem || !answer.then) {
      replace(result, empty("Not known", answer.problem));
      return;
    }
    if (!chosen) {
      replace(result, h("p", { class: "caption" }, `Now: done ${when(answer.now, answer.at)}. Choose another size, or click one above.`));
      return;
    }
    const { then } = answer;
    replace(result,
      h("p", { class: "what-if-main" }, `With ${counts(then.ps, then.workers)}: done `, h("strong", {}, when(then, answer.at))),
      h("p", { class: "caption" }, `80 %: ${duration(then.remaining.low)} to ${duration(then.remaining.high)}.`),
      sentences.map((each, index) => h("p", { class: index ? "caption" : answer.saves_seconds >= 0 ? "gain" : "loss" }, each)),
      !answer.allowed && h("p", { class: "phase phase-bad" }, "out of its bounds"));
  }

  return {
    ask: (ps, workers) => present && ask(ps, workers),
    show(detail) {
      const { ps, workers } = detail.row;
      box.hidden = ps === undefined || !detail.speed?.speed.length || hasEnded(detail.row);
      if (box.hidden) return;
      trains = detail.row.endsAt !== undefined;
      const moved = !present || present.ps !== ps || present.workers !== workers;
      present = { ps, workers };
      inputs.ps.element.hidden = !ps;
      if (!chosen || moved) ask(ps, workers);
      else {
        clearTimeout(timer);
        timer = setTimeout(load, ASK_MS);
      }
    },
  };
}
