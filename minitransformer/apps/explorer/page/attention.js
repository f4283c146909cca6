// The attention weights of every head and layer, and their gradients: small pictures, one of them large.

import { el, number, svg } from "./dom.js";
import { diverging, sequential } from "./colours.js";
import { Heatmap } from "./heatmap.js";
import { placeName } from "./labels.js";

const FAINT = 0.03; // lines below this share of the largest are left out
const MOST_LINES = 600; // the strongest are drawn
const TABLE = 40; // a table has at most this many rows and columns

const GROUPS = [
  ["Encoder: self-attention", (place) => place.startsWith("encoder")],
  ["Decoder: self-attention", (place) => !place.startsWith("encoder") && !place.includes("cross")],
  ["Decoder: cross-attention", (place) => place.includes("cross")],
];

/** Return the line of a step that holds its weights, or their gradient: its key and shape (1, H, Tq, Tk). */
export function weightsOf(step, side) {
  const name = side === "backward" ? "d_weights" : "weights";
  return step[side].findLast((line) => line.name.replace(/\.\d+$/, "") === name && line.shape.length === 4);
}

/** Return the tokens of a step's queries and keys. */
export function tokensOf(trace, place) {
  const source = trace.source.map(({ text }) => text), target = trace.target_in.map(({ text }) => text);
  if (place.startsWith("encoder")) return [source, source];
  return [target, place.includes("cross") ? source : target];
}

