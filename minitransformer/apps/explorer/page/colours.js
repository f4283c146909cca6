// Numbers as colours: blue below zero, orange above it, the neutral colour of the theme at zero.

import { el } from "./dom.js";

/** Return a canvas with one pixel for each value of a window. */
export function picture({ rows, columns, values }, limit) {
  const width = columns[1] - columns[0], height = rows[1] - rows[0];
  const canvas = el("canvas", { width, height }), context = canvas.getContext("2d");
  if (!width || !height) return canvas;
  const image = context.createImageData(width, height), dark = isDark();
  const unusual = dark ? [74, 78, 90] : [196, 196, 200];
  values.forEach((value, i) => {
    const colour = Number.isFinite(value) ? diverging(limit ? value / limit : 0, dark) : Number.isNaN(value) ? [200, 0, 60] : unusual;
    image.data.set(colour, 4 * i);
    image.data[4 * i + 3] = 255;
  });
  context.putImageData(image, 0, 0);
  return canvas;
}

/** Return the colour of t in [-1, 1] as [red, green, blue]; blue, neutral at 0, orange. */
export function diverging(t, dark = isDark()) {
  const stops = dark
    ? [[150, 208, 255], [45, 125, 205], [34, 37, 45], [205, 108, 22], [255, 205, 138]]
    : [[8, 48, 107], [66, 146, 208], [247, 246, 243], [233, 136, 46], [127, 46, 4]];
  const place = (Math.min(Math.max(t, -1), 1) + 1) * 2, i = Math.min(Math.floor(place), 3), part = place - i;
  return stops[i].map((value, channel) => Math.round(value + (stops[i + 1][channel] - value) * part));
}

/** Return the colour of a weight t in [0, 1] as [red, green, blue]: the positive half of the scale. */
export function sequential(t, dark = isDark()) {
  return diverging(t, dark);
}

function isDark() {
  return document.documentElement.dataset.theme === "dark";
}

/** Return the largest finite absolute value. */
export function largest(values) {
  let most = 0;
  for (const value of values) if (Number.isFinite(value)) most = Math.max(most, Math.abs(value));
  return most;
}

/** Return the value of a custom property of the theme, such as --ink. */
export function style(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name);
}
