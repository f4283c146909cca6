// A tensor as a picture: blue below zero, orange above it, the neutral colour at zero. Only what is seen is fetched.
//
//   const map = new Heatmap(app, element, {label, rows, columns, onPoint, onSelect});
//   await map.show({key});                          a tensor of the trace, by its key
//   await map.show({shape, values});                numbers that are here already (Float32Array, row by row)
//   map.select(index)                               mark one entry: [..., row, column]; null marks none
//
// rows and columns are functions from a number to its name (a token, say), or left out; show takes them, too.
// onPoint(index, value) is called while one points, with null when one leaves; onSelect(index, value) on click or Enter.
// Arrow keys move, Home and End go to the ends of a row, Page Up and Page Down through the leading axes (batch, head);
// the live region says the value.

import { diverging, largest, picture, style } from "./colours.js";
import { el, number } from "./dom.js";
import { pictureSize } from "./store.js";
import { t } from "./words.js";

const TILE_ROWS = 128, TILE_COLUMNS = 256;
const FONT = 12;

export class Heatmap {
  #tiles = new Map();
  #at = [];
  #cursor = null; // [row, column] under the pointer or the keyboard
  #chosen = null; // the index that is marked
  #source = null;
  #shape = [];
  #leading = []; // the lengths of all axes but the last two
  #limit = 0;
  #signed = true; // whether some value is below zero
  #turn = 0;
  #first = 0; // the column of the tensor with which the picture begins
  #cell = [8, 8];
  #margin = [0, 0]; // left, top

