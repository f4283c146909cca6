// Where the numbers come from: a server (Live) or the file itself (Saved). Both answer the same requests:
//
//   model(), translate(body), trace(body), tensor(body), difference(body), sources(), formulas(), training(body)
//
// A tensor's `values` are a Float32Array here; they travel as base64 of little-endian numbers.
//
// A saved file holds <script type="application/json" id="saved">, with this object as JSON, or, with the attribute
// data-encoding="gzip", as base64 of the gzip of its JSON, a line feed, and bytes:
//
//   {model: ANSWER, sources: ANSWER, formulas: ANSWER, parameters: {KEY: {shape, ...ARRAY}},
//    sentences: [{text, translate: ANSWER, training: ANSWER or null,
//                 traces: [{objective: {kind, ...}, answer: ANSWER,
//                           tensors: {KEY: {shape, array: place in arrays}}, arrays: [ARRAY],
//                           differences: [{key, index, ...ANSWER}]}]}]}
//
// An ARRAY is {type: "float32", values}, or {type: "float16", exponent, values}, whose numbers are to be multiplied by
// 2 ** exponent. `values` are base64, or [first, n], a place in the bytes: the first bytes of all numbers, then the second
// ones, and so on. Other arrays follow from those at some places of `arrays`:
//
//   {type: "affine", of, axis, columns, scale, shift}, one scale and one shift for each row or column
//   {type: "heads", of, first, shape: [1, h, t, k]}, columns of a matrix as heads
//   {type: "masked", of, where}, 0 where the second array is not above 0
//   {type: "product", left, right, shape: [m, n]}, the transposed matrix on the left times that on the right
//
// A part of a tensor, [...TENSOR, rows, columns], has the numbers of its rows and columns in the lists `rows` and
// `columns`; `left_out` then says what the file holds. A sentence may also be {text, file}: a script beside this file,
// which is loaded when the sentence is chosen, and which calls explorerSentence(place, base64 of gzip).

import { said, t } from "./words.js";

/** The server refused a request; the message says what was found, what was expected and what to do. */
export class Refusal extends Error {}

/** The server does not answer any more. */
export class Stopped extends Error {}

const KEPT_BYTES = 64e6; // how many bytes of tensors stay in memory

const NEEDS_PYTHON = t("This file holds one text. Run `minitransformer explore RUN` to change it.");
const NEEDS_PYTHON_MANY = t("This file holds a few texts. Run `minitransformer explore RUN` to write others.");

/** Return the store that fits: the data in the document, or the server beside it. */
export async function openStore() {
  const element = document.getElementById("saved");
  if (!element) return new Live();
  const text = element.textContent.trim();
  return new Saved(element.dataset.encoding === "gzip" ? await unpack(text) : JSON.parse(text));
}

/** Requests to the server that sent this document. */
export class Live {
  live = true;
  #constant = new Map();
  #tensors = new Map(); // by request, the one used last at the end
  #bytes = 0;

  constructor(base = "") {
    this.base = base;
  }

