// The attention weights of every head and layer, and their gradients: small pictures, one of them large.

import { el, number, svg } from "./dom.js";
import { diverging, sequential } from "./heatmap.js";

const FAINT = 0.03; // lines below this share of the largest are left out
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
  const large = el("div", { class: "attention-large" });
  root.replaceChildren(el("h2", {}, "Attention"), about, large, overview);
  const values = new Map(); // key and head -> promise of the tensor
  let traced = null;

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
      return large.replaceChildren(), overview.replaceChildren();
    }
    about.textContent = side === "backward"
      ? "Gradients of the weights, d_weights: blue below zero, orange above it. Choose a head; point at an entry."
      : "Weights: each row is a query and sums to 1. Choose a head; point at a weight; a weight can be changed.";
    const chosen = steps.find((step) => step.place === block || step.key === block) ?? steps.at(-1);
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
    if (app.trace === trace && app.state.side === side) drawLarge(chosen, line, head, tensor);
  };

  function groupOf(title, steps) {
    if (!steps.length) return null;
    return el("section", { "aria-label": title }, el("h3", {}, title), steps.map((step) => {
      const { key, shape } = weightsOf(step, app.state.side);
      const layer = /\d+/.exec(step.place)?.[0] ?? "";
      return el("div", { class: "heads" }, el("span", { class: "muted small" }, `layer ${layer}`),
        Array.from({ length: shape[1] }, (_, h) => thumbnail(step, key, shape, h, `${title}, layer ${layer}, head ${h}`)));
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
    return el("button", { type: "button", class: "thumbnail", "aria-label": label, title: label, "data-step": step.key, "data-head": h,
      onclick: () => {
        const { entry } = app.state;
        const same = entry?.key === key ? { entry: { key, index: [0, h, ...entry.index.slice(2)] } } : {};
        app.set({ block: step.place, value: key, head: h, ...same });
      } }, canvas, el("span", { class: "small" }, h));
  }

  function drawLarge(step, line, head, tensor) {
    const { side, entry } = app.state;
    const [queries, keys] = tokensOf(app.trace, step.place);
    const at = entry?.key === line.key ? entry.index.slice(2) : null;
    const select = (q, k) => app.set({ entry: { key: line.key, index: [0, head, q, k] } });
    const tensorView = { tensor, queries, keys, side, at, select, say: (text) => app.say(text) };
    const focused = large.querySelector("svg:focus")?.dataset.part;
    large.replaceChildren(
      el("h3", {}, `${step.place.replaceAll(".", " › ")}, head ${head}`),
      el("div", { class: "attention-pair" },
        el("figure", {}, el("div", { class: "scroll" }, matrix(tensorView)), el("figcaption", { class: "small muted" }, "Rows: queries. Columns: keys.")),
        el("figure", {}, el("div", { class: "scroll" }, links(tensorView)), el("figcaption", { class: "small muted" }, "From each query (left) to the keys (right)."))),
      chosenWeight(app, step, head, tensorView), table(tensorView));
    if (focused) large.querySelector(`[data-part="${focused}"]`)?.focus({ preventScroll: true });
  }
}

function valueAt({ tensor, keys }, q, k) {
  return tensor.values[q * keys.length + k];
}

function colour(value, { least, most }, side) {
  const rgb = side === "backward" ? diverging(value / (Math.max(-least, most) || 1)) : sequential(value);
  return `rgb(${rgb.join(",")})`;
}

function paint(canvas, tensor, side) {
  const { width, height } = canvas;
  const context = canvas.getContext("2d"), image = context.createImageData(width, height);
  const extent = Math.max(-tensor.least, tensor.most) || 1;
  tensor.values.forEach((value, i) => {
    image.data.set([...(side === "backward" ? diverging(value / extent) : sequential(value)), 255], 4 * i);
  });
  context.putImageData(image, 0, 0);
}

/** Return the matrix as SVG; arrow keys move, Enter chooses. */
function matrix(given) {
  const { tensor, queries, keys, side, at, select } = given;
  const cell = Math.max(10, Math.min(34, Math.floor(420 / Math.max(queries.length, keys.length))));
  const left = labelWidth(queries), top = labelWidth(keys);
  const width = left + cell * keys.length + 2, height = top + cell * queries.length + 2;
  const marker = svg("rect", { class: "cursor", width: cell, height: cell, visibility: "hidden" });
  let cursor = at;
  const move = (q, k) => {
    cursor = [q, k];
    marker.setAttribute("x", left + cell * k);
    marker.setAttribute("y", top + cell * q);
    marker.setAttribute("visibility", "visible");
  };
  if (at) move(...at);
  return svg("svg", {
    class: "attention-matrix", width, height, viewBox: `0 0 ${width} ${height}`, tabindex: 0, role: "application",
    "data-part": "matrix", "aria-label": "Matrix of weights: arrow keys move, Enter chooses",
    onkeydown: (event) => {
      const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1], Enter: [0, 0], " ": [0, 0] }[event.key];
      if (!step) return;
      event.preventDefault();
      const [q, k] = cursor ?? [0, 0];
      const next = [clamp(q + step[0], queries.length), clamp(k + step[1], keys.length)];
      move(...(cursor ? next : [0, 0]));
      given.say(sentenceOf(given, ...cursor));
      if (event.key === "Enter" || event.key === " ") select(...cursor);
    },
  },
  queries.map((text, q) => svg("text", { x: left - 6, y: top + cell * (q + 0.5) + 4, "text-anchor": "end" }, shorten(text))),
  keys.map((text, k) => svg("text", { transform: `translate(${left + cell * (k + 0.5) + 4},${top - 6}) rotate(-90)` }, shorten(text))),
  queries.map((_, q) => keys.map((__, k) => svg("rect", {
    class: "cell", x: left + cell * k, y: top + cell * q, width: cell, height: cell,
    style: `fill: ${colour(valueAt(given, q, k), tensor, side)}`, onclick: () => select(q, k),
  }, svg("title", {}, sentenceOf(given, q, k))))), marker);
}

