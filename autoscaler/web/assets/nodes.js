// The nodes: what each offers, what is requested, and which jobs are there.
import { amount, bar, empty, figure, h, panel, redraw, replace, resourceName, roleCounts } from "./dom.js";
import { state } from "./state.js";

const MOST = 50;
const REFRESH_MS = 4000;

export function nodesView(parameters) {
  let offset = 0;
  let text = parameters.get("q") ?? "";
  let asked = 0;
  let timer = null;
  let closed = false;
  const search = h("input", {
    type: "search", placeholder: "Filter by node, kind or job", "aria-label": "Filter nodes", value: text,
    oninput: () => { text = search.value; offset = 0; later(150); },
  });
  const body = h("div", { class: "node-grid" });
  const range = h("span", { class: "note" });
  const previous = h("button", { type: "button", onclick: () => turn(-MOST) }, "Previous");
  const next = h("button", { type: "button", onclick: () => turn(MOST) }, "Next");
  const pager = h("div", { class: "pager" }, range, previous, next);
  const use = h("span", {});
  const element = h("div", { class: "view" }, h("h1", { class: "sr" }, "Nodes"),
    panel("Nodes", { note: use, actions: h("div", { class: "search" }, search) }, body, pager));

  function turn(by) {
    offset = Math.max(offset + by, 0);
    load();
    scrollTo(0, 0);
  }

  function later(milliseconds) {
    clearTimeout(timer);
    timer = setTimeout(load, milliseconds);
  }

  async function load() {
    const mine = ++asked;
    const query = new URLSearchParams({ offset, limit: MOST, q: text });
    let page = null;
    try {
      const answer = await fetch(`api/nodes?${query}`);
      page = answer.ok ? await answer.json() : null;
    } catch {
      page = null;
    }
    if (closed || mine !== asked) return;
    if (page) redraw(body, () => draw(page));
    later(REFRESH_MS);
  }

  function draw(page) {
    if (!page.nodes.length) {
      replace(body, text ? empty("No node matches", "Clear the filter to see all of them.") : empty("No nodes", "The autoscaler sees no node: see --node-selector."));
    } else {
      replace(body, page.nodes.map(card));
    }
    const end = offset + page.nodes.length;
    replace(range, page.total ? `${page.offset + 1}–${end} of ${page.total}` : "");
    previous.disabled = offset === 0;
    next.disabled = end >= page.total;
    pager.hidden = page.total <= MOST;
  }

  /** What all pods request of what all nodes offer. */
  function drawUse() {
    const words = state.cluster.map(({ resource, requested, allocatable }) => `${resourceName(resource)} ${amount(resource, requested)} of ${amount(resource, allocatable)}`);
    replace(use, words.length > 0 && `requested: ${words.join(" · ")}`);
  }

  load();
  return {
    element,
    title: "Nodes",
    update: drawUse,
    close() {
      closed = true;
      clearTimeout(timer);
    },
  };
}

function card(node) {
  const shown = ["cpu", "memory", ...Object.keys(node.amounts).filter((each) => each.includes("/"))].filter((each) => node.amounts[each]).slice(0, 4);
  return h("article", { class: `node ${node.cordoned ? "cordoned" : ""}` },
    h("h3", {}, node.name),
    h("p", { class: "note" }, [node.kind, `${node.pods} pods`, node.cordoned && "cordoned"].filter(Boolean).join(" · ")),
    node.taints.length > 0 && h("p", { class: "note clamp" }, `taints ${node.taints.join(", ")}`),
    h("dl", { class: "uses" }, shown.map((resource) => {
      const [used, all] = node.amounts[resource];
      const percent = all ? (100 * used) / all : 0;
      const words = `${amount(resource, used)} of ${amount(resource, all)}`;
      return h("div", {}, h("dt", {}, resourceName(resource)), h("dd", {}, bar(percent, `${figure(percent, 3)} %: ${words}`, percent > 95 ? "full" : ""), h("span", {}, words)));
    })),
    h("ul", { class: "tags" }, node.jobs.map(([job, replicas]) => {
      const [namespace, name = job] = job.split(/\/(.*)/s);
      return h("li", {}, h("a", { href: `#/jobs/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`, title: job }, name), h("span", {}, ` ${roleCounts(replicas)}`));
    }), node.moreJobs > 0 && h("li", {}, `and ${node.moreJobs} more`)));
}
