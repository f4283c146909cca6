// One block of the model: its inputs and output, its formula, the lines of its operation with their values, and the line
// of the model that calls it. With a layer or the whole model chosen: what each sub-layer adds to the residual stream.

import { picture as pictureOf } from "./colours.js";
import { breakable, el, formula, number, shapeText } from "./dom.js";
import { Heatmap } from "./heatmap.js";
import { constantKey } from "./keys.js";
import { names, placeName } from "./labels.js";
import { partsOf, partsPicture, splitProjections } from "./parts.js";
import { pictureSize } from "./store.js";
import { residualStream } from "./stream.js";
import { phrase, t } from "./words.js";

export function view(app, element) {
  let shown = null; // what the elements were built for
  let map = null;

  return async (changed) => {
    if (!app.trace) {
      element.replaceChildren(el("p", { class: "muted" }, app.loading ? t("Computing every tensor…") : t("Write a text to see its tensors.")));
      shown = null;
      return;
    }
    const step = chosenStep(app);
    const wanted = `${app.trace.id} ${step?.key ?? app.state.block} ${app.state.side}`;
    if (wanted !== shown) {
      shown = wanted;
      map = null;
      if (step) map = await build(app, element, step);
      else overview(app, element);
    }
    if (map && step) await map.update(changed);
  };
}

/** Return the step that is chosen: the last one of a place, unless the choice names one; null for a layer or the model. */
function chosenStep(app) {
  const { block } = app.state;
  if (block.includes("/")) return app.step(block) ?? null;
  const parameter = app.trace.parameters.find((one) => one.key === block);
  if (parameter) return app.trace.steps.find((step) => step.inputs.some((input) => input.key === block)) ?? null;
  if (!block || /^(encoder|decoder)(\.layers\.\d+)?$/.test(block)) return null;
  const steps = app.stepsAt(block, true);
  return (block.endsWith("_embedding") ? steps[0] : steps.at(-1)) ?? null; // the sum with the positions has a circle of its own
}

/** Return the steps among which one chooses at a place: those of the place and of the parts inside it. */
function siblings(app, step) {
  const { block } = app.state;
  const place = block && !block.includes("/") && app.stepsAt(block, true).length ? block : step.place.replace(/\.layer_norm$/, "");
  const steps = place ? app.stepsAt(place, true) : app.stepsAt("");
  return steps.includes(step) ? steps : [step];
}

