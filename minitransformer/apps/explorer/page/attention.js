// The attention weights of every head and layer, and their gradients: small pictures, one of them large.

import { el, number, svg, withCode } from "./dom.js";
import { diverging, sequential } from "./colours.js";
import { Heatmap } from "./heatmap.js";
import { placeName } from "./labels.js";
import { matrix } from "./matrix.js";
import { outcomeOf } from "./outcome.js";
import { t } from "./words.js";

const FAINT = 0.03; // lines below this share of the largest are left out
const MOST_LINES = 600; // the strongest are drawn
const TABLE = 40; // a table has at most this many rows and columns

const GROUPS = [
  [t("Encoder: self-attention"), (place) => place.startsWith("encoder")],
  [t("Decoder: self-attention"), (place) => !place.startsWith("encoder") && !place.includes("cross")],
  [t("Decoder: cross-attention"), (place) => place.includes("cross")],
];

/** Return the line of a step that holds its weights, or their gradient: its key and shape (1, H, Tq, Tk). */
export function weightsOf(step, side) {
  const name = side === "backward" ? "d_weights" : "weights";
  return step[side].findLast((line) => line.name.replace(/\.\d+$/, "") === name && line.shape.length === 4);
}

/** Return the names of a step's queries and keys: in the decoder, a query is named by the token that is written there. */
export function tokensOf(trace, place) {
  const [source, written, read] = [trace.source, trace.target_out, trace.target_in].map((tokens) => tokens.map(({ text }) => text));
  if (place.startsWith("encoder")) return [source, source];
  return [written, place.includes("cross") ? source : read];
}

/** Tell whether an attention is the decoder's: its rows are the tokens that are written. */
function writes(place) {
  return !place.startsWith("encoder");
}

