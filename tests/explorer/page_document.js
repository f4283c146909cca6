// As much of a browser as the page needs to build its elements and to be used; the tests read it as text.

class Text {
  nodeType = 3;
  constructor(data) { this.data = data; }
  get textContent() { return this.data; }
  remove() { this.parent?.drop(this); }
}

/** What a browser was asked to do that leaves no mark in the document. */
export const noted = [];
const note = (node, what, given) => noted.push(`${what}(${given.map((one) => JSON.stringify(one)).join(", ")}) of ${node.attributes.id ?? [node.tag, ...node.classList.names].join(".")}`);

class Node {
  constructor(tag) {
    const attributes = {};
    Object.defineProperty(attributes, Symbol.iterator, { value: () => Object.entries(attributes).map(([name, value]) => ({ name, value })).values() });
    Object.assign(this, { tag, parts: [], attributes, listeners: {}, dataset: {}, hidden: false, isConnected: true, clientWidth: globalThis.across ?? 400, clientHeight: 300,
      clientLeft: 0, clientTop: 0, offsetWidth: 400, offsetHeight: 300, offsetTop: 0, scrollLeft: 0, scrollTop: 0, scrollHeight: 0, parent: null });
    const names = new Set(), widths = {};
    this.style = { cssText: "", setProperty: (name, value) => { widths[name] = value; } };
    this.classList = { toggle: (name, on = !names.has(name)) => names[on ? "add" : "delete"](name), add: (name) => names.add(name), remove: (name) => names.delete(name),
      contains: (name) => names.has(name), names };
    this.namespaceURI = /^m[a-z]+$/.test(tag) && tag !== "main" && tag !== "meta" ? "math" : "html";
  }
  append(...parts) {
    for (const part of parts) {
      const own = typeof part === "object" ? part : new Text(String(part));
      own.parent?.drop(own);
      own.parent = this;
      this.parts.push(own);
    }
  }
  drop(part) {
    this.parts = this.parts.filter((one) => one !== part);
    part.parent = null;
  }
  remove() { this.parent?.drop(this); }
  insertBefore(part, other) { part.parent = this; this.parts.splice(this.parts.indexOf(other), 0, part); }
  after(part) { part.parent?.drop(part); this.parent.insertBefore(part, this.parent.parts[this.parent.parts.indexOf(this) + 1]); }
  cloneNode() {
    const copy = new Node(this.tag);
    for (const { name, value } of this.attributes) copy.setAttribute(name, value);
    return copy;
  }
  replaceChildren(...parts) {
    for (const part of this.parts) part.parent = null;
    this.parts = [];
    this.append(...parts);
  }
  addEventListener(name, listener) { this.listeners[name] = listener; }
  setAttribute(name, value) {
    this.attributes[name] = String(value);
    if (name === "class") for (const one of String(value).split(" ")) if (one) this.classList.toggle(one, true);
    if (name.startsWith("data-")) this.dataset[name.slice(5)] = String(value);
    if (name === "value") this.value = value;
    if (["disabled", "hidden", "checked", "open"].includes(name)) this[name] = true;
    if (this.tag === "canvas") this[name] = Number(value);
  }
  getAttribute(name) { return this.attributes[name] ?? null; }
  toggleAttribute(name, on) { if (on) this.attributes[name] = ""; else delete this.attributes[name]; }
  get value() {
    if (this.tag !== "select") return this.given ?? "";
    const options = this.querySelectorAll("option");
    return (options.find((one) => one.given === this.given) ?? options.find((one) => "selected" in one.attributes) ?? options[0])?.value ?? "";
  }
  set value(value) { this.given = String(value); }
  get childElementCount() { return this.children.length; }
  isIn(other) { return this === other || Boolean(this.parent?.isIn(other)); }
  contains(other) { return other instanceof Node && other.isIn(this); }
  closest(selector) { return !selector || this.is(selector) ? this : this.parent?.closest(selector) ?? null; }
  getBoundingClientRect() { return { left: 0, top: 0, right: 400, bottom: 300, width: 400, height: 300 }; }
  scrollTo(...given) { note(this, "scrollTo", given); }
  scrollBy(...given) { note(this, "scrollBy", given); }
  scrollIntoView(...given) { note(this, "scrollIntoView", given); }
  getContext(...given) {
    if (String(given) !== "2d") note(this, "getContext", given);
    return this.context ??= contextOf(this);
  }
  toDataURL() { return `data:${pixels(this)}`; }
  removeAttribute(name) { delete this.attributes[name]; }
  focus(...given) {
    document.activeElement = this;
    if (given.length) note(this, "focus", given);
  }
  select() { note(this, "select", []); }
  click() { return this.listeners.click?.({ target: this, preventDefault: () => {} }); }
  requestSubmit() { return this.listeners.submit({ target: this, preventDefault: () => {} }); }
  get children() { return this.parts.filter((part) => part instanceof Node); }
  get options() { return this.children; }
  get firstChild() { return this.parts[0] ?? null; }
  get textContent() { return this.parts.map((part) => part.textContent).join(""); }
  set textContent(text) { this.replaceChildren(...(text === "" ? [] : [text])); }
  querySelectorAll(selector, found = [], fits = matcher(selector)) {
    for (const part of this.parts) {
      if (!(part instanceof Node)) continue;
      if (fits(part)) found.push(part);
      part.querySelectorAll(selector, found, fits);
    }
    return found;
  }
  querySelector(selector, fits = matcher(selector)) {
    for (const part of this.parts) {
      const found = part instanceof Node ? (fits(part) ? part : part.querySelector(selector, fits)) : null;
      if (found) return found;
    }
    return null;
  }
  is(selector) { return matcher(selector)(this); }
}