async function build(app, element, step) {
  const backward = app.state.side === "backward";
  const [sources, formulas] = await Promise.all([app.guard(app.store.sources()), app.guard(app.store.formulas())]);
  const all = valuesOf(app, step, backward), values = app.store.leftOut ? all : splitProjections(all, backward); // a file may hold no more than its first columns
  const viewer = el("div", { class: "viewer" });
  const heading = el("h3", { class: "viewer-name" }), numbers = el("dl", { class: "stats figures" });
  viewer.append(el("div", { class: "viewer-head" }, heading, numbers));
  const map = new Heatmap(app, viewer, { onSelect: (index) => app.set({ entry: { key: current.key, index } }) });
  const further = el("button", { type: "button", class: "link further", hidden: true,
    onclick: () => document.getElementById("entry").scrollIntoView({ block: "nearest" }) }, t("See its gradient and its central difference"));
  viewer.append(further);
  let current = null, picked = null; // several names may stand for one array, so a key alone does not say which
  const choose = (value) => {
    picked = value;
    if (app.state.value === value.key) update(new Set()).catch((error) => app.report(error));
    else app.set({ value: value.key });
  };
  const parts = partsOf(values, backward), shownParts = new Set(Object.values(parts ?? {}));
  const picture = el("div", { class: "parts-frame", hidden: !parts });
  const tiles = tilesOf(app, parts ? values.filter((value) => value.role !== "inner" && !shownParts.has(value)) : values, choose);
  let drawing = null;
  const drawParts = () => {
    const { clientWidth: width } = picture;
    if (!parts || !width || drawing?.width === width) return;
    drawing = { width, ...partsPicture(parts, width, choose) };
    picture.replaceChildren(drawing.element);
    drawing.show(current);
  };
  new ResizeObserver(drawParts).observe(picture);
  const formulaBox = el("div", { class: "formula", tabindex: 0 }), letters = el("p", { class: "small muted" }),
    formulaSection = el("section", { "aria-label": t("Formula") }, el("h3", {}, backward ? t("Gradient") : t("Formula")), formulaBox, letters);
  const showFormula = (operation) => {
    const name = formulaName(app, step, operation), part = formulas[name]?.[backward ? "backward" : "forward"];
    formulaSection.hidden = !part;
    formulaBox.replaceChildren(...(part ? formula(part, element.clientWidth < 480) : []));
    letters.textContent = [
      part?.includes("¯") && t("A bar marks a gradient: x̄ is d_x, ȳ is d_output."),
      ...Object.entries(LETTERS[name] ?? {}).map(([letter, says]) => part?.includes(`>${letter}<`) && says()),
      // A rule calls its inputs x and y; the derivations call its output y.
      step.inputs[1]?.name === "y" && operation === step.operation && />z</.test(part ?? "") && t("The output is y here; the second input, which the source calls y, is z."),
    ].filter(Boolean).join(" ");
  };
  const code = codeOf(step, sources, values, backward, choose, showFormula);
  element.replaceChildren(
    header(app, step),
    el("div", { class: "block-columns" },
      el("div", { class: "block-main" }, picture, tiles.element, viewer),
      el("div", { class: "block-side" },
        formulaSection,
        code.element, modelLine(step))));

  async function update(changed) {
    const named = values.filter((value) => value.key === app.state.value);
    const { entry } = app.state, holds = ({ first, shape }) => first === undefined || (entry?.index[1] >= first && entry.index[1] < first + shape[1]);
    const chosen = (named.includes(picked) ? picked : named.find((value) => value.key === entry?.key && holds(value)) ?? named[0]) ?? values.find((value) => value.source === app.state.block) ?? values.find((value) => value.main) ?? values[0];
    if (!chosen) return;
    const isNew = chosen !== current;
    current = chosen;
    tiles.show(chosen);
    drawParts();
    drawing?.show(chosen);
    code.show(chosen);
    if (isNew) {
      heading.replaceChildren(el("code", {}, chosen.name), " ", el("span", { class: "muted" }, shapeText(chosen.shape)),
        origin(app, chosen), chosen.note ? el("span", { class: "note" }, chosen.note) : "");
      numbers.replaceChildren(...stats(chosen.stat));
      const [rows, columns] = names(app, chosen.key, chosen.shape);
      await map.show({ key: chosen.key, shape: chosen.shape, label: chosen.name, rows, columns, first: chosen.first });
      if (chosen !== current) return;
      const size = pictureSize(chosen.shape), parts = [0, 1].map((axis) => {
        const n = map.part?.[axis].length ?? size[axis];
        return n >= size[axis] ? "" : t(axis ? "{n} of {all} columns" : "{n} of {all} rows", { n, all: size[axis] });
      });
      if (map.part) heading.append(el("span", { class: "note" }, t("in this file: {parts}", { parts: parts.filter(Boolean).join(t(" and ")) })));
    }
    tiles.draw();
    if (isNew || changed.has("entry")) {
      map.select(entry?.key === chosen.key ? entry.index : null);
      if (isNew && !entry && chosen.shape.length === 4 && app.state.head !== null) map.turnTo([0, app.state.head]);
      further.hidden = entry?.key !== chosen.key;
    }
  }
  return { update };
}

const SCALE = { "τ": () => t("τ is the scale of the scores, 1 / √D for keys of D entries.") };
const NOT_ZERO = { "ε": () => t("ε is a small number that keeps the divisor above 0.") };
/** What letters stand for that no equation of an operation defines. */
const LETTERS = {
  scaled_dot_product_attention: SCALE,
  multi_head_attention: SCALE,
  layer_norm: NOT_ZERO,
  rms_norm: NOT_ZERO,
  cross_entropy: {
    "ε": () => t("ε is the label smoothing."),
    "δ": () => t("δ is 1 at the target, and 0 elsewhere."),
    "χ": () => t("χ is 1 for a target that counts, and 0 for padding."),
  },
  dropout: {
    "η": () => t("η is the probability of dropping an entry, times 65,536."),
    "χ": () => t("χ is 1 for an entry that is kept, and 0 for one that is dropped."),
    "ρ": () => t("ρ is the residual that is added, if there is one."),
  },
  masking: { "χ": () => t("χ is the mask as numbers: 1 where it is true, else 0.") },
  low_rank_linear: { "α": () => t("α is the scale of the change, and r its rank.") },
  silu: { "β": () => t("β is how steep the sigmoid is.") },
  where: { "χ": () => t("χ is 1 where the condition is true, else 0.") },
  transpose: { "π": () => t("π is the new order of the axes.") },
};

