// A tensor as a picture: blue below zero, orange above it, the neutral colour at zero. Only what is seen is fetched.
//
//   const map = new Heatmap(app, element, {label, rows, columns, onPoint, onSelect});
//   await map.show({key});                          a tensor of the trace, by its key
//   await map.show({shape, values});                numbers that are here already (Float32Array, row by row)
//   map.select(index)                               mark one entry: [..., row, column]; null marks none
//
// rows and columns are functions from a number to its name (a token, say), or left out. onPoint(index, value) is called
// while one points, with null when one leaves; onSelect(index, value) on click or Enter. Arrow keys move, Page Up and
// Page Down go through the leading axes (batch, head); the live region says the value.

import { el, number, shapeText } from "./dom.js";
import { pictureSize } from "./store.js";

export class Heatmap {
  constructor(app, element, { label = "", rows = null, columns = null, onPoint = null, onSelect = null, scale = null } = {}) {
    Object.assign(this, { app, element, label, rows, columns, onPoint, onSelect, scale });
  }

  async show(source) {}

  select(index) {}
}

/** Return the colour of t in [-1, 1] as [red, green, blue]; blue, neutral at 0, orange. */
export function diverging(t, dark = document.documentElement.dataset.theme === "dark") {
  const [low, middle, high] = dark
    ? [[86, 180, 255], [24, 26, 32], [255, 166, 64]]
    : [[5, 92, 168], [250, 250, 248], [196, 84, 0]];
  const end = t < 0 ? low : high, part = Math.min(Math.abs(t), 1) ** 0.8;
  return middle.map((value, i) => Math.round(value + (end[i] - value) * part));
}

/** Return the colour of a weight t in [0, 1] as [red, green, blue]. */
export function sequential(t, dark = document.documentElement.dataset.theme === "dark") {
  return diverging(-t, dark);
}