  constructor(app, element, options = {}) {
    const { label = "", rows = null, columns = null, onPoint = null, onSelect = null, height = 440 } = options;
    Object.assign(this, { app, label, rows, columns, onPoint, onSelect, height, part: null });
    this.axes = el("div", { class: "heatmap-axes" });
    this.canvas = el("canvas");
    this.space = el("div", { class: "heatmap-space" }, this.canvas);
    this.frame = el("div", {
      class: "heatmap-frame", tabindex: 0, role: "application", "aria-roledescription": t("heat map"),
      onscroll: () => this.#draw(),
      onkeydown: (event) => this.#key(event),
      onpointermove: (event) => this.#point(this.#cellAt(event)),
      onpointerleave: () => this.#point(null),
      onclick: (event) => this.#choose(this.#cellAt(event)),
      onblur: () => this.#point(null),
    }, this.space);
    this.readout = el("div", { class: "heatmap-readout figures" });
    this.legend = el("div", { class: "heatmap-legend figures", "aria-hidden": "true" });
    this.root = el("div", { class: "heatmap" }, this.axes, this.frame, el("div", { class: "heatmap-foot" }, this.readout, this.legend));
    element.append(this.root);
    new ResizeObserver(() => this.#layOut()).observe(this.frame);
    const turn = () => (this.root.isConnected ? this.#recolour() : document.removeEventListener("themechange", turn));
    document.addEventListener("themechange", turn);
  }

  /** Show a tensor; the promise is kept when its first window is drawn. */
  async show(source) {
    const turn = ++this.#turn;
    const { label, rows, columns } = source;
    this.#first = source.first ?? 0;
    const first = source.values ? null : await this.#fetch(source, [], 0, 0, source.shape && pictureSize(source.shape)).catch((error) => {
      this.#clear(t("These numbers have not been loaded."));
      throw error;
    });
    if (turn !== this.#turn) return;
    this.part = first?.part ?? null; // [rows, columns] that a file holds, if it does not hold all
    const [ofRows, ofColumns] = [rows, columns].map((name, axis) => (name && this.part ? (i) => name(this.part[axis][i]) : name));
    for (const [name, value] of Object.entries({ label, rows: ofRows, columns: ofColumns })) if (value !== undefined) this[name] = value;
    this.#shape = source.first === undefined ? first?.shape ?? source.shape : source.shape;
    const leading = this.#shape.slice(0, -2);
    this.#at = String(leading) === String(this.#leading) ? this.#at : leading.map(() => 0);
    this.#leading = leading;
    this.#source = source;
    this.#tiles.clear();
    this.#limit = source.limit ?? (first ? Math.max(largest([first.least, first.most]), largest(first.values)) : largest(source.values));
    this.#signed = first ? first.least < 0 : source.values.some((value) => value < 0);
    if (first && !this.#at.some(Boolean)) this.#keep(first, 0, 0);
    this.#cursor = null;
    this.frame.scrollTo(0, 0);
    this.#showAxes();
    this.#layOut();
  }

  /** Go to an index of the leading axes, if they have it. */
  turnTo(at) {
    if (at.length === this.#leading.length && at.every((i, axis) => i < this.#leading[axis])) this.#goTo(at);
  }

  #clear(text) {
    this.#source = null;
    this.canvas.width = 0;
    this.legend.replaceChildren();
    this.readout.replaceChildren(el("span", { class: "muted" }, text));
  }

  /** Mark one entry, and go to it along the leading axes. */
  select(index) {
    this.#chosen = index;
    if (index && index.length === this.#shape.length && this.#shape.length > 2) this.turnTo(index.slice(0, -2));
    this.#read();
    this.#draw();
  }

  get #size() { return this.part?.map((list) => list.length) ?? pictureSize(this.#shape); }

  /** Return the index of a cell in the whole tensor. */
  #indexOf([row, column]) {
    return [...this.#at, this.part?.[0][row] ?? row, this.part?.[1][column] ?? column + this.#first].slice(-this.#shape.length || Infinity);
  }

  #fetch(source, at, top, left, size) {
    const window = { at, held: true };
    if (size) {
      window.rows = [top, Math.min(top + TILE_ROWS, size[0])];
      window.columns = [left, Math.min(left + TILE_COLUMNS, size[1])].map((column) => column + this.#first);
    }
    return this.app.tensor(source.key, window);
  }

  #tile(top, left) {
    const name = `${this.#at}|${top}|${left}`;
    const known = this.#tiles.get(name);
    if (known !== undefined || !this.#source) return known;
    const [rows, columns] = this.#size;
    if (this.#source.values) {
      const bottom = Math.min(top + TILE_ROWS, rows), right = Math.min(left + TILE_COLUMNS, columns);
      let start = 0;
      this.#shape.slice(0, -2).forEach((n, axis) => { start = start * n + this.#at[axis]; });
      const values = new Float32Array((bottom - top) * (right - left));
      for (let i = top; i < bottom; i++) {
        const first = (start * rows + i) * columns;
        values.set(this.#source.values.subarray(first + left, first + right), (i - top) * (right - left));
      }
      return this.#keep({ rows: [top, bottom], columns: [left, right], values }, top, left);
    }
    this.#tiles.set(name, null); // under way
    const source = this.#source;
    this.#fetch(source, this.#at, top, left, this.#size).then((tile) => {
      if (source !== this.#source) return;
      this.#tiles.set(name, { ...tile, image: null });
      this.#read();
      this.#draw();
    }, (error) => {
      this.#tiles.delete(name);
      this.app.report(error);
    });
    return null;
  }

  #keep(tile, top, left) {
    const kept = { ...tile, image: null };
    this.#tiles.set(`${this.#at}|${top}|${left}`, kept);
    return kept;
  }

  /** Return the value of a cell, undefined while it is on its way. */
  #valueAt([row, column]) {
    const top = row - (row % TILE_ROWS), left = column - (column % TILE_COLUMNS);
    const tile = this.#tile(top, left);
    if (!tile) return undefined;
    return tile.values[(row - top) * (tile.columns[1] - tile.columns[0]) + column - left];
  }

  #showAxes() {
    const names = this.#shape.length === 4 ? [t("batch"), t("head")] : this.#shape.length === 3 ? [t("batch")] : [];
    const pickers = this.#leading.map((size, axis) => size > 1 && this.#picker(names[axis] ?? t("axis {n}", { n: axis }), axis, size));
    this.axes.replaceChildren(...pickers.filter(Boolean));
    this.axes.hidden = !this.axes.childElementCount;
    this.frame.setAttribute("aria-label", t("{label}, shape {shape}. Arrow keys move, Enter chooses.", { label: this.label, shape: this.#shape.join(t(" by ")) || t("scalar") }));
  }

  #picker(name, axis, size) {
    if (size > 16) {
      return el("label", { class: "small muted" }, `${name} `, el("input", {
        type: "number", min: 1, max: size, value: this.#at[axis] + 1,
        onchange: (event) => this.#goTo(this.#at.with(axis, Math.min(Math.max((+event.target.value || 1) - 1, 0), size - 1))),
      }));
    }
    const buttons = Array.from({ length: size }, (_, i) => el("button", {
      type: "button", "aria-pressed": String(i === this.#at[axis]), "aria-label": `${name} ${i + 1}`,
      onclick: () => this.#goTo(this.#at.with(axis, i)),
    }, String(i + 1)));
    return el("div", { class: "picker" }, el("span", { class: "small muted" }, name),
      el("div", { class: "segmented", role: "group", "aria-label": name }, buttons));
  }

  #goTo(at) {
    if (String(at) === String(this.#at)) return;
    this.#at = at;
    const focused = this.axes.contains(document.activeElement) && document.activeElement.getAttribute("aria-label");
    this.#showAxes();
    if (focused) this.axes.querySelector('[aria-pressed="true"]')?.focus();
    this.#read();
    this.#draw();
  }

  /** Choose the size of a cell: as wide as there is space, square where rows and columns are alike. */
  #layOut() {
    if (!this.#source) return;
    const [rows, columns] = this.#size, context = this.canvas.getContext("2d");
    context.font = `${FONT}px ${style("--sans")}`;
    const widest = (name, count) => {
      let width = 0;
      for (let i = 0; i < Math.min(count, 200); i++) width = Math.max(width, context.measureText(name(i)).width);
      return Math.min(Math.ceil(width), 128);
    };
    const left = this.rows ? widest(this.rows, rows) + 10 : 0;
    const columnText = this.columns ? widest(this.columns, columns) : 0;
    const space = Math.max(this.frame.clientWidth - left, 40);
    const most = this.rows || this.columns ? 34 : 22;
    const least = this.columns ? 15 : 3;
    const width = Math.max(Math.min(space / columns, most), least);
    const height = rows === 1 ? Math.max(width, 28) : this.rows ? Math.max(Math.min(width, most), 18) : Math.max(Math.min(width, 16), 3);
    this.upright = columnText + 6 > width;
    this.#margin = [left, this.columns ? (this.upright ? columnText + 10 : 20) : 0];
    this.#cell = [width, height];
    const whole = [left + columns * width, this.#margin[1] + rows * height];
    this.space.style.width = `${Math.floor(whole[0])}px`;
    this.space.style.height = `${Math.ceil(whole[1])}px`;
    const scrolls = whole[0] > this.frame.clientWidth + 1 ? 14 : 0;
    this.frame.style.height = `${Math.min(Math.ceil(whole[1]) + scrolls, this.height)}px`;
    this.#showLegend();
    this.#read();
    this.#draw();
  }

  #draw() {
    if (!this.#source || !this.frame.clientWidth) return;
    const { frame, canvas } = this, ratio = devicePixelRatio || 1;
    const width = Math.min(frame.clientWidth, this.space.offsetWidth), height = Math.min(frame.clientHeight, this.space.offsetHeight);
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
      canvas.style.width = `${width}px`;
      canvas.style.height = `${height}px`;
    }
    const context = canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    const [rows, columns] = this.#size, [cw, ch] = this.#cell, [left, top] = this.#margin;
    const x0 = frame.scrollLeft, y0 = frame.scrollTop;
    const r0 = Math.floor(y0 / ch), r1 = Math.min(Math.ceil((y0 + height - top) / ch), rows);
    const c0 = Math.floor(x0 / cw), c1 = Math.min(Math.ceil((x0 + width - left) / cw), columns);
    context.save();
    context.beginPath();
    context.rect(left, top, width - left, height - top);
    context.clip();
    context.imageSmoothingEnabled = false;
    for (let r = r0 - (r0 % TILE_ROWS); r < r1; r += TILE_ROWS) {
      for (let c = c0 - (c0 % TILE_COLUMNS); c < c1; c += TILE_COLUMNS) {
        const tile = this.#tile(r, c);
        if (!tile) continue;
        tile.image ??= picture(tile, this.#limit);
        context.drawImage(tile.image, left + c * cw - x0, top + r * ch - y0, tile.image.width * cw, tile.image.height * ch);
      }
    }
    this.#drawLines(context, [r0, r1, c0, c1], [x0, y0]);
    const mark = (cell, colour, inset) => {
      if (!cell) return;
      context.strokeStyle = colour;
      context.lineWidth = 2;
      context.strokeRect(left + cell[1] * cw - x0 - inset, top + cell[0] * ch - y0 - inset, cw + 2 * inset, ch + 2 * inset);
    };
    mark(this.#chosenCell(), style("--back"), 1);
    mark(this.#cursor, style("--ink"), 1);
    context.restore();
    this.#drawNames(context, [r0, r1, c0, c1], [x0, y0]);
  }

  /** Part the cells by thin lines where they are large enough. */
  #drawLines(context, [r0, r1, c0, c1], [x0, y0]) {
    const [cw, ch] = this.#cell, [left, top] = this.#margin;
    context.fillStyle = style("--surface");
    if (cw >= 7) for (let c = c0; c <= c1; c++) context.fillRect(left + c * cw - x0 - 0.5, 0, 1, 1e4);
    if (ch >= 7) for (let r = r0; r <= r1; r++) context.fillRect(left, top + r * ch - y0 - 0.5, 1e4, 1);
  }

  #drawNames(context, [r0, r1, c0, c1], [x0, y0]) {
    const [cw, ch] = this.#cell, [left, top] = this.#margin;
    context.font = `${FONT}px ${style("--sans")}`;
    context.textBaseline = "middle";
    if (this.rows) {
      context.textAlign = "right";
      for (let r = r0; r < r1; r++) {
        const y = top + (r + 0.5) * ch - y0;
        if (y < top) continue;
        context.fillStyle = style(this.#cursor?.[0] === r ? "--ink" : "--ink-2");
        context.fillText(shorten(context, this.rows(r), left - 8), left - 7, y);
      }
    }
    if (!this.columns) return;
    for (let c = c0; c < c1; c++) {
      const x = left + (c + 0.5) * cw - x0;
      if (x < left) continue;
      context.fillStyle = style(this.#cursor?.[1] === c ? "--ink" : "--ink-2");
      context.save();
      context.translate(x, top - 6);
      context.textAlign = this.upright ? "left" : "center";
      if (this.upright) context.rotate(-Math.PI / 2);
      context.fillText(shorten(context, this.columns(c), this.upright ? top - 8 : cw - 2), 0, this.upright ? 0 : -4);
      context.restore();
    }
  }

  #chosenCell() {
    const chosen = this.#chosen;
    if (!chosen || chosen.length !== this.#shape.length || String(chosen.slice(0, -2)) !== String(this.#at)) return null;
    const cell = [chosen.at(-2) ?? 0, chosen.at(-1) ?? 0].map((i, axis) => (this.part ? this.part[axis].indexOf(i) : i - axis * this.#first));
    return cell.every((i, axis) => i >= 0 && i < this.#size[axis]) ? cell : null;
  }

  #cellAt(event) {
    const box = this.frame.getBoundingClientRect(), [rows, columns] = this.#size;
    const x = event.clientX - box.left - this.frame.clientLeft - this.#margin[0] + this.frame.scrollLeft;
    const y = event.clientY - box.top - this.frame.clientTop - this.#margin[1] + this.frame.scrollTop;
    const row = Math.floor(y / this.#cell[1]), column = Math.floor(x / this.#cell[0]);
    return row >= 0 && column >= 0 && row < rows && column < columns ? [row, column] : null;
  }

  #point(cell, aloud = false) {
    if (String(cell) === String(this.#cursor)) return;
    this.#cursor = cell;
    const value = this.#read();
    this.#draw();
    this.onPoint?.(cell && this.#indexOf(cell), value);
    if (aloud) this.app.say(this.readout.textContent);
  }

  #choose(cell) {
    if (!cell) return;
    this.#chosen = this.#indexOf(cell);
    this.#draw();
    this.onSelect?.(this.#chosen, this.#valueAt(cell));
  }

  /** Show the value under the pointer, else that of the entry that is marked. */
  #read() {
    const cell = this.#cursor ?? this.#chosenCell();
    if (!cell || !this.#source) {
      this.readout.replaceChildren(el("span", { class: "muted" }, this.onSelect ? t("Point at an entry; click to hold it.") : t("Point at an entry.")));
      return undefined;
    }
    const value = this.#valueAt(cell);
    const names = [this.rows?.(cell[0]), this.columns?.(cell[1])].filter(Boolean).join(" · ");
    this.readout.replaceChildren(
      el("code", {}, `[${this.#indexOf(cell).join(", ")}]`), " ", el("strong", {}, value === undefined ? "…" : number(value, 5)),
      names ? el("span", { class: "muted" }, ` ${names}`) : "");
    return value;
  }

  #key(event) {
    const [rows, columns] = this.#size;
    const [row, column] = this.#cursor ?? this.#chosenCell() ?? [0, 0];
    const moves = { ArrowUp: [row - 1, column], ArrowDown: [row + 1, column], ArrowLeft: [row, column - 1],
      ArrowRight: [row, column + 1], Home: [row, 0], End: [row, columns - 1] };
    if (event.key === "Enter" || event.key === " ") this.#choose([row, column]);
    else if (event.key === "PageUp" || event.key === "PageDown") this.#turnLeading(event.key === "PageUp" ? -1 : 1);
    else if (event.key in moves) {
      const [r, c] = this.#cursor ? moves[event.key] : [row, column];
      const cell = [Math.min(Math.max(r, 0), rows - 1), Math.min(Math.max(c, 0), columns - 1)];
      this.#scrollTo(cell);
      this.#point(cell, true);
    } else return;
    event.preventDefault();
  }

  #turnLeading(step) {
    const axis = this.#leading.findLastIndex((size) => size > 1);
    if (axis < 0) return;
    this.#goTo(this.#at.with(axis, Math.min(Math.max(this.#at[axis] + step, 0), this.#leading[axis] - 1)));
    this.app.say(`${this.#leading.length === 2 && axis === 1 ? t("head") : t("axis")} ${this.#at[axis] + 1}`);
  }

  #scrollTo([row, column]) {
    const { frame } = this, [cw, ch] = this.#cell, [left, top] = this.#margin;
    frame.scrollLeft = Math.min(Math.max(frame.scrollLeft, (column + 1) * cw + left - frame.clientWidth), column * cw);
    frame.scrollTop = Math.min(Math.max(frame.scrollTop, (row + 1) * ch + top - frame.clientHeight), row * ch);
  }

  #showLegend() {
    const bar = el("canvas", { width: 96, height: 8 }), context = bar.getContext("2d");
    const least = this.#signed ? -1 : 0;
    for (let i = 0; i < 96; i++) {
      context.fillStyle = `rgb(${diverging(least + (1 - least) * i / 95)})`, context.fillRect(i, 0, 1, 8);
    }
    this.legend.replaceChildren(number(least * this.#limit, 2), bar, number(this.#limit, 2));
  }

  #recolour() {
    for (const tile of this.#tiles.values()) if (tile) tile.image = null;
    if (this.#source) this.#showLegend();
    this.#draw();
  }
}

function shorten(context, text, width) {
  let end = text.length;
  if (context.measureText(text).width <= width) return text;
  while (end > 1 && context.measureText(`${text.slice(0, end)}…`).width > width) end--;
  return `${text.slice(0, end)}…`;
}