export function view(app, root) {
  const about = el("p", { class: "muted small" });
  const overview = el("div", { class: "attention-overview" });
  const title = el("h3");
  const picture = el("div"), lines = el("div", { class: "scroll" }), below = el("div", { class: "attention-below" });
  const large = el("div", { class: "attention-large" }, title, el("div", { class: "attention-pair" },
    el("figure", {}, picture, el("figcaption", { class: "small muted" }, "Rows: queries. Columns: keys.")),
    el("figure", {}, lines, el("figcaption", { class: "small muted" }, "From each query (left) to the keys (right)."))), below);
  root.replaceChildren(el("h2", {}, "Attention"), about, large, overview);
  const values = new Map(); // key and head -> promise of the tensor
  let traced = null, chosen = null, shown = null;
  const map = new Heatmap(app, picture, { label: "Attention", onSelect: ([q, k]) => shown.select(q, k) });

  const observer = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) if (isIntersecting) { observer.unobserve(target); target.paint(); }
  });

  function fetchHead(key, h) {
    const name = `${key} ${h}`;
    if (!values.has(name)) {
      const answer = app.tensor(key, { at: [0, h] });
      answer.catch(() => values.delete(name));
      values.set(name, answer);
    }
    return values.get(name);
  }

  return async function draw(changed) {
    const { trace, state: { side, entry, block } } = app;
    if (!trace) return;
    if (trace !== traced) values.clear();
    const steps = trace.steps.filter((step) => weightsOf(step, side));
    if (!steps.length) {
      about.textContent = "This model has no attention weights to show.";
      large.hidden = overview.hidden = true;
      return;
    }
    large.hidden = overview.hidden = false;
    about.textContent = side === "backward"
      ? "Gradients of the weights, d_weights: blue below zero, orange above it. Choose a head; point at an entry."
      : "Weights: each row is a query and sums to 1. Choose a head; point at a weight; a weight can be changed.";
    chosen = steps.find((step) => step.place === block || step.key === block) ?? steps.findLast((step) => step.place.startsWith(`${block}.`)) ??
      steps.find((step) => step.key === chosen?.key) ?? steps.at(-1);
    const line = weightsOf(chosen, side);
    const head = Math.min(entry?.key === line.key ? entry.index[1] : app.state.head ?? 0, line.shape[1] - 1);
    if (trace !== traced || changed.has("side") || changed.has("theme") || changed.has("model") || !overview.firstChild) {
      traced = trace;
      overview.replaceChildren(...GROUPS.map(([title, holds]) => groupOf(title, steps.filter((step) => holds(step.place)))).filter(Boolean));
    }
    for (const button of overview.querySelectorAll("button")) {
      button.setAttribute("aria-pressed", String(button.dataset.step === chosen.key && Number(button.dataset.head) === head));
    }
    const tensor = await fetchHead(line.key, head);
    if (app.trace === trace && app.state.side === side) await drawLarge(chosen, line, head, tensor);
  };

  function groupOf(title, steps) {
    if (!steps.length) return null;
    return el("section", { "aria-label": title }, el("h3", {}, title), steps.map((step) => {
      const { key, shape } = weightsOf(step, app.state.side);
      const layer = placeName(step.place).find((name) => name.startsWith("layer")) ?? "";
      return el("div", { class: "head-row" }, el("span", { class: "muted small" }, layer),
        Array.from({ length: shape[1] }, (_, h) => thumbnail(step, key, shape, h, `${title}, ${layer}, head ${h + 1}`)));
    }));
  }

  function thumbnail(step, key, shape, h, label) {
    const canvas = el("canvas", { width: shape[3], height: shape[2] });
    const side = app.state.side;
    canvas.paint = async () => {
      try {
        paint(canvas, await fetchHead(key, h), side);
      } catch (error) {
        app.report(error);
      }
    };
    observer.observe(canvas);
    return el("button", { type: "button", class: "head-button", "aria-label": label, title: label, "data-step": step.key, "data-head": h,
      onclick: () => {
        const { entry } = app.state;
        const same = entry?.key === key ? { entry: { key, index: [0, h, ...entry.index.slice(2)] } } : {};
        app.set({ block: step.place, value: key, head: h, ...same });
      } }, canvas, el("span", { class: "small" }, h + 1));
  }

  async function drawLarge(step, line, head, tensor) {
    const { side, entry } = app.state;
    const [queries, keys] = tokensOf(app.trace, step.place);
    const at = entry?.key === line.key && entry.index[1] === head ? entry.index.slice(2) : null;
    const fresh = shown?.tensor !== tensor;
    shown = { tensor, queries, keys, side, at, select: (q, k) => app.set({ entry: { key: line.key, index: [0, head, q, k] } }) };
    title.textContent = `${placeName(step.place).join(" › ")} › head ${head + 1}`;
    if (fresh) {
      picture.style.inlineSize = `${Math.max(260, labelWidth(queries) + 34 * keys.length)}px`;
      const { least, most } = tensor;
      await map.show({ shape: line.shape.slice(2), values: tensor.values, rows: (i) => queries[i], columns: (i) => keys[i],
        label: `${side === "backward" ? "Matrix of gradients" : "Matrix of weights"}: ${title.textContent}`, limit: Math.max(-least, most) });
    }
    map.select(at);
    lines.replaceChildren(links(shown));
    below.replaceChildren(chosenWeight(app, step, head, shown), table(shown));
  }
}

function valueAt({ tensor, keys }, q, k) {
  return tensor.values[q * keys.length + k];
}

function paint(canvas, tensor, side) {
  const { width, height } = canvas;
  const context = canvas.getContext("2d"), image = context.createImageData(width, height);
  const extent = Math.max(-tensor.least, tensor.most) || 1;
  tensor.values.forEach((value, i) => {
    image.data.set([...(side === "backward" ? diverging : sequential)(value / extent), 255], 4 * i);
  });
  context.putImageData(image, 0, 0);
}