  model() { return this.#once("model"); }
  sources() { return this.#once("sources"); }
  formulas() { return this.#once("formulas"); }
  translate(body) { return this.#post("translate", body); }
  trace(body) { return this.#post("trace", body); }
  difference(body) { return this.#post("difference", body); }
  training(body) { return this.#post("training", body); }
  objectives() { return null; } // any
  entries() { return null; } // any

  /** Ask for a window of a tensor; those asked for last stay here, also when the server has stopped. */
  async tensor({ held, ...body }) { // the server holds all
    const name = JSON.stringify(body);
    let kept = this.#tensors.get(name);
    if (kept) this.#tensors.delete(name);
    else {
      const answer = await this.#post("tensor", body);
      kept = { ...answer, values: floatsOf(answer) };
      if (!this.#tensors.has(name)) this.#bytes += kept.values.byteLength; // it may have been asked for twice
    }
    this.#tensors.set(name, kept);
    for (const [oldest, { values }] of this.#tensors) {
      if (this.#bytes <= KEPT_BYTES || oldest === name) break;
      this.#bytes -= values.byteLength;
      this.#tensors.delete(oldest);
    }
    return kept;
  }

  /** Ask once and keep the answer, unless there was none. */
  #once(name) {
    if (!this.#constant.has(name)) {
      const answer = this.#post(name, {});
      answer.catch(() => this.#constant.delete(name));
      this.#constant.set(name, answer);
    }
    return this.#constant.get(name);
  }

  async #post(name, body, patience = 8) {
    let response;
    try {
      response = await fetch(this.base + name, {
        method: "POST",
        headers: { "Content-Type": "application/json" },
        body: JSON.stringify(body),
      });
    } catch {
      throw new Stopped(t("The server has stopped."));
    }
    if (response.status === 503 && patience) {
      await new Promise((resolve) => setTimeout(resolve, 150));
      return this.#post(name, body, patience - 1);
    }
    const answer = await response.json().catch(() => ({}));
    if (!response.ok) throw new Refusal(answer.error ? said(answer.error) : t("{name}: the server answered {status}", { name, status: response.status }));
    return answer;
  }
}

/** The sentences that the file itself holds. */
export class Saved {
  live = false;
  #decoded = new Map();
  #files = []; // sentences under way

  constructor(data) {
    this.data = data;
    this.refusal = data.sentences.length > 1 ? NEEDS_PYTHON_MANY : NEEDS_PYTHON;
    this.leftOut = said(data.left_out ?? "");
  }

  async model() {
    return { ...this.data.model, examples: this.data.sentences.map((sentence) => sentence.text) };
  }
  async sources() { return this.data.sources; }
  async formulas() { return this.data.formulas; }

  async translate(body) {
    const { translate } = await this.#sentence(body.text);
    this.#refuse(body.edits?.length || body.prefix?.length || body.beam > 1 && !translate.tree);
    return translate;
  }

  async trace(body) {
    this.#refuse(body.edits?.length);
    const wanted = JSON.stringify(withoutValue(body.objective));
    const { traces } = await this.#sentence(body.text);
    const found = traces.find((one) => JSON.stringify(withoutValue(one.objective)) === wanted);
    this.#refuse(!found);
    return found.answer;
  }

  /** Return a window of a tensor; with `held`, of the part that the file holds. Other entries are NaN. */
  async tensor({ trace, key, at = [], rows, columns, held = false }) {
    const whole = this.#decode(this.#trace(trace), key), { part } = whole;
    const [nRows, nColumns] = part ? part.map((list) => list.length) : pictureSize(whole.shape);
    const most = held ? [nRows, nColumns] : pictureSize(whole.shape);
    const [top, bottom] = [rows?.[0] ?? 0, Math.min(rows?.[1] ?? Infinity, most[0])];
    const [left, right] = [columns?.[0] ?? 0, Math.min(columns?.[1] ?? Infinity, most[1])];
    let first = 0;
    whole.shape.slice(0, -2).forEach((size, axis) => { first = first * size + (at[axis] ?? 0); });
    first *= nRows * nColumns;
    const values = new Float32Array((bottom - top) * (right - left)).fill(NaN);
    for (let i = top, to = 0; i < bottom; i++) {
      for (let j = left; j < right; j++, to++) {
        const [row, column] = part && !held ? [part[0].indexOf(i), part[1].indexOf(j)] : [i, j];
        if (row >= 0 && column >= 0) values[to] = whole.values[first + row * nColumns + column];
      }
    }
    return { shape: whole.shape, part, rows: [top, bottom], columns: [left, right], values, least: whole.least, most: whole.most };
  }

  async difference({ trace, key, index }) {
    const found = this.#trace(trace).differences?.find((one) => one.key === key && String(one.index) === String(index));
    this.#refuse(!found);
    return found;
  }

  async training({ text, key = "" }) {
    const { training, blob = this.data.blob } = await this.#sentence(text);
    this.#refuse(!training);
    const inside = (a, b) => `${a}.`.startsWith(`${b}.`);
    const attention = training.attention.filter((one) => !key || inside(one.key, key) || inside(key, one.key));
    const shares = ([first, n]) => Float32Array.from(blob.subarray(first, first + n), (byte) => byte / 255);
    return { ...training, attention: attention.map((one) => (Array.isArray(one.values) ? { ...one, values: shares(one.values) } : one)) };
  }

  /** Return the objectives that the file holds for a sentence. */
  objectives(text) {
    return this.data.sentences.find((sentence) => sentence.text === text)?.traces?.map((one) => one.objective) ?? [];
  }

  /** Return the entries, {key, index}, whose central differences the file holds. */
  entries(trace) {
    return this.#trace(trace).differences ?? [];
  }

  #refuse(condition) {
    if (condition) throw new Refusal(this.refusal);
  }

  async #sentence(text) {
    const place = this.data.sentences.findIndex((sentence) => sentence.text === text);
    this.#refuse(place < 0);
    const found = this.data.sentences[place];
    if (!found.file) return found;
    const loaded = await (this.#files[place] ??= loadSentence(place, found.file));
    return this.data.sentences[place] = loaded;
  }

  #trace(id) {
    for (const { traces = [], blob = this.data.blob } of this.data.sentences) {
      const found = traces.find((one) => one.answer.id === id);
      if (found) return { ...found, blob };
    }
    return undefined;
  }

  #decode(trace, key) {
    const name = `${trace.answer.id} ${key}`;
    if (!this.#decoded.has(name)) {
      const own = trace.tensors[key], stored = own ?? this.data.parameters[key];
      this.#refuse(!stored);
      const array = trace.arrays[stored.array] ?? stored, values = floatsOf(array, own ? trace.blob : this.data.blob, trace.arrays);
      let least = Infinity, most = -Infinity;
      for (const value of values) {
        if (!Number.isFinite(value)) continue;
        least = Math.min(least, value);
        most = Math.max(most, value);
      }
      this.#decoded.set(name, { shape: stored.shape, values, least, most, part: array.rows && [array.rows, array.columns] });
    }
    return this.#decoded.get(name);
  }
}

const waiting = []; // what to call when a sentence has come, by its place

/** Load a sentence from a script beside this file: a page that lies on a disk may not fetch, but may load scripts. */
async function loadSentence(place, file) {
  const packed = await new Promise((resolve, reject) => {
    waiting[place] = resolve;
    window.explorerSentence = (number, base64) => waiting[number]?.(base64);
    const failed = () => reject(new Refusal(t("The file {file} is missing; it belongs beside this one.", { file })));
    document.head.append(Object.assign(document.createElement("script"), { src: file, onerror: failed }));
  });
  return unpack(packed);
}

/** Return the rows and columns of a tensor's picture: the last two axes; a vector is one row. */
export function pictureSize(shape) {
  return [shape.length > 1 ? shape.at(-2) : 1, shape.length ? shape.at(-1) : 1];
}

function withoutValue({ kind, position, token, other }) {
  return { kind, position, token, other };
}

function bytesOf(base64) {
  return Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
}

/** Return the object that base64 holds; `blob` are the bytes behind it. */
async function unpack(base64) {
  const stream = new Blob([bytesOf(base64)]).stream().pipeThrough(new DecompressionStream("gzip"));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer()), end = bytes.indexOf(10);
  return { ...JSON.parse(new TextDecoder().decode(bytes.subarray(0, end))), blob: bytes.subarray(end + 1) };
}

/** Return bytes of which those at the same place in each number stand together, number by number. */
function joined(planes, size) {
  const bytes = new Uint8Array(planes.length), n = planes.length / size;
  for (let plane = 0; plane < size; plane++) for (let i = 0; i < n; i++) bytes[i * size + plane] = planes[plane * n + i];
  return bytes.buffer;
}

/** Return arrays that follow from others, by their type; other(place) are the values at a place. */
const DERIVED = {
  affine({ of, axis, columns, scale, shift }, other, blob) {
    const [scales, shifts] = [scale, shift].map((values) => floatsOf({ values }, blob));
    return other(of).map((value, i) => {
      const at = axis === "rows" ? Math.floor(i / columns) : i % columns;
      return Number.isFinite(value) ? value * scales[at] + shifts[at] : value;
    });
  },
  heads({ of, first, shape: [, h, t, k] }, other) {
    const whole = other(of), width = whole.length / t, values = new Float32Array(h * t * k);
    for (let head = 0, to = 0; head < h; head++) {
      for (let i = 0; i < t; i++) for (let j = 0; j < k; j++, to++) values[to] = whole[i * width + first + head * k + j];
    }
    return values;
  },
  masked({ of, where }, other) {
    const mask = other(where);
    return other(of).map((value, i) => (mask[i] > 0 ? value : 0));
  },
  product({ left, right, shape: [m, n] }, other) {
    const a = other(left), b = other(right), rows = a.length / m, values = new Float32Array(m * n);
    for (let row = 0; row < rows; row++) {
      for (let i = 0; i < m; i++) for (let j = 0; j < n; j++) values[i * n + j] += a[row * m + i] * b[row * n + j];
    }
    return values;
  },
};

/** Return the values of an array; `blob` are the bytes, `arrays` those that it may follow from. */
function floatsOf(array, blob, arrays) {
  if (array.type in DERIVED) return DERIVED[array.type](array, (place) => floatsOf(arrays[place], blob, arrays), blob);
  const { values, type = "float32", exponent = 0 } = array, size = type === "float32" ? 4 : 2;
  const buffer = typeof values === "string" ? bytesOf(values).buffer : joined(blob.subarray(values[0], values[0] + values[1]), size);
  if (type === "float32") return new Float32Array(buffer);
  const scale = 2 ** exponent;
  return Float32Array.from(new Uint16Array(buffer), (half) => {
    const sign = half & 0x8000 ? -scale : scale, power = (half >> 10) & 31, fraction = half & 1023;
    if (power === 31) return fraction ? NaN : sign * Infinity;
    return sign * (power ? 2 ** (power - 15) * (1 + fraction / 1024) : 2 ** -24 * fraction);
  });
}
