// The model as a picture after Figure 1 of the paper, drawn from the model's places and options: the encoder on the left,
// the decoder on the right, or a decoder alone, read from the bottom up; backward, every arrow turns round.

import { el, number, shapeText, svg } from "./dom.js";
import { weightsName } from "./labels.js";
import { t } from "./words.js";

const WIDEST = 560, SMALLEST = 0.75, FOLDED = 20; // the last: how high a layer is that is not drawn
/** Heights and distances: as they are, and where the window is too low for them. */
const ROOMY = { block: 40, norm: 38, gap: 22, frame: 12, fork: 10, enter: 16, leave: 12, next: 4, label: 14 };
const TIGHT = { block: 31, norm: 18, gap: 12, frame: 6, fork: 6, enter: 12, leave: 8, next: 3, label: 16 };

const NORMS = { post: "post-norm", pre: "pre-norm", rms: "RMSNorm" };
/** Positions that are not added to the embeddings, but enter self-attention. */
const INSIDE = { rotary: t("rotary positions"), alibi: "ALiBi" };

export function view(app, element) {
  const drawing = svg("svg", { class: "drawing", role: "group", "aria-label": t("The model's blocks. Arrow keys move, Enter chooses.") });
  const caption = el("p", { class: "small muted" });
  element.append(el("div", { class: "figure-head" }, el("h2", {}, t("Model")), caption), drawing);
  let blocks = [], wires = [], width = 0, flowed = null, folds = false;

  drawing.addEventListener("keydown", (event) => {
    const at = blocks.findIndex((block) => block.element === document.activeElement);
    const next = at >= 0 && neighbour(blocks, blocks[at], event.key);
    if (next) focus(next);
    else if (at >= 0 && (event.key === "Enter" || event.key === " ")) choose(blocks[at]);
    else return;
    event.preventDefault();
  });

  function focus(block) {
    for (const other of blocks) other.element.setAttribute("tabindex", other === block ? 0 : -1);
    block.element.focus();
  }

  function choose(block) {
    app.set({ block: block.place, value: null, ...(["walk", "attention"].includes(app.state.view) ? { view: "block" } : {}) });
    const detail = document.querySelector(".detail");
    if (detail.offsetTop > element.offsetTop + element.offsetHeight - 1) detail.scrollIntoView({ block: "start" }); // one column
  }

  function build() {
    describe(); // it takes room from the drawing
    const { paddingLeft, paddingTop } = getComputedStyle(element), room = roomFor(element, parseFloat(paddingTop), drawing);
    width = Math.max(element.clientWidth - 2 * parseFloat(paddingLeft), 240);
    const most = Math.min(width, WIDEST);
    let plan = layOut(app, most, ROOMY), scale = 1;
    folds = false;
    if (plan.height > room) {
      folds = layOut(app, most, TIGHT).height * SMALLEST > room; // then of each stack one layer is drawn in full
      const sizes = { ...TIGHT, folds };
      scale = Math.min(Math.max(room / layOut(app, most, sizes).height, SMALLEST), 1);
      plan = layOut(app, most / scale, sizes);
    }
    drawing.classList.toggle("narrow", plan.blocks[0].width < 120);
    const focused = blocks.find((block) => block.element === document.activeElement)?.place;
    drawing.setAttribute("width", plan.width * scale);
    drawing.setAttribute("height", plan.height * scale);
    drawing.setAttribute("viewBox", `0 0 ${plan.width} ${plan.height}`);
    ({ blocks, wires } = plan);
    for (const block of blocks) drawBlock(block, () => choose(block));
    drawing.replaceChildren(markers(), ...plan.frames.map(drawFrame), ...wires.map(drawWire), ...blocks.map((block) => block.element));
    show();
    if (focused !== undefined) focus(blocks.find((block) => block.place === focused) ?? blocks[0]);
  }

  /** Let values flow up and gradients down through the drawing, once for each text. */
  function flow() {
    if (flowed === app.state.text || !app.trace) return;
    flowed = app.state.text;
    if (matchMedia("(prefers-reduced-motion: reduce)").matches) return;
    const [, , , height] = drawing.getAttribute("viewBox").split(" ").map(Number);
    const pulses = svg("g", { "aria-hidden": "true" }, wires.filter(({ constant }) => !constant).flatMap(({ points }) => {
      const up = 1 - points[0][1] / height, down = points.at(-1)[1] / height;
      return [["up", up], ["down", 1.3 + down]].map(([kind, at]) => svg("path", { class: `pulse ${kind}`, pathLength: 100, d: rounded(points), style: `--at: ${at.toFixed(3)}` }));
    }));
    drawing.insertBefore(pulses, blocks[0].element);
    setTimeout(() => pulses.remove(), 6000);
  }

  function describe() {
    const { options, parameters } = app.model;
    caption.textContent = [t("{n} parameters", { n: parameters.toLocaleString("en") }), NORMS[options.norm], headsOf(options), INSIDE[options.positions], weightsName(app)].filter(Boolean).join(" · ");
  }

  /** Show shapes or gradients, what is chosen, and how far the walk has come; nothing moves. */
  function show() {
    describe();
    const backward = app.state.side === "backward";
    const chosen = blockOf(blocks, app.state.block);
    const walked = app.state.view === "walk" && app.trace ? reached(app, blocks) : null;
    const most = Math.max(...blocks.map((block) => lastStep(app, block)).map((step) => (step?.shape.length && step.gradient?.norm) || 0)) || 1;
    for (const block of blocks) {
      const step = lastStep(app, block), norm = step?.gradient?.norm;
      const marks = marksOf(app, blocks, block);
      block.detail.textContent = marks.text ?? detail(app, block, step, backward);
      block.element.classList.toggle("off", marks.off);
      block.element.classList.toggle("changed", marks.changed);
      block.bar.setAttribute("width", backward && norm && step.shape.length ? Math.max((block.width - 16) * norm / most, 1) : 0);
      block.element.classList.toggle("chosen", block === chosen && !walked);
      block.element.setAttribute("aria-pressed", String(block === chosen));
      block.element.setAttribute("aria-label", `${block.where}${block.name}, ${spoken(block.detail.textContent)}`);
      block.element.classList.toggle("waiting", walked !== null && !walked.includes(block) && !block.layer);
      block.element.classList.toggle("current", walked !== null && walked.at(-1) === block);
    }
    const front = chosen ?? blocks[0];
    for (const block of blocks) block.element.setAttribute("tabindex", block === front ? 0 : -1);
  }

  let high = globalThis.innerHeight;
  globalThis.addEventListener?.("resize", () => {
    if (app.model && Math.abs(innerHeight - high) > 40) build();
    high = innerHeight;
  });
  new ResizeObserver(() => {
    if (app.model && Math.abs(element.clientWidth - 2 * parseFloat(getComputedStyle(element).paddingLeft) - width) > 2) build();
  }).observe(element);

  return (changed) => {
    const hidden = folds && blockOf(blocks, app.state.block)?.folded; // what is chosen lies in a layer that is not drawn
    if (!blocks.length || changed.has("model") || changed.has("trace") || hidden) build();
    else show();
    if (changed.has("trace")) flow();
    if (app.state.view === "walk") reveal(element, app.trace && reached(app, blocks).at(-1));
    else if (changed.has("block") || changed.has("trace")) reveal(element, blockOf(blocks, app.state.block));
  };
}

