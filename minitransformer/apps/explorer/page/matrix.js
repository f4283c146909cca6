// The weights of one head as a picture with its tokens: a row for each query, a column for each key.

import { diverging, picture, sequential } from "./colours.js";
import { number, svg } from "./dom.js";
import { t } from "./words.js";

const MOST_CELLS = 600; // with more, the cells are one image and have no tooltips

/** Return the weights of each head of an attention, (1, H, Tq, Tk), each row by row. */
export function headsOf({ shape, values }) {
  const floats = values instanceof Float32Array ? values : typeof values === "string"
    ? new Float32Array(Uint8Array.from(atob(values), (character) => character.charCodeAt(0)).buffer) : Float32Array.from(values.flat(Infinity));
  const size = shape.at(-2) * shape.at(-1);
  return Array.from({ length: floats.length / size }, (_, h) => floats.subarray(h * size, (h + 1) * size));
}

/** Return the weights of a head as a picture with the tokens beside it. */
export function matrix(weights, queries, keys, label, { most = 20, extent = 1, signed = false } = {}) {
  const cell = Math.max(3, Math.min(most, Math.floor(280 / Math.max(queries.length, keys.length))));
  const named = cell >= 8, left = named ? spaceFor(queries) : 2, top = named ? spaceFor(keys) : 2;
  const width = left + cell * keys.length, height = top + cell * queries.length, colour = signed ? diverging : sequential;
  const size = { x: left, y: top, width: cell * keys.length, height: cell * queries.length };
  return svg("svg", { class: "weights-picture", width, height, viewBox: `0 0 ${width} ${height}`, role: "img",
    "aria-label": label + peaks(weights, keys.length, queries, keys) },
  named && queries.map((text, q) => svg("text", { x: left - 4, y: top + cell * (q + 0.5) + 4, "text-anchor": "end" }, shorten(text))),
  named && keys.map((text, k) => svg("text", { transform: `translate(${left + cell * (k + 0.5) + 4},${top - 4}) rotate(-90)` }, shorten(text))),
  weights.length > MOST_CELLS
    ? svg("image", { ...size, preserveAspectRatio: "none", class: "cells", href: picture({ rows: [0, queries.length], columns: [0, keys.length], values: weights }, extent).toDataURL() })
    : [...weights].map((value, i) => svg("rect", {
      x: left + cell * (i % keys.length), y: top + cell * Math.floor(i / keys.length), width: cell, height: cell, fill: `rgb(${colour(value / extent)})`,
    }, svg("title", {}, `${queries[Math.floor(i / keys.length)]} → ${keys[i % keys.length]}: ${number(value, 3)}`))),
  svg("rect", { ...size, class: "cells-frame" }),
  svg("rect", { class: "row-mark", x: 1, width: width - 2, y: top, height: cell, "data-top": top, "data-cell": cell, rx: 2 }));
}

function spaceFor(tokens) {
  return 8 + 6.5 * Math.max(2, ...tokens.map((text) => shorten(text).length));
}

function shorten(text, most = 10) {
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}

/** Say where each query looks. */
function peaks(values, columns, queries, keys) {
  return queries.map((text, q) => {
    const row = [...values.subarray(q * columns, (q + 1) * columns)];
    const k = row.indexOf(Math.max(...row));
    return t("{query} to {key} {value}", { query: text, key: keys[k] ?? k, value: number(row[k], 2) });
  }).join(", ");
}

