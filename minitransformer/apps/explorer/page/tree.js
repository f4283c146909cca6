// The tree of a beam search: every hypothesis of every step, as a drawing and as a table.

import { el, number, svg } from "./dom.js";
import { t } from "./words.js";

const WIDTH = 134, HEIGHT = 34, ACROSS = 172, DOWN = 42, MARGIN = 14;

const KINDS = [
  ["kept", t("kept for the next step")],
  ["finished", t("finished: it ends with <end>")],
  ["dropped", t("dropped: too many better ones")],
  ["lost", t("given up: it cannot win any more")],
];

const FATES = { kept: t("kept"), finished: t("finished"), "cannot win any more": t("cannot win any more") };

/** Return what became of a node, in words. */
function fateOf({ fate }) {
  const [, rank, most] = /^dropped: rank (\d+), and only (\d+) are kept$/.exec(fate) ?? [];
  if (rank) return t("dropped: rank {rank}, and only {most} are kept", { rank, most });
  const [, limit] = /^cut off: at the limit of (\d+) tokens$/.exec(fate) ?? [];
  return limit ? t("cut off: at the limit of {limit} tokens", { limit }) : FATES[fate] ?? fate;
}

/** Return what became of a node: "kept", "finished", "dropped" or "lost". */
export function kindOf(node) {
  if (node.fate.startsWith("dropped")) return "dropped";
  return node.fate === "kept" || node.fate === "finished" ? node.fate : "lost";
}

/** Return the nodes from the root to a node, the root left out. */
function pathTo(byId, id) {
  const path = [];
  for (let node = byId.get(id); node && node.parent !== null; node = byId.get(node.parent)) path.unshift(node);
  return path;
}

/** Return {column, row} of each node: its step, and its rank among the children of better parents first. */
export function layout(nodes) {
  const columns = [...Map.groupBy(nodes, (node) => node.step).entries()].sort(([a], [b]) => a - b);
  const at = new Map();
  for (const [column, [, members]] of columns.entries()) {
    const row = (node) => at.get(node.parent)?.row ?? 0;
    members.sort((a, b) => row(a) - row(b) || b.log_probability - a.log_probability);
    members.forEach((node, i) => at.set(node.id, { column, row: i }));
  }
  return at;
}

/** Draw the tree into an element; choose(path of token ids) is called to decode on from a hypothesis. */
export function drawTree(root, tree, choose) {
  const dropped = el("input", { type: "checkbox", checked: true, onchange: () => draw() });
  const drawing = el("div", { class: "scroll tree-drawing" });
  const about = el("p", { class: "tree-about", "aria-live": "polite" });
  const byId = new Map(tree.nodes.map((node) => [node.id, node]));
  const best = new Set(pathTo(byId, tree.winner).map((node) => node.id));
  let selected = tree.winner;

  function draw() {
    const nodes = tree.nodes.filter((node) => dropped.checked || kindOf(node) !== "dropped");
    if (!nodes.some((node) => node.id === selected)) selected = tree.winner;
    drawing.replaceChildren(picture(nodes, best, tree.winner, select));
    select(selected, false);
  }

  function select(id, focus = true) {
    selected = id;
    for (const shape of drawing.querySelectorAll("[data-id]")) {
      const chosen = Number(shape.dataset.id) === id;
      shape.setAttribute("aria-selected", chosen);
      shape.setAttribute("tabindex", chosen ? 0 : -1);
      if (chosen && focus) shape.focus();
    }
    const path = pathTo(byId, id);
    const node = path.at(-1);
    about.replaceChildren(...(node ? describe(node, path, id === tree.winner, choose) : [t("The start of every hypothesis.")]));
  }

  draw();
  root.replaceChildren(
    el("div", { class: "line-up" }, legend(), el("label", { class: "check" }, dropped, ` ${t("show dropped hypotheses")}`)),
    drawing, about, table(tree, byId),
  );
}

function describe(node, path, wins, choose) {
  const text = path.map((one) => one.text).join(" ");
  const ids = path.filter((one) => kindOf(one) !== "finished").map((one) => one.token);
  return [
    el("strong", {}, text), ` – ${t("log-probability {value}", { value: number(node.log_probability) })}`,
    node.score === null ? "" : `, ${t("score {value}", { value: number(node.score) })}`,
    wins ? `; ${t("finished with the best score: the result of the search.")} ` : `; ${fateOf(node)}. `,
    choose && el("button", { type: "button", onclick: () => choose(ids) }, t("Force these tokens and continue")),
  ].filter(Boolean);
}

function legend() {
  const entries = KINDS.map(([kind, text]) => el("li", {},
    svg("svg", { width: 26, height: 16, "aria-hidden": "true" }, box(`node ${kind}`, 1, 1, 24, 14)), ` ${text}`));
  entries.push(el("li", {}, svg("svg", { width: 26, height: 16, "aria-hidden": "true" }, box("node best", 1, 1, 24, 14)),
    ` ${t("part of the best hypothesis")}`));
  return el("ul", { class: "legend" }, entries);
}