/** Return how high the drawing may be so that it fits the window: without a limit where it is no column of its own. */
function roomFor(element, padding, drawing) {
  if (!matchMedia("(min-width: 68rem)").matches) return Infinity;
  const bar = 68, below = 16, head = drawing.getBoundingClientRect().top - element.getBoundingClientRect().top + element.scrollTop;
  return (globalThis.innerHeight ?? Infinity) - bar - below - Math.max(head, padding) - padding - 2;
}

/** Return what the changes in force do to a block: {off, changed, text}. */
function marksOf(app, blocks, block) {
  const inside = (place) => `${block.place}.`.startsWith(`${place}.`);
  const edits = app.state.edits ?? [], off = edits.some(({ kind, place }) => (kind === "sublayer_off" || kind === "layer_off") && inside(place));
  const own = edits.filter(({ key, step }) => (key ?? step) !== undefined && blockOf(blocks, key ?? step) === block);
  const heads = own.filter(({ kind }) => kind === "head_off").map(({ head }) => head + 1).sort((a, b) => a - b);
  const all = heads.length > 0 && heads.length === app.model.options.n_heads;
  const text = off ? t("off") : all ? t("all heads off") : heads.length ? t(heads.length > 1 ? "heads {list} off" : "head {list} off", { list: heads.join(", ") }) : own.length ? t("changed") : null;
  return { off: off || all, changed: own.length > 0 || off, text: block.layer ? null : text };
}