/** Return two columns of tokens with lines between them, the stronger the larger the weight. */
function links(given) {
  const { tensor, queries, keys, at, select, side } = given;
  const down = 24, left = labelWidth(queries), right = labelWidth(keys), between = 180;
  const width = left + between + right, height = 12 + down * Math.max(queries.length, keys.length);
  const y = (i) => 6 + down * (i + 0.5);
  const extent = side === "backward" ? Math.max(-tensor.least, tensor.most) || 1 : 1;
  const lines = queries.flatMap((_, q) => keys.map((__, k) => ({ q, k, share: valueAt(given, q, k) / extent })))
    .filter(({ share }) => Math.abs(share) >= FAINT);
  const drawing = svg("svg", {
    class: "attention-lines", width, height, viewBox: `0 0 ${width} ${height}`, role: "group",
    "aria-label": "Lines between tokens; the table below holds the same numbers",
  },
  lines.map(({ q, k, share }) => svg("path", {
    class: `link ${share < 0 ? "below" : "above"}${at?.[0] === q && at[1] === k ? " chosen" : ""}`, "data-q": q, "data-k": k,
    d: `M${left},${y(q)}C${left + between / 2},${y(q)} ${left + between / 2},${y(k)} ${left + between},${y(k)}`,
    style: `stroke-width: ${(0.5 + 5 * Math.abs(share)).toFixed(2)}; --strength: ${Math.min(1, 0.15 + Math.abs(share)).toFixed(2)}`,
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
    for (const line of drawing.querySelectorAll(".link")) {
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
      onclick: () => app.set({ view: "edit", draft: { kind: "set_weight", step: step.key, index } }) }, "Change this weight") : null,
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

function clamp(i, length) {
  return Math.max(0, Math.min(length - 1, i));
}

function shorten(text, most = 12) {
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}