export function view(app, root) {
  const choice = el("select", { "aria-label": t("Which attention"), onchange: () => app.set({ block: choice.value, value: null, entry: null, word: null }) });
  const about = el("p", { class: "muted small" });
  const words = el("div", { class: "attention-words" });
  const heads = el("div", { class: "heads", role: "group", "aria-label": t("Heads") });
  const outcome = outcomeOf(app);
  const overview = el("div", { class: "attention-overview" });
  const title = el("h3");
  const picture = el("div"), lines = el("div", { class: "scroll" }), below = el("div", { class: "attention-below" });
  const axes = el("figcaption", { class: "small muted" });
  const large = el("div", { class: "attention-large" }, title, el("div", { class: "attention-pair" },
    el("figure", {}, picture, axes),
    el("figure", {}, lines, el("figcaption", { class: "small muted" }, t("The thicker the line, the larger the weight.")))), below);
  root.replaceChildren(el("div", { class: "attention-head" }, el("h2", {}, t("Attention")), choice), about, words, heads, outcome.element, large, overview);
  const values = new Map(); // key and head -> promise of the tensor
  let traced = null, chosen = null, shown = null, drawn = null;
  const map = new Heatmap(app, picture, { label: t("Attention"), onSelect: ([q, k]) => shown.select(q, k) });

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
    for (const part of [choice, words, heads, large, overview]) part.hidden = !steps.length;
    if (!steps.length) {
      about.textContent = t("This model has no attention weights to show.");
      return;
    }
    chosen = steps.find((step) => step.place === block || step.key === block) ?? steps.findLast((step) => step.place.startsWith(`${block}.`)) ??
      steps.find((step) => step.key === chosen?.key) ?? steps.at(-1);
    const line = weightsOf(chosen, side), [, n] = line.shape;
    about.textContent = [side === "backward" ? t("Gradients of the weights, d_weights: blue below zero, orange above it.")
      : writes(chosen.place) ? t("Rows: what is written. Columns: what it reads. Each row sums to 1.") : t("Rows: each token. Columns: what it reads. Each row sums to 1."),
    app.store.live ? t("Point at a word to light its sources; click a picture to switch its head off.") : t("Point at a word to light its sources.")].join(" ");
    choice.replaceChildren(...steps.map(({ key, place }) => el("option", { value: place, selected: key === chosen.key }, placeName(place).join(", "))));
    const fresh = trace !== traced || changed.has("side") || changed.has("theme") || changed.has("model") || !overview.firstChild;
    traced = trace;
    const all = await Promise.all(Array.from({ length: n }, (_, h) => fetchHead(line.key, h)));
    if (app.trace !== trace || app.state.side !== side) return;
    const off = headsOff(app, chosen);
    const head = Math.min(entry?.key === line.key ? entry.index[1] : app.state.head ?? strongestHead(all, app.state.word, line.shape), n - 1);
    const now = [trace.id, chosen.key, side, document.documentElement.dataset.theme, off, head].join(" ");
    if (now !== drawn) {
      drawn = now;
      showHeads(chosen, line, all, head, off);
    }
    light(app.state.word);
    await Promise.all([drawLarge(chosen, line, head, all[head]), outcome.draw()]);
    if (fresh || changed.has("edits")) {
      overview.replaceChildren(...GROUPS.map(([name, holds]) => groupOf(name, steps.filter((step) => holds(step.place)))).filter(Boolean));
    }
    for (const picture of overview.querySelectorAll(".head-button")) {
      picture.classList.toggle("chosen", picture.dataset.step === chosen.key && Number(picture.dataset.head) === head);
    }
  };

  /** Show the words, and the heads side by side, each a switch. */
  function showHeads(step, line, all, head, off) {
    const [queries, keys] = tokensOf(app.trace, step.place), signed = app.state.side === "backward", written = writes(step.place);
    const on = all.filter((_, h) => !off.includes(h));
    const focused = heads.contains(document.activeElement) && document.activeElement.dataset.head;
    words.replaceChildren(
      el("div", { class: "word-row" }, el("span", { class: "muted small" }, writes(step.place) ? t("writes") : t("token")),
        queries.map((text, q) => el("button", {
          type: "button", class: "word", "data-word": q, onmouseenter: () => light(q), onmouseleave: () => light(app.state.word),
          onfocus: () => light(q), onblur: () => light(app.state.word), onclick: () => app.set({ word: app.state.word === q ? null : q, head: null }),
          "aria-label": t(written ? "Writes {token}: reads {others}" : "Token {token}: reads {others}", { token: text, others: topOf(meanRow(on.length ? on : all, q, keys.length), keys) }),
        }, text))),
      el("div", { class: "word-row" }, el("span", { class: "muted small" }, t("reads")), keys.map((text) => el("span", { class: "word source" }, text))));
    light.row = (q) => meanRow(on.length ? on : all, q, keys.length);
    heads.replaceChildren(...all.map((tensor, h) => {
      const isOff = off.includes(h), extent = Math.max(-tensor.least, tensor.most) || 1;
      const drawing = matrix(tensor.values, queries, keys, `${t("Head {n}", { n: h + 1 })}: `, { most: 16, extent, signed });
      drawing.addEventListener("pointermove", (event) => light(rowAt(drawing, event)));
      drawing.addEventListener("pointerleave", () => light(app.state.word));
      const frame = app.store.live ? el("button", { type: "button", class: "head-picture", role: "switch", "aria-checked": String(!isOff), "data-head": h,
        "aria-label": t("Head {n}", { n: h + 1 }), title: isOff ? t("Switch this head on") : t("Switch this head off"), onclick: () => toggle(step, h) }, drawing)
        : el("div", { class: "head-picture" }, drawing);
      return el("figure", { class: isOff ? "off" : null }, frame, el("figcaption", { class: "small" },
        el("span", {}, t(isOff ? "Head {n}, off" : "Head {n}", { n: h + 1 })), " ",
        el("button", { type: "button", class: "link", "aria-pressed": String(h === head), onclick: () => closer(step, line.key, h) }, t("Look closer"))));
    }));
    if (focused) heads.querySelector(`[data-head="${focused}"]`)?.focus();
  }

  /** Light the sources of a word: the mean of its weights over all heads that are on. */
  function light(q) {
    const row = q === null || q === undefined || !light.row ? null : light.row(q), most = row ? Math.max(...row.map(Math.abs)) || 1 : 1;
    for (const button of words.querySelectorAll("[data-word]")) button.classList.toggle("lit", Number(button.dataset.word) === q);
    words.querySelectorAll(".source").forEach((source, k) => {
      const share = row ? Math.abs(row[k] ?? 0) / most : 0;
      source.classList.toggle("lit", share > 0.5);
      source.style.cssText = row ? `--lit: ${(100 * share).toFixed(0)}%` : "";
    });
    for (const mark of heads.querySelectorAll(".row-mark")) {
      mark.classList.toggle("lit", Boolean(row));
      if (row) mark.setAttribute("y", Number(mark.dataset.top) + q * Number(mark.dataset.cell));
    }
  }

  function toggle(step, head) {
    const same = ({ kind, step: where, head: which }) => kind === "head_off" && where === step.key && which === head;
    const { edits } = app.state, isOff = edits.some(same);
    app.say(t(isOff ? "Head {n} is on." : "Head {n} is off.", { n: head + 1 }));
    return app.set({ edits: isOff ? edits.filter((edit) => !same(edit)) : [...edits, { kind: "head_off", step: step.key, head }] });
  }

  function closer(step, key, head) {
    const { entry } = app.state;
    const same = entry?.key === key ? { entry: { key, index: [0, head, ...entry.index.slice(2)] } } : {};
    app.set({ block: step.place, value: key, head, ...same });
  }

  function groupOf(title, steps) {
    if (!steps.length) return null;
    return el("section", { "aria-label": title }, el("h3", {}, title), steps.map((step) => {
      const { key, shape } = weightsOf(step, app.state.side), off = headsOff(app, step);
      const layer = /\.layers\.\d+/.test(step.place) ? placeName(step.place)[1] : "";
      return el("div", { class: "head-row" }, el("span", { class: "muted small" }, layer),
        Array.from({ length: shape[1] }, (_, h) => thumbnail(step, key, shape, h, `${title}, ${layer}, ${t("head {n}", { n: h + 1 })}`, off.includes(h))));
    }));
  }

  function thumbnail(step, key, shape, h, label, isOff) {
    const canvas = el("canvas", { width: shape[3], height: shape[2] });
    const side = app.state.side, { live } = app.store;
    canvas.paint = async () => {
      try {
        paint(canvas, await fetchHead(key, h), side);
      } catch (error) {
        app.report(error);
      }
    };
    observer.observe(canvas);
    return el("button", { type: "button", class: `head-button${isOff ? " off" : ""}`, "aria-label": label, title: live ? `${label}: ${isOff ? t("switch it on") : t("switch it off")}` : label,
      "data-step": step.key, "data-head": h, ...(live ? { role: "switch", "aria-checked": String(!isOff) } : {}),
      onclick: () => (live ? toggle(step, h) : closer(step, key, h)) }, canvas, el("span", { class: "small" }, h + 1));
  }

  async function drawLarge(step, line, head, tensor) {
    const { side, entry } = app.state;
    const [queries, keys] = tokensOf(app.trace, step.place), written = writes(step.place);
    const at = entry?.key === line.key && entry.index[1] === head ? entry.index.slice(2) : null;
    const fresh = shown?.tensor !== tensor;
    shown = { tensor, queries, keys, side, at, written, select: (q, k) => app.set({ entry: { key: line.key, index: [0, head, q, k] } }) };
    title.textContent = `${placeName(step.place).join(" › ")} › ${t("head {n}", { n: head + 1 })}`;
    axes.textContent = written ? t("Rows: the token that is written. Columns: the token that is read.") : t("Rows: queries. Columns: keys.");
    if (fresh) {
      picture.style.inlineSize = `${Math.max(260, labelWidth(queries) + 34 * keys.length)}px`;
      const { least, most } = tensor;
      await map.show({ shape: line.shape.slice(2), values: tensor.values, rows: (i) => queries[i], columns: (i) => keys[i],
        label: `${side === "backward" ? t("Matrix of gradients") : t("Matrix of weights")}: ${title.textContent}`, limit: Math.max(-least, most) });
    }
    map.select(at);
    lines.replaceChildren(links(shown));
    below.replaceChildren(chosenWeight(app, step, head, shown), table(shown));
  }
}