/** Return the block that shows a place, a step or a parameter. */
function blockOf(blocks, key) {
  if (!key) return null;
  const exact = blocks.find((block) => block.place === key);
  if (exact) return exact;
  const place = key.includes("/") ? key.slice(0, key.indexOf("/")) : key;
  const around = blocks.filter((block) => block.place && !block.place.includes("/") && !block.layer
    && (place === block.place || place.startsWith(`${block.place}.`)));
  return around.find((block) => block.steps?.includes(key)) ?? around.sort((a, b) => b.place.length - a.place.length)[0] ?? null;
}

/** Return the blocks that the walk has come to, the current one last. */
function reached(app, blocks) {
  const order = app.state.side === "backward" ? app.trace.walk : app.trace.steps;
  return order.slice(0, app.state.walk + 1).map(({ key }) => blockOf(blocks, key)).filter((block, i, all) => block || i === all.length - 1);
}

function reveal(element, block) {
  if (!block || element.scrollHeight <= element.clientHeight + 1) return;
  const box = block.element.getBoundingClientRect(), frame = element.getBoundingClientRect();
  if (box.top < frame.top || box.bottom > frame.bottom) element.scrollBy({ top: box.top - frame.top - frame.height / 2 });
}

/** Return the step whose output a block hands on. */
function lastStep(app, block) {
  if (block.layer) return undefined;
  if (block.place.includes("/")) return app.step(block.place);
  return app.stepsAt(block.place, true).at(block.kind === "embed" ? 0 : -1);
}

function detail(app, block, step, backward) {
  if (block.text) return block.text;
  if (!step) return block.layer ? "" : "…";
  if (!backward) return step.shape.length ? shapeText(step.shape) : number(step.value?.mean, 4);
  return step.gradient ? `‖d‖ ${number(step.gradient.norm, 3)}` : t("no gradient");
}

function spoken(text) {
  return text.replaceAll(" × ", t(" by ")).replace("‖d‖", t("norm of the gradient"));
}

/** Return blocks, wires and frames with their places in the picture. */
function layOut(app, most, sizes) {
  const HEIGHT = sizes.block, GAP = sizes.gap;
  const names = ["encoder", "decoder"].filter((name) => app.model.places.some(({ place }) => place === name));
  const alone = names.length === 1, width = alone ? Math.min(most, WIDEST / 2) : most;
  const middle = alone ? 0 : Math.max(Math.min(width * 0.1, 44), 26);
  const column = alone ? width : (width - middle) / 2;
  const rail = Math.max(Math.min(column * 0.1, 22), 13); // where residual connections run
  const inner = column - 2 * rail;
  const sides = {
    encoder: { x: rail, rail: rail / 2 + 1, turn: 1 },
    decoder: { x: width - column + rail, rail: width - rail / 2 - 1, turn: -1 },
  };
  const plan = { blocks: [], wires: [], frames: [], width, height: 0 };
  // Heights are measured from the bottom and turned over at the end.
  const tops = {};
  for (const name of names) {
    tops[name] = stack(app, plan, name, sizes, { title: name === "encoder" ? t("Source|sentence") : alone ? t("Text") : t("Target|sentence"), ...sides[name], width: inner, outer: [sides[name].x - rail, column] });
  }
  const memory = tops.encoder;
  const gutter = column + middle / 2;
  const readers = plan.blocks.filter((block) => block.place.endsWith("cross_attention"));
  if (readers.length) {
    const centre = sides.encoder.x + inner / 2;
    plan.wires.push({ points: [[centre, memory.y], [centre, memory.y + 16], [gutter, memory.y + 16]], plain: true, memory: true });
    const reach = [memory.y + 16, ...readers.flatMap((block) => [block.y + HEIGHT / 2 - 7, block.y + HEIGHT / 2 + 7])];
    plan.wires.push({ points: [[gutter, Math.min(...reach)], [gutter, Math.max(...reach)]], plain: true, memory: true });
    for (const block of readers) {
      for (const offset of [-7, 7]) {
        const y = block.y + HEIGHT / 2 + offset;
        plan.wires.push({ points: [[gutter, y], [block.x, y]], memory: true });
      }
    }
  }
  // Above the decoder: what the model itself does with the decoder's output.
  let { y } = tops.decoder;
  const { x } = sides.decoder, centre = x + inner / 2;
  // A step that reads parameters alone, such as the transposed table, is no station of the data.
  const own = app.trace ? app.stepsAt("").filter((step) => step.inputs.some((input) => input.key?.includes("/"))) : [];
  const heads = own.length ? own.map((step) => ({ place: step.key, name: headName(step), from: step.inputs.map(({ key }) => key) }))
    : [{ place: "/linear", name: t("Linear"), from: [] }];
  // What reads the same value stands side by side, such as the two tokens of a difference.
  const depth = new Map(), centres = new Map();
  for (const { place, from } of heads) depth.set(place, Math.max(0, ...from.map((key) => depth.get(key) ?? 0)) + 1);
  for (const [, row] of Map.groupBy(heads, ({ place }) => depth.get(place))) {
    const wide = (inner - 8 * (row.length - 1)) / row.length;
    row.forEach(({ place, name, from }, i) => {
      const left = x + i * (wide + 8), middle = left + wide / 2;
      const starts = from.filter((key) => centres.has(key)).map((key) => centres.get(key));
      for (const start of starts.length ? starts : [centre]) {
        plan.wires.push({ points: start === middle ? [[start, y], [start, y + GAP]] : [[start, y], [start, y + GAP / 2], [middle, y + GAP / 2], [middle, y + GAP]] });
      }
      centres.set(place, middle);
      plan.blocks.push({ place, name, where: "", kind: "output", x: left, y: y + GAP, width: wide, height: HEIGHT, side: "decoder" });
    });
    y += GAP + HEIGHT;
  }
  plan.height = Math.max(y, (memory?.y ?? 0) + 20) + 10;
  for (const block of plan.blocks) block.y = plan.height - block.y - block.height;
  for (const wire of plan.wires) wire.points = wire.points.map(([px, py]) => [px, plan.height - py]);
  for (const frame of plan.frames) frame.y = plan.height - frame.y - frame.height;
  return plan;
}