/** Return two columns of tokens with lines between them, the stronger the larger the weight. */
function links(given) {
  const { tensor, queries, keys, at, select } = given;
  const down = 24, left = labelWidth(queries), right = labelWidth(keys), between = 180;
  const width = left + between + right, height = 12 + down * Math.max(queries.length, keys.length);
  const y = (i) => 6 + down * (i + 0.5);
  const extent = Math.max(-tensor.least, tensor.most) || 1;
  const lines = queries.flatMap((_, q) => keys.map((__, k) => ({ q, k, share: valueAt(given, q, k) / extent })))
    .filter(({ share }) => Math.abs(share) >= FAINT).sort((a, b) => Math.abs(b.share) - Math.abs(a.share)).slice(0, MOST_LINES);
  const drawing = svg("svg", {
    class: "attention-lines", width, height, viewBox: `0 0 ${width} ${height}`, role: "group",
    "aria-label": "Lines between tokens; the table below holds the same numbers",
  },
  lines.map(({ q, k, share }) => svg("path", {
    class: `weight-line${at?.[0] === q && at[1] === k ? " chosen" : ""}`, "data-q": q, "data-k": k,
    d: `M${left},${y(q)}C${left + between / 2},${y(q)} ${left + between / 2},${y(k)} ${left + between},${y(k)}`,
    style: `stroke: rgb(${diverging(share < 0 ? -0.6 : 0.6)}); stroke-width: ${(0.5 + 5 * Math.abs(share)).toFixed(2)}; --strength: ${Math.min(1, 0.15 + Math.abs(share)).toFixed(2)}`,
    onclick: () => select(q, k),
  }, svg("title", {}, sentenceOf(given, q, k)))),
  column(queries, "q", left - 8, "end"), column(keys, "k", left + between + 8, "start"));

  function column(tokens, name, x, anchor) {
    return tokens.map((text, i) => svg("text", {
      x, y: y(i) + 4, "text-anchor": anchor, tabindex: 0, role: "img", "aria-label": strongest(given, name, i),
      onmouseenter: () => only(name, i), onmouseleave: () => only(), onfocus: () => only(name, i), onblur: () => only(),
    }, shorten(text)));
  }

  function only(name, i) {
    for (const line of drawing.querySelectorAll(".weight-line")) {
      line.classList.toggle("away", name !== undefined && Number(line.dataset[name]) !== i);
    }
  }
  return drawing;
}

/** Say to which tokens a query attends most, or which queries attend most to a key. */
function strongest(given, name, i) {
  const { queries, keys } = given;
  const others = name === "q" ? keys : queries;
  const list = others.map((text, j) => [text, name === "q" ? valueAt(given, i, j) : valueAt(given, j, i)])
    .sort((a, b) => Math.abs(b[1]) - Math.abs(a[1])).slice(0, 3).map(([text, value]) => `${text} ${number(value, 3)}`);
  return `${name === "q" ? "Query" : "Key"} ${name === "q" ? queries[i] : keys[i]}: ${list.join(", ")}`;
}

function chosenWeight(app, step, head, given) {
  const { at, side } = given;
  if (!at) return el("p", { class: "muted small" }, "No entry chosen.");
  const index = [0, head, ...at];
  const live = app.store.live;
  return el("p", { class: "chosen-weight" }, sentenceOf(given, ...at), " ",
    side === "forward" ? el("button", { type: "button", disabled: !live,
      onclick: () => app.set({ view: "edit", draft: { kind: "set_weight", step: step.key, index, asked: performance.now() } }) }, "Change this weight") : null,
    side === "forward" && !live ? el("span", { class: "muted small" }, ` ${app.store.refusal}`) : null);
}

function sentenceOf(given, q, k) {
  const name = given.side === "backward" ? "gradient of the weight" : "weight";
  return `${given.queries[q]} (${q}) → ${given.keys[k]} (${k}): ${name} ${number(valueAt(given, q, k))}`;
}

function table(given) {
  const { queries, keys } = given;
  const details = el("details", { ontoggle: () => {
    if (!details.open || details.querySelector("table")) return;
    details.append(el("div", { class: "scroll" }, el("table", {},
      el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "query \\ key"), keys.slice(0, TABLE).map((text) => el("th", { scope: "col" }, text)))),
      el("tbody", {}, queries.slice(0, TABLE).map((text, q) => el("tr", {}, el("th", { scope: "row" }, text),
        keys.slice(0, TABLE).map((_, k) => el("td", { class: "figures" }, number(valueAt(given, q, k), 3)))))))));
    if (Math.max(queries.length, keys.length) > TABLE) details.append(el("p", { class: "muted small" }, `The first ${TABLE} rows and columns.`));
  } }, el("summary", {}, "The same numbers as a table"));
  return details;
}

function labelWidth(tokens) {
  return 14 + 7.5 * Math.max(2, ...tokens.map((text) => shorten(text).length));
}

function shorten(text, most = 12) {
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}