/** Return the heads of an attention that are switched off. */
export function headsOff(app, step) {
  return (app.state.edits ?? []).filter((edit) => edit.kind === "head_off" && edit.step === step.key).map(({ head }) => head);
}

/** Return the head that attends most to a single token, at a word or in the mean over all. */
export function strongestHead(all, word, shape) {
  const n = shape[3];
  const rows = word === null || word === undefined || word >= shape[2] ? Array.from({ length: shape[2] }, (_, q) => q) : [word];
  const sums = all.map(({ values }) => rows.reduce((sum, q) => sum + Math.max(...values.subarray(q * n, (q + 1) * n)), 0));
  return sums.indexOf(Math.max(...sums));
}

/** Return the mean of a row over heads. */
export function meanRow(heads, q, n) {
  return Array.from({ length: n }, (_, k) => heads.reduce((sum, { values }) => sum + values[q * n + k] / heads.length, 0));
}

function topOf(row, names) {
  return row.map((value, k) => [value, names[k]]).sort((a, b) => Math.abs(b[0]) - Math.abs(a[0])).slice(0, 3).map(([value, name]) => `${name} ${number(value, 2)}`).join(", ");
}

/** Return the row of a head's picture under the pointer, null beside the cells. */
function rowAt(drawing, event) {
  const mark = drawing.querySelector(".row-mark"), box = drawing.getBoundingClientRect(), scale = box.height / Number(drawing.getAttribute("height"));
  const row = Math.floor(((event.clientY - box.top) / scale - Number(mark.dataset.top)) / Number(mark.dataset.cell));
  return row >= 0 ? row : null;
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
    "aria-label": t("Lines between tokens; the table below holds the same numbers"),
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
  const [row, column] = given.written ? [t("Writes"), t("Reads")] : [t("Query"), t("Key")];
  return `${name === "q" ? row : column} ${name === "q" ? queries[i] : keys[i]}: ${list.join(", ")}`;
}