/** Return under which name the formula of an operation is stored: that of its place, where the place has one. */
function formulaName(app, { place, operation: own }, operation) {
  if (operation === own && own === "add" && /residual\d+$/.test(place)) return "residual";
  // Embeddings are scaled, and positions added, in two steps with one formula, unless the model leaves one of them out.
  const both = ["multiply", "add"], steps = app.stepsAt(place).map((step) => step.operation);
  const placed = place.endsWith("_embedding") && both.includes(own) && both.every((name) => steps.includes(name));
  return operation === own && placed ? "scale_and_place" : operation;
}

/** Return all values that can be looked at: inputs, what each line computes, the output. */
function valuesOf(app, step, backward) {
  const mark = backward ? "d:" : "";
  const stat = (key) => {
    const found = app.step(key) ?? app.trace.parameters.find((one) => one.key === key);
    return backward ? found?.gradient : found?.value;
  };
  const constant = ({ key, name }) => (key || backward ? null : step.forward.find((line) => line.key === constantKey(step, name)));
  const inputs = step.inputs.filter((input) => (input.key ? !backward || stat(input.key) : constant(input))).map((input) => (input.key ? {
    key: mark + input.key, name: (backward ? "d_" : "") + input.name, shape: input.shape, stat: stat(input.key), role: "input",
    parameter: !input.key.includes("/"), source: input.key,
    note: backward && uses(app, input.key) > 1 ? t("the sum over its {n} uses", { n: uses(app, input.key) }) : null,
  } : { ...constant(input), role: "input", constant: true, note: t("a constant: it has no gradient") }));
  const inner = (backward ? step.backward : step.forward).map((line) => ({ ...line, role: "inner" }));
  // A loss is one number: its probabilities come first.
  const probabilities = !backward && !step.shape.length && inner.find((value) => value.function === "cross_entropy" && value.name === "p");
  if (probabilities) probabilities.main = true;
  const output = (backward ? step.gradient : step.value) && {
    key: mark + step.key, name: backward ? "d_output" : "output", shape: step.shape, stat: backward ? step.gradient : step.value,
    role: "output", main: step.shape.length > 0 || backward || !probabilities, note: backward && uses(app, step.key) > 1 ? t("the sum over its {n} uses", { n: uses(app, step.key) }) : null,
  };
  return [...inputs, ...inner, output].filter(Boolean);
}

/** Return a link to the step that has computed an input. */
function origin(app, { role, source }) {
  if (role !== "input" || !app.step(source)) return "";
  return el("span", { class: "note" }, phrase("from {step}", { step: el("button", { type: "button", class: "link", onclick: () => app.set({ block: source, value: null }) }, breakable(source)) }));
}

function uses(app, key) {
  return app.trace.walk.find((visit) => visit.key === key)?.parts.length ?? 0;
}

function header(app, step) {
  const words = placeName(step.place), steps = siblings(app, step);
  const title = el("h2", {}, words.at(-1)[0].toUpperCase() + words.at(-1).slice(1));
  const options = Object.entries(step.options ?? {}).map(([name, value]) => [" · ", el("code", {}, `${name} = ${typeof value === "number" ? number(value) : value === true ? "True" : value === false ? "False" : value}`)]);
  const path = el("p", { class: "path small muted" }, words.slice(0, -1).map((word) => `${word} · `), el("code", {}, breakable(step.key)), options);
  const choice = steps.length > 1 && el("div", { class: "segmented steps", role: "group", "aria-label": t("Operations of this block") },
    steps.map((one) => el("button", {
      type: "button", "aria-pressed": String(one === step), onclick: () => app.set({ block: one.key, value: null }),
    }, one.operation.replaceAll("_", " "))));
  return el("div", { class: "block-head" }, el("div", {}, title, path), choice);
}