function headsOf({ n_heads: n, n_kv_heads: shared }) {
  return shared && shared !== n ? t("{n} heads, {shared} of keys and values", { n, shared }) : t("{n} heads", { n });
}

function headName({ key, operation }) {
  const names = { linear: t("Linear"), cross_entropy: t("Softmax, loss"), log_softmax: t("Log-softmax"), index: t("Pick position"), subtract: t("Difference"), mean: t("Mean"), sum: t("Sum") };
  return key.startsWith("/index.") ? t("Token") : names[operation] ?? operation;
}

/** Add an embedding and its stack of layers; return the height that is reached. */
function stack(app, plan, name, sizes, { title, x, rail, turn, width, outer }) {
  const { options, places } = app.model, { block: HEIGHT, norm: NORM_HEIGHT, gap: GAP, frame: FRAME, fork: FORK, enter: ENTER } = sizes;
  const known = new Set(places.map((one) => one.place));
  const centre = x + width / 2;
  const embedding = name === "encoder" ? "source_embedding" : "target_embedding";
  const tokens = name === "encoder" ? app.trace?.source : app.trace?.target_in;
  const add = (block) => plan.blocks.push({ side: name, where: "", ...block });
  let y = 18;
  plan.frames.push({ label: tokens ? t("{title}, {n} tokens", { title, n: tokens.length }) : title, x: centre, y: 0, height: 16, textOnly: true });
  plan.wires.push({ points: [[centre, y], [centre, y + ENTER]] });
  y += ENTER;
  add({ place: embedding, name: t("Embedding"), where: `${title} `, kind: "embed", x, y, width, height: HEIGHT });
  y += HEIGHT;
  plan.wires.push({ points: [[centre, y], [centre, y + ENTER]] });
  y += ENTER;
  if (!(options.positions in INSIDE)) { // positions come in from the outside
    const size = 24;
    const positions = app.trace?.steps.filter((step) => step.place === embedding).at(-1)?.key ?? `${embedding}/add`;
    plan.wires.push({ points: [[turn > 0 ? x + 22 : x + width - 22, y + size / 2], [centre - turn * size / 2, y + size / 2]], wave: true, constant: options.positions === "sinusoidal" });
    add({ place: positions, name: t("Positions"), where: `${title} `, kind: "sum", x: centre - size / 2, y, width: size, height: size, round: true });
    y += size;
  }
  const n = places.filter(({ place }) => new RegExp(`^${name}\\.layers\\.\\d+$`).test(place)).length;
  const open = new RegExp(`^${name}\\.layers\\.(\\d+)`).exec(app.state.block)?.[1] ?? n - 1;
  for (let i = 0; i < n; i++) {
    const place = `${name}.layers.${i}`;
    if (sizes.folds && i !== Number(open)) {
      const where = `${name === "encoder" ? t("Encoder") : t("Decoder")} `;
      plan.wires.push({ points: [[centre, y], [centre, y + sizes.next]], plain: true });
      y += sizes.next;
      add({ place, name: t("Layer {n}", { n: i + 1 }), where, kind: "layer", folded: true, x, y, width, height: FOLDED });
      y += FOLDED;
      continue;
    }
    plan.wires.push({ points: [[centre, y], [centre, y + GAP]], plain: true });
    y += GAP;
    const bottom = y;
    y += FRAME;
    const subs = ["self_attention", ...(known.has(`${place}.cross_attention`) ? ["cross_attention"] : []), "feed_forward"];
    const residuals = places.map((one) => one.place).filter((one) => one.startsWith(`${place}.residual`) && !one.endsWith("norm"));
    subs.forEach((sub, j) => {
      const norm = residuals[j], attention = sub.endsWith("attention");
      const block = {
        place: `${place}.${sub}`, where: `${name === "encoder" ? t("Encoder layer {n}", { n: i + 1 }) : t("Decoder layer {n}", { n: i + 1 })}, `, kind: attention ? "attention" : "feed",
        name: { self_attention: name === "decoder" ? t("Masked self-attention") : t("Self-attention"), cross_attention: t("Cross-attention"), feed_forward: t("Feed-forward") }[sub],
        short: sub === "self_attention" && name === "decoder" ? t("Masked self-att.") : null, x, width, height: HEIGHT,
      };
      const normalise = (label) => add({ place: norm, name: label, where: block.where, kind: "norm", x, y, width, height: NORM_HEIGHT });
      plan.wires.push({ points: [[centre, y - FRAME * (j === 0)], [centre, y + FORK]], plain: true });
      const fork = y + FORK;
      y = fork;
      if (options.norm !== "post") {
        plan.wires.push({ points: [[centre, y], [centre, y + FORK]] });
        y += FORK;
        add({ place: `${norm}.layer_norm`, name: t("Norm"), where: block.where, kind: "norm", x, y, width, height: NORM_HEIGHT });
        y += NORM_HEIGHT;
      }
      // Query, key and value: three arrows into attention, as in the paper; the memory brings two of them.
      plan.wires.push({ points: [[centre, y], [centre, y + ENTER]] });
      if (sub === "self_attention") {
        for (const offset of [-width * 0.28, width * 0.28]) plan.wires.push({ points: [[centre, y + ENTER / 3], [centre + offset, y + ENTER / 3], [centre + offset, y + ENTER]] });
      }
      y += ENTER;
      add({ ...block, y });
      y += HEIGHT;
      plan.wires.push({ points: [[centre, y], [centre, y + sizes.leave]] });
      y += sizes.leave;
      normalise(options.norm === "post" ? t("Add & norm") : t("Add"));
      const target = turn > 0 ? x : x + width;
      plan.wires.push({ points: [[centre, fork], [rail, fork], [rail, y + NORM_HEIGHT / 2], [target, y + NORM_HEIGHT / 2]], residual: true });
      y += NORM_HEIGHT;
      if (j < subs.length - 1) {
        plan.wires.push({ points: [[centre, y], [centre, y + sizes.next]], plain: true });
        y += sizes.next;
      }
    });
    y += FRAME + sizes.label;
    plan.wires.push({ points: [[centre, y - FRAME - sizes.label], [centre, y]], plain: true });
    plan.frames.push({ x: outer[0] + 0.5, y: bottom, width: outer[1] - 1, height: y - bottom });
    const label = { place, name: t("Layer {n}", { n: i + 1 }), where: `${name === "encoder" ? t("Encoder") : t("Decoder")} `, layer: true, kind: "layer", x: turn > 0 ? outer[0] + 6 : outer[0] + outer[1] - 62, y: y - 20, width: 56, height: 18 };
    add(label);
  }
  if (known.has(`${name}.final_norm`)) {
    plan.wires.push({ points: [[centre, y], [centre, y + GAP]] });
    y += GAP;
    add({ place: `${name}.final_norm`, name: t("Norm"), where: `${name === "encoder" ? t("encoder") : t("decoder")} `, kind: "norm", x, y, width, height: NORM_HEIGHT });
    y += NORM_HEIGHT;
  }
  return { y };
}

