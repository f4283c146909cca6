// The inside of an attention as one picture: projections, queries, keys and values, scores, weights, heads and output,
// with their shapes and arrows. Each is a button.

import { shapeText, svg } from "./dom.js";
import { rounded } from "./figure.js";
import { t } from "./words.js";

const WIDE = 740; // a narrower picture has three columns
const BOX = [98, 42];

/** Where each part stands: its column and row. */
const PLACES = {
  wide: { x: [0, 0], memory: [0, 1.5], wQ: [1, 0], wK: [1, 1], wV: [1, 2], q: [2, 0], k: [2, 1], v: [2, 2], scores: [3, 0.5], mask: [4, 1.5], weights: [4, 0.5],
    heads: [5, 1.25], wO: [6, 1.25], output: [7, 1.25] },
  narrow: { x: [0, 2], memory: [0, 0.5], wQ: [1, 2], wK: [1, 1], wV: [1, 0], q: [2, 2], k: [2, 1], v: [2, 0], scores: [2, 3], mask: [0, 3], weights: [1, 3],
    heads: [1, 4], wO: [1, 5], output: [2, 5] },
};
const WIRES = [["x", "wQ"], ["wQ", "q"], ["wK", "k"], ["wV", "v"], ["q", "scores"], ["k", "scores"], ["scores", "weights"], ["mask", "weights"], ["weights", "heads"],
  ["v", "heads"], ["heads", "wO"], ["wO", "output"]];
const NAMES = { wQ: "W_Q", wK: "W_K", wV: "W_V", q: "Q", k: "K", v: "V", wO: "W_O" };

/** Return the values that are parts of an attention by their places in the picture, null if the step is none. */
export function partsOf(values, backward) {
  const mark = backward ? "d_" : "";
  const inner = (name) => values.findLast((value) => value.role === "inner" && value.name.replace(/\.\d+$/, "") === mark + name && value.shape.length === 4);
  const outer = (name) => values.find((value) => value.role === "input" && value.name === mark + name);
  const found = {
    x: outer("x"), memory: outer("memory"), mask: outer("mask"), q: inner("q"), k: inner("k"), v: inner("v"), scores: inner("scores"), weights: inner("weights"),
    heads: values.findLast((value) => value.role === "inner" && value.name === `${mark}concat`), wO: outer("w_out"), output: values.find(({ role }) => role === "output"),
  };
  for (const letter of "QKV") found[`w${letter}`] = values.find(({ part }) => part === `W_${letter}`);
  return ["q", "k", "v", "weights", "wQ", "output"].every((name) => found[name]) ? found : null;
}

/** Return w_in, whose projections stand side by side, as three values: W_Q, W_K and W_V; other values as they are. */
export function splitProjections(values, backward) {
  const mark = backward ? "d_" : "", whole = values.find((value) => value.role === "input" && value.name === `${mark}w_in`);
  const sizes = ["q", "k", "v"].map((name) => values.find((value) => value.name === mark + name && value.shape.length === 4)?.shape).map((shape) => shape && shape[1] * shape[3]);
  if (!whole || sizes.some((size) => !size) || sizes[0] + sizes[1] + sizes[2] !== whole.shape[1]) return values;
  let first = 0;
  const parts = sizes.map((size, i) => {
    const part = `W_${"QKV"[i]}`, note = t("columns {first} to {last} of w_in", { first, last: first + size - 1 });
    first += size;
    return { ...whole, part, name: mark + part, shape: [whole.shape[0], size], first: first - size, stat: null, note };
  });
  return values.flatMap((value) => (value === whole ? parts : [value]));
}

/** Return {element, show}: the picture, in which show(value) marks a value; choose(value) is called on a click. */
export function partsPicture(parts, width, choose) {
  const narrow = width < WIDE, places = PLACES[narrow ? "narrow" : "wide"], [w, h] = BOX;
  const across = 18, down = narrow ? 18 : 22, margin = narrow ? 26 : 1;
  const at = (name) => [1 + places[name][0] * (w + across), 1 + places[name][1] * (h + down)];
  const [, bottom] = at(narrow ? "output" : "wV"), columns = narrow ? 3 : 8;
  const size = [2 + columns * w + (columns - 1) * across + margin, bottom + h + 2];
  const source = parts.memory ? "memory" : "x";
  const wires = [...WIRES, [source, "wK"], [source, "wV"]].filter((ends) => ends.every((name) => parts[name])).map(([from, to]) => {
    const [[x0, y0], [x1, y1]] = [at(from), at(to)], middle = h / 2;
    if (narrow && to === "heads" && from === "v") return [[x0 + w, y0 + middle], [x0 + w + 20, y0 + middle], [x0 + w + 20, y1 + middle], [x1 + w, y1 + middle]];
    if (narrow && from === "k") return [[x0 + w, y0 + middle], [x0 + w + 10, y0 + middle], [x0 + w + 10, y1 + middle], [x1 + w, y1 + middle]];
    if (narrow && to === "weights" && from === "scores") return [[x0, y0 + middle], [x1 + w, y1 + middle]];
    if (x0 === x1) return y0 < y1 ? [[x0 + w / 2, y0 + h], [x1 + w / 2, y1]] : [[x0 + w / 2, y0], [x1 + w / 2, y1 + h]];
    const turn = x1 - across / 2 - 1, end = [x1, y1 + middle + (to === "heads" || to === "scores" ? (y0 < y1 ? -8 : 8) : 0)];
    return y0 === y1 ? [[x0 + w, y0 + middle], end] : [[x0 + w, y0 + middle], [turn, y0 + middle], [turn, end[1]], end];
  });
  const boxes = Object.entries(parts).filter(([name, value]) => value && places[name]).map(([name, value]) => {
    const [x, y] = at(name), label = NAMES[name] ? `${value.name.startsWith("d_") ? "d_" : ""}${NAMES[name]}` : value.name;
    const kind = value.parameter ? "embed" : value.role === "output" ? "output" : ["scores", "weights", "heads"].includes(name) ? "attention" : "feed";
    const element = svg("g", { class: `block ${value.constant ? "" : kind}`, role: "button", tabindex: 0, "aria-label": t("{label}, shape {shape}", { label, shape: value.shape.join(t(" by ")) }),
      onclick: () => choose(value), onkeydown: (event) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        choose(value);
      } },
    svg("rect", { class: "form", x, y, width: w, height: h, rx: 7 }),
    svg("text", { class: "name-text", x: x + w / 2, y: y + 17, "text-anchor": "middle" }, ...subscripted(label)),
    svg("text", { class: "detail-text", x: x + w / 2, y: y + 32, "text-anchor": "middle" }, shapeText(value.shape)));
    return { value, element };
  });
  const element = svg("svg", { class: "drawing parts", role: "group", "aria-label": t("Inside the attention"), width: size[0], height: size[1], viewBox: `0 0 ${size.join(" ")}` },
    wires.map((points) => svg("path", { class: "wire arrow", d: rounded(points) })), boxes.map((box) => box.element));
  return {
    element,
    show: (chosen) => {
      for (const box of boxes) {
        box.element.classList.toggle("chosen", box.value === chosen);
        box.element.setAttribute("aria-pressed", String(box.value === chosen));
      }
    },
  };
}

/** Return a name with what follows W_ as a subscript. */
function subscripted(name) {
  const [, before, after] = /^(.*W)_(\w)$/.exec(name) ?? [];
  return before ? [before, svg("tspan", { class: "subscript", dy: 3 }, after)] : [name];
}