function chosenWeight(app, step, head, given) {
  const { at, side } = given;
  if (!at) return el("p", { class: "muted small" }, t("Point at a weight; click to hold it and check its gradient."));
  const index = [0, head, ...at];
  const live = app.store.live;
  return el("p", { class: "chosen-weight" }, sentenceOf(given, ...at), " ",
    side === "forward" ? el("button", { type: "button", disabled: !live,
      onclick: () => app.set({ view: "edit", draft: { kind: "set_weight", step: step.key, index, asked: performance.now() } }) }, t("Change this weight")) : null,
    side === "forward" && !live ? el("span", { class: "muted small" }, " ", withCode(app.store.refusal)) : null);
}

function sentenceOf(given, q, k) {
  const { queries, keys, side, written } = given, name = side === "backward" ? t("gradient of the weight") : t("weight");
  return t(written ? "Writes {query} → reads {key}: {name} {value}" : "{query} → {key}: {name} {value}", { query: `${queries[q]} (${q + 1})`, key: `${keys[k]} (${k + 1})`, name, value: number(valueAt(given, q, k)) });
}

function table(given) {
  const { queries, keys } = given;
  const details = el("details", { ontoggle: () => {
    if (!details.open || details.querySelector("table")) return;
    details.append(el("div", { class: "scroll" }, el("table", {},
      el("thead", {}, el("tr", {}, el("th", { scope: "col" }, given.written ? t("writes \\ reads") : t("query \\ key")), keys.slice(0, TABLE).map((text) => el("th", { scope: "col" }, text)))),
      el("tbody", {}, queries.slice(0, TABLE).map((text, q) => el("tr", {}, el("th", { scope: "row" }, text),
        keys.slice(0, TABLE).map((_, k) => el("td", { class: "figures" }, number(valueAt(given, q, k), 3)))))))));
    if (Math.max(queries.length, keys.length) > TABLE) details.append(el("p", { class: "muted small" }, t("The first {n} rows and columns.", { n: TABLE })));
  } }, el("summary", {}, t("The same numbers as a table")));
  return details;
}

function labelWidth(tokens) {
  return 14 + 7.5 * Math.max(2, ...tokens.map((text) => shorten(text).length));
}

function shorten(text, most = 12) {
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}