const matchers = new Map();

/** Return a function that tells whether an element is meant by a selector: a tag, a class and an attribute, or some of them. */
function matcher(selector) {
  if (!matchers.has(selector)) {
    const [, tag, name, attribute, value] = /^([\w-]+|\*)?(?:\.([\w-]+))?(?:\[([\w-]+)(?:="?([^"\]]*)"?)?\])?$/.exec(selector);
    matchers.set(selector, (node) => (!tag || tag === "*" || tag === node.tag) && (!name || node.classList.names.has(name))
      && (!attribute || (attribute in node.attributes && (value === undefined || node.attributes[attribute] === value))));
  }
  return matchers.get(selector);
}

const hex = (bytes) => [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");

/** Return the colours of a canvas's image, row by row. */
function pixels(canvas) {
  const { data = [], width = 0 } = canvas.image ?? {};
  return Array.from({ length: data.length / 4 }, (_, i) => hex(data.slice(4 * i, 4 * i + (data[4 * i + 3] === 255 ? 3 : 4))) + ((i + 1) % width ? " " : "/")).join("");
}

/** Return a context that keeps, in words, what has been drawn since it was cleared. */
function contextOf(canvas) {
  canvas.drawn = [];
  const said = (value) => (typeof value === "number" ? +value.toFixed(2) : value instanceof Node ? pixels(value) : value);
  const known = {
    createImageData: (width, height) => ({ data: new Uint8ClampedArray(4 * width * height), width }), measureText: (text) => ({ width: 6 * text.length }),
    putImageData: (image) => { canvas.image = image; }, clearRect: () => { canvas.drawn = []; },
  };
  return new Proxy(known, {
    get: (_, name) => known[name] ?? ((...given) => { canvas.drawn.push([name, ...given.map(said)].join(" ")); }),
    set: (_, name, value) => { canvas.drawn.push(`${name}=${said(value)}`); return true; },
  });
}

/** Return the elements that markup holds, with no more than the page's own files need. */
function parse(markup) {
  const root = new Node("root"), open = [root];
  for (const [, text, close, tag, attributes, empty] of markup.replace(/<!doctype[^>]*>/i, "").matchAll(/([^<]*)(?:<(\/?)([\w-]+)((?:\s+[\w-]+(?:="[^"]*")?)*)\s*(\/?)>)?/g)) {
    if (text?.trim()) open.at(-1).append(text.replace(/\s*\n\s*/g, ""));
    if (close) open.pop();
    else if (tag) {
      const node = new Node(tag);
      for (const [, name, value = ""] of attributes.matchAll(/([\w-]+)(?:="([^"]*)")?/g)) node.setAttribute(name, value);
      open.at(-1).append(node);
      if (!empty && !["meta", "link", "input"].includes(tag)) open.push(node);
    }
  }
  return root;
}

const sized = [];
globalThis.ResizeObserver = class { constructor(changed) { this.changed = changed; } observe(element) { sized.push([element, this.changed]); } };
globalThis.IntersectionObserver = class {
  constructor(seen) { this.seen = seen; }
  observe(target) { queueMicrotask(() => this.seen([{ target, isIntersecting: true }])); }
  unobserve() {}
};

/** Give all elements of the page another width. */
export function resize(width) {
  for (const element of [document.body, ...document.querySelectorAll("*")]) element.clientWidth = width;
  for (const [element, changed] of sized) if (document.body.contains(element)) changed();
}

globalThis.getComputedStyle = () => ({ getPropertyValue: (name) => (globalThis.themed ? name : ""), paddingLeft: "0", paddingTop: "0" });
globalThis.DOMParser = class { parseFromString(markup, type) { return parse(type === "text/html" ? markup : ""); } };
globalThis.Node = { TEXT_NODE: 3 };
const heard = new Map();
globalThis.document = {
  createElement: (tag) => new Node(tag), createElementNS: (space, tag) => new Node(space === "http://www.w3.org/2000/svg" ? tag : `${tag} of ${space}`), importNode: (node, whole) => (whole ? node : node.cloneNode()),
  addEventListener: (name, listener) => heard.set(name, [...(heard.get(name) ?? []), listener]), removeEventListener: () => {},
  dispatchEvent: ({ type }) => { for (const listener of heard.get(type) ?? []) listener(); },
  documentElement: new Node("html"),
};
globalThis.devicePixelRatio = 1;
globalThis.matchMedia = () => ({ matches: true, addEventListener: () => {} });
Map.groupBy ??= (items, keyOf) => {
  const groups = new Map();
  for (const item of items) groups.set(keyOf(item), [...(groups.get(keyOf(item)) ?? []), item]);
  return groups;
};

function storage(blocked) {
  const held = new Map(), refuse = () => { throw new Error("the browser keeps nothing"); };
  if (blocked) return { getItem: refuse, setItem: refuse };
  return { getItem: (name) => held.get(name) ?? null, setItem: (name, value) => held.set(name, value) };
}

/** Put the elements of a page into the document, at an address. */
export function openPage(html, { search = "", hash = "", language = "en", blocked = false } = {}) {
  const root = parse(html).querySelector("html"), { document } = globalThis, named = new Map();
  Object.assign(document, { documentElement: root, body: root.querySelector("body"), head: root.querySelector("head"), activeElement: null,
    getElementById: (id) => {
      if (!named.get(id)?.isIn(root)) named.set(id, root.querySelector(`[id=${id}]`));
      return named.get(id);
    }, querySelector: (selector) => root.querySelector(selector), querySelectorAll: (selector) => root.querySelectorAll(selector) });
  const location = { search, hash };
  heard.clear();
  Object.defineProperty(globalThis, "navigator", { value: { language }, configurable: true });
  Object.assign(globalThis, { location, window: globalThis, addEventListener: (...given) => document.addEventListener(...given), themed: true,
    setInterval: (tick) => { globalThis.tick = tick; return 1; }, later: [], tick: null, setTimeout: (act, after) => globalThis.later.push({ act, after }), clearInterval: () => { globalThis.tick = null; }, localStorage: storage(blocked),
    history: { replaceState: (_, __, address) => { location.hash = address; } }, requestAnimationFrame: (draw) => { queueMicrotask(draw); } });
}

/** Return an empty element. */
export function element() {
  return new Node("div");
}

/** Return the texts of the elements that a selector finds. */
export function texts(root, selector) {
  return root.querySelectorAll(selector).map((one) => one.textContent);
}

/** Return a number that stands for a text. */
export function digest(text) {
  let number = 5381;
  for (let i = 0; i < text.length; i += 1) number = (33 * number + text.charCodeAt(i)) % 4294967291;
  return number;
}

/** Return what was drawn in one line; of very much, a digest, so that each change shows. */
function briefly(drawn) {
  const text = drawn.join("; ");
  return drawn.length > 60 ? `${drawn[0]}; ${drawn[1]}; ... ${drawn.length} of digest ${digest(text)}` : text;
}

const PROPERTIES = ["disabled", "checked", "open", "inert", "title", "tabIndex", "max", "step", "placeholder"], LEFT_OUT = new Set(["class", "type", "value", "hidden", ...PROPERTIES]);

/** Return an element and all that can be seen inside it as lines, and what can be clicked or chosen there, each with the number of its line. */
export function outline(node, depth = 0, lines = [], uses = []) {
  const lead = " ".repeat(depth);
  if (node instanceof Text) {
    if (node.data) lines.push(`${lead}“${node.data}”`);
    return [lines, uses];
  }
  const { attributes, classList: { names }, listeners, style } = node;
  const shown = [];
  for (const name in attributes) if (!LEFT_OUT.has(name)) shown.push(`${name}=${attributes[name]}`);
  for (const name of PROPERTIES) {
    const value = node[name] ?? attributes[name];
    if (value !== undefined && value !== false && value !== "") shown.push(`${name}=${value}`);
  }
  const styles = style.cssText ? [style.cssText] : [];
  for (const name in style) if (name !== "cssText" && typeof style[name] === "string") styles.push(`${name}: ${style[name]}`);
  if (styles.length) shown.push(`{${styles.join("; ")}}`);
  if (node.tag === "select" || node.given !== undefined) shown.push(`= ${node.value}`);
  const plain = node.parts.length && node.parts.every((part) => part instanceof Text || part.tag === "wbr");
  if (!node.hidden && !node.disabled && (listeners.click || (listeners.change && node.tag === "select"))) uses.push([lines.length, node]);
  lines.push(lead + [[node.tag, ...[...names].sort()].join("."), node.hidden && "hidden", ...shown, plain && `“${node.parts.map((part) => (part.tag === "wbr" ? "¦" : part.data)).join("")}”`].filter(Boolean).join(" "));
  if (node.hidden) return [lines, uses];
  if (node.tag === "canvas" && (node.image || node.drawn)) lines.push(`${lead}  | ${briefly([...(node.image ? [pixels(node)] : []), ...(node.drawn ?? [])])}`);
  if (node.tag === "datalist") lines.push(`${lead}  ${node.options.map((one) => one.value).join(" | ")}`);
  else if (!plain) for (const part of node.parts) outline(part, depth + 1, lines, uses);
  return [lines, uses];
}