function drawBlock(block, choose) {
  const { x, y, width, height, kind } = block;
  const two = height >= TIGHT.block, low = height < ROOMY.norm, narrow = width < 150, middle = x + width / 2;
  block.detail = svg("text", { class: "detail-text", x: middle, y: y + (low ? 26 : 30), "text-anchor": "middle" });
  block.bar = svg("rect", { class: "norm-bar", x: x + 8, y: y + height - 3.5, height: 2, width: 0, rx: 1 });
  const name = narrow ? block.short ?? block.name : block.name;
  const label = block.round ? null : svg("text", {
    class: "name-text", x: middle, y: two ? y + (low ? 13.5 : 16) : y + height / 2 + (block.layer ? 4 : 3.5), "text-anchor": "middle",
  }, name);
  const form = block.round
    ? [svg("circle", { class: "form", cx: middle, cy: y + height / 2, r: width / 2 }), svg("path", { class: "plus", d: `M${middle - 5} ${y + height / 2}h10m-5-5v10` })]
    : [svg("rect", { class: "form", x, y, width, height, rx: block.layer ? 9 : 7 })];
  if (!two) block.detail.setAttribute("visibility", "hidden");
  const dot = svg("circle", { class: "changed-dot", cx: x + width - 1, cy: y + 1, r: 5 });
  block.element = svg("g", { class: `block ${kind}${block.folded ? " folded" : ""}`, role: "button", onclick: choose }, ...form, label, block.detail, block.bar, dot);
}