/** Return small pictures of inputs and output, in the order in which data flow. */
function tilesOf(app, values, choose) {
  const outer = values.filter((value) => value.role !== "inner");
  const tiles = outer.map((value) => {
    const canvas = el("canvas", { class: "tile-picture", width: 96, height: 30, "aria-hidden": "true" });
    const button = el("button", { type: "button", class: `tile ${value.role}`, onclick: () => choose(value) },
      el("span", { class: "tile-name" }, el("code", {}, value.name), value.parameter ? el("span", { class: "mark", title: t("a parameter of the model") }, t("param.")) : "",
        value.constant ? el("span", { class: "mark", title: t("a constant: it has no gradient") }, t("const.")) : ""),
      canvas,
      el("span", { class: "tile-shape figures" }, shapeText(value.shape)),
      value.stat && el("span", { class: "tile-shape figures" }, value.shape.length
        ? `${number(value.stat.mean, 2)} ± ${number(value.stat.spread, 2)}` : number(value.stat.mean)));
    return { value, canvas, button };
  });
  const arrow = () => el("span", { class: "flow", "aria-hidden": "true" });
  const inputs = tiles.filter((tile) => tile.value.role === "input"), output = tiles.filter((tile) => tile.value.role === "output");
  const element = el("div", { class: "tiles", role: "group", "aria-label": t("Inputs and output"), hidden: !tiles.length },
    inputs.map((tile) => tile.button), inputs.length && output.length ? arrow() : "", output.map((tile) => tile.button));
  const thumbnails = () => tiles.map(async ({ value, canvas }) => {
    const [rows, columns] = pictureSize(value.shape), size = [Math.min(rows, 30), Math.min(columns, 96)];
    const part = await app.tensor(value.key, { at: value.shape.slice(0, -2).map(() => 0), rows: [0, size[0]], columns: [0, size[1]], held: true });
    const image = pictureOf(part, Math.max(Math.abs(part.least), Math.abs(part.most)));
    Object.assign(canvas, { width: image.width, height: image.height });
    if (image.width && image.height) canvas.getContext("2d").drawImage(image, 0, 0);
  });
  let drawn = null;
  return {
    element,
    draw: () => {
      const theme = document.documentElement.dataset.theme;
      if (drawn !== theme) for (const one of thumbnails()) one.catch((error) => app.report(error));
      drawn = theme;
    },
    show: (chosen) => {
      for (const { value, button } of tiles) button.setAttribute("aria-pressed", String(value === chosen));
    },
  };
}

/** Return the lines of the operation, and of the operations that it calls, each with the values that it computes. */
function codeOf(step, sources, values, backward, choose, onOpen) {
  const inner = values.filter((value) => value.role === "inner");
  const functions = [...new Set([step.operation, ...inner.map((value) => value.function)])]
    .map((name) => ({ name, source: sourceOf(sources, name, backward) })).filter((one) => one.source);
  const list = el("ol", { class: "code", "aria-label": t("Source") });
  const file = el("p", { class: "small muted" });
  const tabs = el("div", { class: "segmented steps", role: "group", "aria-label": t("Functions"), hidden: functions.length < 2 });
  const element = functions.length ? el("section", { class: "source" }, el("h3", {}, backward ? t("Source of backward") : t("Source of forward")), tabs, list, file) : el("div");
  let front = null, rows = new Map();
  onOpen(step.operation);

  function open(one) {
    front = one;
    onOpen(one.name);
    const { source } = one;
    file.textContent = t("{file}, line {n}", { file: source.file, n: source.first });
    tabs.replaceChildren(...functions.map((other) => el("button", {
      type: "button", "aria-pressed": String(other === front), onclick: () => { open(other); light(null); },
    }, other.name)));
    rows = new Map();
    list.replaceChildren(...withoutDocstring(source).map(({ number: n, text, gap }) => {
      const own = inner.filter((value) => value.function === one.name && value.line === n);
      const chips = own.map((value) => {
        const chip = el("button", { type: "button", class: "chip", title: shapeText(value.shape), onclick: () => choose(value) }, value.name);
        rows.set(value, { chip });
        return chip;
      });
      const row = el("li", { class: own.length ? "has-values" : gap ? "gap" : null, value: n, "data-line": n }, el("span", { class: "line-number", "aria-hidden": "true" }, gap ? "" : n),
        codeLine(text), chips.length ? el("span", { class: "chips" }, chips) : "");
      if (own.length) row.addEventListener("click", (event) => { if (!event.target.closest(".chip")) choose(own.at(-1)); });
      for (const value of own) rows.get(value).row = row;
      return row;
    }));
  }

  /** Light the line that computes a value; another name of the same array keeps its own line. */
  function light(chosen) {
    for (const row of list.children) row.classList.remove("lit");
    for (const [value, { row, chip }] of rows) {
      chip.setAttribute("aria-pressed", String(value === chosen));
      if (value === chosen) row.classList.add("lit");
    }
    const row = rows.get(chosen)?.row;
    if (row) list.scrollTop += Math.min(row.offsetTop - list.scrollTop - 8, 0) || Math.max(row.offsetTop + row.offsetHeight - list.scrollTop - list.clientHeight + 8, 0);
  }

  return {
    element,
    show: (chosen) => {
      const one = functions.find(({ name }) => name === chosen.function) ?? (front ?? functions[0]);
      if (!one) return;
      if (one !== front) open(one);
      // The output is what the last line of forward that binds a value of its shape computes.
      const same = chosen.role === "output" && !backward
        ? inner.findLast((value) => value.function === step.operation && String(value.shape) === String(step.shape)) : chosen;
      light(same);
    },
  };
}

