// A table that sorts, pages and keeps its rows: a thousand rows cost as much as one page of them.
import { h, replace } from "./dom.js";

const MOST = 50;

/**
 * columns: [{ key, title, value(row), cell(row), className, numeric }]; cell(row) is null where there is nothing.
 * Returns { element, show(rows, changed) }. `moved` is told of another order ("-key": descending) or page.
 */
export function table(columns, { label, sort, page = 1, keyOf, versionOf, moved }) {
  let key = sort.replace(/^-/, "");
  let down = sort.startsWith("-");
  let offset = Math.max(page - 1, 0) * MOST;
  let rows = [];
  const drawn = new Map();
  const body = h("tbody");
  const heads = new Map();
  const header = columns.map((column) => {
    const button = h("button", { type: "button", onclick: () => order(column) }, column.title);
    const cell = h("th", { scope: "col", class: column.className ?? "" }, button);
    heads.set(column.key, cell);
    return cell;
  });
  const range = h("span", { class: "note" });
  const previous = h("button", { type: "button", onclick: () => turn(-1) }, "Previous");
  const next = h("button", { type: "button", onclick: () => turn(1) }, "Next");
  const pager = h("div", { class: "pager" }, range, previous, next);
  const element = h("div", { class: "wide" },
    h("div", { class: "table-box", role: "region", "aria-label": label, tabindex: 0 },
      h("table", { "aria-label": label }, h("thead", {}, h("tr", {}, header)), body)),
    pager);

  function order(column) {
    down = key === column.key ? !down : Boolean(column.numeric);
    key = column.key;
    offset = 0;
    draw();
    tell();
  }

  function tell() {
    moved?.({ sort: `${down ? "-" : ""}${key}`, page: offset / MOST + 1 });
  }

  function turn(by) {
    offset = Math.max(offset + by * MOST, 0);
    draw();
    tell();
    element.scrollIntoView({ block: "nearest" });
  }

  function sorted() {
    const column = columns.find((each) => each.key === key) ?? columns[0];
    const values = new Map(rows.map((row) => [row, column.value(row)]));
    const compare = (a, b) => {
      const [x, y] = [values.get(a), values.get(b)];
      const missing = (x === null || x === undefined || x === "") - (y === null || y === undefined || y === "");
      if (missing) return missing;
      const ordered = typeof x === "string" ? x.localeCompare(y) : x - y;
      return (down ? -ordered : ordered) || (keyOf(a) < keyOf(b) ? -1 : 1);
    };
    return [...rows].sort(compare);
  }

  function draw() {
    for (const [name, cell] of heads) {
      cell.setAttribute("aria-sort", name !== key ? "none" : down ? "descending" : "ascending");
    }
    if (rows.length && offset >= rows.length) offset = Math.max(Math.floor((rows.length - 1) / MOST) * MOST, 0);
    const shown = sorted().slice(offset, offset + MOST);
    const keep = new Set(shown.map(keyOf));
    for (const [name, each] of drawn) {
      if (!keep.has(name)) {
        each.element.remove();
        drawn.delete(name);
      }
    }
    shown.forEach((row, index) => {
      const name = keyOf(row);
      const version = versionOf(row);
      let known = drawn.get(name);
      if (!known || known.version !== version) {
        const fresh = line(row);
        const focused = known?.element.contains(document.activeElement);
        known?.element.replaceWith(fresh);
        if (focused) fresh.querySelector("a, button")?.focus({ preventScroll: true });
        known = { element: fresh, version };
        drawn.set(name, known);
      }
      if (body.children[index] !== known.element) body.insertBefore(known.element, body.children[index] ?? null);
    });
    const end = Math.min(offset + MOST, rows.length);
    replace(range, rows.length ? `${offset + 1}–${end} of ${rows.length}` : "none");
    previous.disabled = offset === 0;
    next.disabled = end >= rows.length;
    pager.hidden = rows.length <= MOST;
  }

  function line(row) {
    return h("tr", {}, columns.map((column) => {
      const cell = column.cell(row);
      return h("td", { class: `${column.className ?? ""} ${cell ? "" : "blank"}`, "data-title": column.title }, cell ?? h("span", { class: "faint" }, "–"));
    }));
  }

  return {
    element,
    show(found, { restart = false } = {}) {
      rows = found;
      if (restart) offset = 0;
      draw();
      if (restart) tell();
    },
  };
}