function drawFrame(frame) {
  if (frame.textOnly) return svg("text", { class: "side-text", x: frame.x, y: frame.y + 12, "text-anchor": "middle" }, frame.label);
  return svg("rect", { class: "layer-frame", x: frame.x, y: frame.y, width: frame.width, height: frame.height, rx: 12 });
}

function drawWire({ points, plain, residual, memory, wave, constant }) {
  const kind = `wire${residual ? " residual" : ""}${memory ? " memory" : ""}${plain ? "" : " arrow"}${constant ? " constant" : ""}`;
  const path = svg("path", { class: kind, d: rounded(points) });
  if (!wave) return path;
  const [[x, y], [to]] = points, left = Math.min(x, to) === x;
  const at = left ? x - 11 : x + 11;
  const sign = constant ? svg("path", { class: "wave", d: `M${at - 7} ${y}q3.5 -8 7 0t7 0` })
    : svg("text", { class: "detail-text", x: at, y: y + 4, "text-anchor": "middle" }, "P");
  return svg("g", {}, path, svg("circle", { class: "wave-ring", cx: at, cy: y, r: 11 }, svg("title", {}, constant ? t("Sinusoidal positions") : t("Learned positions"))), sign);
}

/** Return a path along points with round corners. */
export function rounded(points) {
  let path = `M${points[0].join(" ")}`;
  for (let i = 1; i < points.length; i++) {
    const [x, y] = points[i], next = points[i + 1];
    if (!next) {
      path += `L${x} ${y}`;
      continue;
    }
    const [px, py] = points[i - 1];
    const reach = Math.min(6, Math.hypot(x - px, y - py) / 2, Math.hypot(next[0] - x, next[1] - y) / 2);
    const towards = ([ax, ay]) => {
      const length = Math.hypot(ax - x, ay - y) || 1;
      return [x + (ax - x) / length * reach, y + (ay - y) / length * reach];
    };
    path += `L${towards([px, py]).join(" ")}Q${x} ${y} ${towards(next).join(" ")}`;
  }
  return path;
}

function markers() {
  const marker = (id, turned) => svg("marker", { id, viewBox: "0 0 8 8", refX: turned ? 1 : 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto", markerUnits: "userSpaceOnUse" },
    svg("path", { class: "arrow-head", d: turned ? "M8 0.5L1 4L8 7.5z" : "M0 0.5L7 4L0 7.5z" }));
  return svg("defs", {}, marker("arrow-forward", false), marker("arrow-backward", true));
}

/** Return the block that an arrow key leads to. */
function neighbour(blocks, from, key) {
  const [dx, dy] = { ArrowUp: [0, -1], ArrowDown: [0, 1], ArrowLeft: [-1, 0], ArrowRight: [1, 0] }[key] ?? [0, 0];
  const centre = (block) => [block.x + block.width / 2, block.y + block.height / 2];
  const [x, y] = centre(from);
  let best = null, least = Infinity;
  for (const block of blocks) {
    const [bx, by] = centre(block), along = (bx - x) * dx + (by - y) * dy;
    if (block === from || along <= 1 || (dy && block.side !== from.side) || (dx && block.side === from.side)) continue;
    const distance = dy ? along : Math.abs(by - y);
    if (distance < least) [best, least] = [block, distance];
  }
  return best;
}