function sourceOf(sources, name, backward) {
  const part = backward ? "backward" : "forward";
  return sources[`${name}.${part}`] ?? sources[name]?.[part] ?? sources[name] ?? null;
}

/** Return the lines of a function with their numbers; its docstring, which the derivations hold too, becomes one line. */
function withoutDocstring({ first, lines }) {
  const result = [];
  let inside = false, done = false;
  lines.forEach((text, i) => {
    const quotes = text.split('"""').length - 1;
    if (!done && !inside && quotes && text.trim().startsWith('"""')) {
      result.push({ number: first + i, text: quotes > 1 ? text : `${text.trimEnd()} …"""`, gap: false });
      inside = quotes === 1;
      done = quotes > 1;
    } else if (inside) {
      if (quotes) [inside, done] = [false, true];
    } else result.push({ number: first + i, text });
  });
  while (result.length && !result.at(-1).text.trim()) result.pop();
  const indents = result.filter(({ text }) => text.trim()).map(({ text }) => text.length - text.trimStart().length);
  const least = Math.min(...indents);
  return result.map((line) => ({ ...line, text: line.text.slice(least) }));
}

const TOKEN = /(#.*$)|("""[^]*$|"[^"]*"|'[^']*')|\b(def|return|if|else|elif|for|in|is|not|and|or|None|True|False|lambda|with|raise|import|from|as|assert|while|try|except)\b|(\b\d[\d.e-]*\b)/g;

/** Return a line of Python; where it is too long, it goes on four columns behind its indentation. */
function codeLine(text) {
  const indent = text.length - text.trimStart().length, hang = `${indent + 4}ch`;
  const plain = text.slice(0, indent) + text.slice(indent).replace(/ {3,}/g, "  ");
  return el("code", { class: "text", style: `padding-left: ${hang}; text-indent: -${hang}` }, ...coloured(plain));
}

/** Return a line of Python as spans: comments, strings, keywords and numbers. */
function coloured(text) {
  const parts = [];
  let at = 0;
  for (const match of text.matchAll(TOKEN)) {
    parts.push(text.slice(at, match.index));
    parts.push(el("span", { class: ["comment", "string", "keyword", "digits"][match.slice(1).findIndex((x) => x !== undefined)] }, match[0]));
    at = match.index + match[0].length;
  }
  return [...parts, text.slice(at)].filter((part) => part !== "");
}

function modelLine({ model_line: line }) {
  if (!line) return "";
  return el("section", { class: "source" }, el("h3", {}, t("Called in the model")),
    el("ol", { class: "code" }, el("li", { class: "lit", value: line.line }, el("span", { class: "line-number", "aria-hidden": "true" }, line.line), codeLine(line.text.trim()))),
    el("p", { class: "small muted" }, t("{file}, line {n}", { file: line.file, n: line.line })));
}

function stats(stat) {
  if (!stat) return [];
  return [[t("mean"), stat.mean], [t("spread"), stat.spread], [t("least"), stat.least], [t("most"), stat.most], [t("norm|of a tensor"), stat.norm]]
    .map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, number(value, 3))));
}

function overview(app, element) {
  const { block } = app.state;
  const words = placeName(block), title = words.at(-1)[0].toUpperCase() + words.at(-1).slice(1);
  const list = app.stepsAt(block, true).filter((step) => block || !step.place.includes(".") || step.place);
  element.replaceChildren(
    el("div", { class: "block-head" }, el("div", {}, el("h2", {}, block ? title : t("Residual stream")),
      el("p", { class: "path small muted" }, block ? [words.slice(0, -1).map((word) => `${word} · `), el("code", {}, block)]
        : t("What each sub-layer adds to its input. Choose a block in the model to look inside.")))),
    residualStream(app, block),
    el("details", {}, el("summary", { class: "small" }, t("All {n} operations", { n: list.length })),
      el("div", { class: "scroll" }, el("table", { class: "table figures" },
        el("thead", {}, el("tr", {}, [t("place"), t("operation"), t("shape"), t("norm|of a tensor"), t("norm of gradient")].map((text) => el("th", { scope: "col" }, text)))),
        el("tbody", {}, list.map((step) => el("tr", {},
          el("td", {}, el("button", { type: "button", class: "link", onclick: () => app.set({ block: step.key, value: null }) }, step.place || t("(model)"))),
          el("td", {}, step.operation), el("td", {}, shapeText(step.shape)), el("td", {}, number(step.value?.norm, 3)), el("td", {}, number(step.gradient?.norm, 3)))))))));
}