function box(name, x, y, width, height) {
  return svg("g", { class: name }, svg("rect", { x, y, width, height, rx: 6 }));
}

function picture(nodes, best, winner, select) {
  const at = layout(nodes);
  const x = (node) => MARGIN + ACROSS * at.get(node.id).column;
  const y = (node) => MARGIN + DOWN * at.get(node.id).row;
  const width = 2 * MARGIN + WIDTH + ACROSS * Math.max(...[...at.values()].map(({ column }) => column));
  const height = 2 * MARGIN + HEIGHT + DOWN * Math.max(...[...at.values()].map(({ row }) => row));
  const byId = new Map(nodes.map((node) => [node.id, node]));
  const edges = nodes.filter((node) => byId.has(node.parent)).map((node) => {
    const from = byId.get(node.parent), x0 = x(from) + WIDTH, y0 = y(from) + HEIGHT / 2, y1 = y(node) + HEIGHT / 2;
    return svg("path", {
      class: `edge ${kindOf(node)}${best.has(node.id) ? " best" : ""}`,
      d: `M${x0},${y0}C${x0 + 24},${y0} ${x(node) - 24},${y1} ${x(node)},${y1}`,
    });
  });
  const shapes = nodes.map((node) => svg("g", {
    class: `node ${kindOf(node)}${best.has(node.id) ? " best" : ""}`, role: "treeitem", tabindex: -1,
    "data-id": node.id, "aria-level": node.step + 1, transform: `translate(${x(node)},${y(node)})`,
    "aria-label": `${node.text}, ${t("log-probability {value}", { value: number(node.log_probability) })}, ` +
      (node.id === winner ? t("finished with the best score") : fateOf(node)),
    onclick: () => select(node.id),
  },
  svg("rect", { width: WIDTH, height: HEIGHT, rx: 6 }),
  svg("text", { x: 8, y: 15, class: "token" }, shorten(node.text)),
  svg("text", { x: 8, y: 28, class: "small" }, node.parent === null ? "" : number(node.log_probability, 3)),
  node.score === null ? null : svg("text", { x: WIDTH - 8, y: 28, class: "small score" }, t("score {value}", { value: number(node.score, 3) }))));
  return svg("svg", {
    class: "beam-tree", role: "tree", width, height, viewBox: `0 0 ${width} ${height}`,
    "aria-label": t("Tree of hypotheses. Left: the parent, right: the best child, up and down: others of this step."),
    onkeydown: (event) => {
      const here = byId.get(Number(event.target.closest?.("[data-id]")?.dataset.id));
      const next = here && neighbour(event.key, here, nodes, at, best);
      if (!next) return;
      event.preventDefault();
      select(next.id);
    },
  }, edges, shapes);
}

function neighbour(key, here, nodes, at, best) {
  const children = nodes.filter((node) => node.parent === here.id).sort((a, b) => b.log_probability - a.log_probability);
  const column = nodes.filter((node) => node.step === here.step).sort((a, b) => at.get(a.id).row - at.get(b.id).row);
  switch (key) {
    case "ArrowLeft": return nodes.find((node) => node.id === here.parent);
    case "ArrowRight": return children.find((node) => best.has(node.id)) ?? children[0];
    case "ArrowUp": return column[column.indexOf(here) - 1];
    case "ArrowDown": return column[column.indexOf(here) + 1];
    case "Home": return nodes[0];
    case "End": return nodes.filter((node) => best.has(node.id)).at(-1);
    default: return undefined;
  }
}

function table(tree, byId) {
  const nodes = tree.nodes.filter((node) => node.parent !== null);
  const row = (node) => el("tr", { class: kindOf(node) },
    el("td", {}, node.step), el("td", {}, pathTo(byId, node.id).map((one) => one.text).join(" ")),
    el("td", { class: "figures" }, number(node.log_probability)), el("td", { class: "figures" }, number(node.score)),
    el("td", {}, node.id === tree.winner ? t("{fate}, best score", { fate: fateOf(node) }) : fateOf(node)));
  const details = el("details", { ontoggle: () => {
    if (!details.open || details.querySelector("table")) return;
    const names = [t("Step"), t("Hypothesis"), t("Log-probability"), t("Score"), t("Outcome")];
    details.append(el("div", { class: "scroll" }, el("table", {},
      el("thead", {}, el("tr", {}, names.map((name) => el("th", { scope: "col" }, name)))), el("tbody", {}, nodes.map(row)))));
  } }, el("summary", {}, t("All {n} hypotheses as a table", { n: nodes.length })));
  return details;
}

function shorten(text, most = 15) {
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}
