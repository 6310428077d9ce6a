// The end of a pod's log, read with a token of the reader's own.
import { empty, h, panel, replace } from "./dom.js";

const KEPT_MS = 15 * 60 * 1000;
const LOCAL = /^(localhost|127(\.\d+){3}|\[::1\])$/; // what the browser itself connects to, whatever a proxy says

// In this tab's memory alone: not in storage, a cookie or an address.
let token = "";
let forgetting = null;

function remember(text) {
  token = text;
  clearTimeout(forgetting);
  if (text) forgetting = setTimeout(() => { token = ""; }, KEPT_MS);
}

addEventListener("pagehide", () => remember(""));

/** Draws into a box, which stays hidden where the operator has not switched logs on. */
export function logPanel(namespace, name, box) {
  const path = `api/logs/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`;
  const result = h("div", { role: "status" });
  const text = h("pre", { class: "yaml log", tabindex: 0, "aria-label": "Log", hidden: true });
  const pods = h("select", { onchange: () => { previous.checked = false; restarted(); } });
  const previous = h("input", { type: "checkbox" });
  const before = h("label", {}, previous, " before its last restart");
  const input = h("input", { type: "password", autocomplete: "off", spellcheck: "false", onkeydown: (event) => { if (event.key === "Enter") show(); } });
  const button = h("button", { type: "button", onclick: show }, "Show the last lines");
  const forget = h("button", { type: "button", onclick: forgotten }, "Forget the token");
  const form = h("div", { class: "what-if" }, h("label", {}, "Pod ", pods), before, h("label", {}, "Token ", input), button, forget);
  const hint = h("p", { class: "caption" }, "Any token that may get pods/log. ",
    h("code", {}, `kubectl -n ${namespace} create token NAME --duration=10m`), " prints one of a ServiceAccount. This tab keeps it for 15 minutes at most; the server passes it on to the API server, which decides, and keeps none.");
  let restarts = new Map();

  box.hidden = true;
  offer();

  async function offer() {
    try {
      const answer = await fetch(path);
      if (!answer.ok) return;
      const found = await answer.json();
      if (!found.why && !(found.offered && found.pods.length)) return;
      box.hidden = false;
      const why = found.why || (LOCAL.test(location.hostname) ? "" : "a token is taken at 127.0.0.1 or localhost alone");
      if (why) return replace(box, panel("Log", {}, empty("Not here", why)));
      restarts = new Map(found.pods.map((each) => [each.name, each.restarts]));
      replace(pods, found.pods.map((each) => h("option", { value: each.name }, each.name)));
      replace(box, panel("Log", { note: "with your own token" }, form, hint, found.morePods > 0 && h("p", { class: "caption" }, `${found.morePods} more pods are not listed.`), result, text));
      restarted();
      known();
    } catch { /* no panel */ }
  }

  function restarted() {
    before.hidden = !restarts.get(pods.value);
  }

  function known() {
    input.placeholder = token ? "kept in this tab" : "";
    forget.hidden = !token;
  }

  function forgotten() {
    remember("");
    input.value = "";
    replace(result, h("p", { class: "caption" }, "The token is forgotten."));
    known();
    input.focus();
  }

  async function show() {
    if (input.value.trim()) remember(input.value.trim());
    input.value = "";
    known();
    if (!token) {
      replace(result, h("p", { class: "warning" }, "A token is needed."));
      return input.focus();
    }
    button.disabled = true;
    const pod = pods.value;
    let found = { text: "", problem: "the server did not answer" };
    try {
      const answer = await fetch(`${path}/${encodeURIComponent(pod)}?previous=${previous.checked}`, {
        headers: { Authorization: `Bearer ${token}` }, cache: "no-store", credentials: "omit", redirect: "error", referrerPolicy: "no-referrer",
      });
      found = answer.ok ? await answer.json() : { text: "", problem: answer.status === 404 ? "the pod is not there any more" : `the server answered ${answer.status}` };
    } catch { /* told below */ }
    button.disabled = false;
    const said = found.text ? `The last lines of ${pod}:` : "The log is empty.";
    replace(result, h("p", { class: found.problem ? "warning" : "caption" }, found.problem ? `${pod}: ${found.problem}` : said));
    text.hidden = !found.text;
    text.textContent = found.text;
    text.scrollTop = text.scrollHeight;
  }
}
