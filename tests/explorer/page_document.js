// As much of a browser's document as the page needs to build its elements; the tests read them as text.

class Node {
  constructor(tag) {
    Object.assign(this, { tag, parts: [], attributes: {}, listeners: {}, dataset: {}, hidden: false, isConnected: true, clientWidth: 400, clientHeight: 300,
      clientLeft: 0, clientTop: 0, offsetWidth: 400, offsetHeight: 300, scrollLeft: 0, scrollTop: 0 });
    this.style = { cssText: "" };
    const names = new Set();
    this.classList = { toggle: (name, on) => names[on ? "add" : "delete"](name), contains: (name) => names.has(name), names };
  }
  append(...parts) { this.parts.push(...parts.map((part) => (part instanceof Node ? part : String(part)))); }
  replaceChildren(...parts) { this.parts = []; this.append(...parts); }
  addEventListener(name, listener) { this.listeners[name] = listener; }
  setAttribute(name, value) {
    this.attributes[name] = String(value);
    if (name === "class") for (const one of String(value).split(" ")) this.classList.toggle(one, true);
    if (name.startsWith("data-")) this.dataset[name.slice(5)] = String(value);
    if (name === "value") this.value = value;
    if (["disabled", "hidden", "checked", "open"].includes(name)) this[name] = true;
  }
  get value() {
    if (this.tag !== "select") return this.given ?? "";
    const options = this.querySelectorAll("option");
    return (options.find((one) => one.given === this.given) ?? options.find((one) => "selected" in one.attributes) ?? options[0])?.value ?? "";
  }
  set value(value) { this.given = String(value); }
  get childElementCount() { return this.children.length; }
  contains(other) { return this === other || this.children.some((part) => part.contains(other)); }
  closest() { return this; }
  getBoundingClientRect() { return { left: 0, top: 0, right: 400, bottom: 300, width: 400, height: 300 }; }
  scrollTo() {}
  getContext() { return context; }
  removeAttribute(name) { delete this.attributes[name]; }
  focus() {}
  select() {}
  get children() { return this.parts.filter((part) => part instanceof Node); }
  get options() { return this.children; }
  get firstChild() { return this.parts[0] ?? null; }
  get textContent() { return this.parts.map((part) => part.textContent ?? part).join(""); }
  set textContent(text) { this.parts = [text]; }
  querySelectorAll(selector) { return this.children.flatMap((part) => [...(part.is(selector) ? [part] : []), ...part.querySelectorAll(selector)]); }
  querySelector(selector) { return this.querySelectorAll(selector)[0] ?? null; }
  is(selector) {
    if (selector.startsWith(".")) return this.classList.contains(selector.slice(1));
    return selector.startsWith("[") ? selector.slice(1, -1) in this.attributes : this.tag === selector;
  }
}

/** What is drawn on a canvas is not looked at, but for the colours of its pixels. */
const context = new Proxy({ createImageData: (width, height) => ({ data: new Uint8ClampedArray(4 * width * height) }), measureText: (text) => ({ width: 6 * text.length }) },
  { get: (known, name) => known[name] ?? (() => {}), set: () => true });

globalThis.ResizeObserver = globalThis.IntersectionObserver = class { observe() {} unobserve() {} };
globalThis.getComputedStyle = () => ({ getPropertyValue: () => "", paddingLeft: "0", paddingTop: "0" });
globalThis.document = {
  createElement: (tag) => new Node(tag), createElementNS: (_, tag) => new Node(tag), addEventListener: () => {}, removeEventListener: () => {},
  documentElement: new Node("html"),
};
globalThis.devicePixelRatio = 1;
globalThis.matchMedia = () => ({ matches: true });
Map.groupBy ??= (items, keyOf) => {
  const groups = new Map();
  for (const item of items) groups.set(keyOf(item), [...(groups.get(keyOf(item)) ?? []), item]);
  return groups;
};

/** Return an empty element. */
export function element() {
  return new Node("div");
}

/** Return the texts of the elements that a selector finds. */
export function texts(root, selector) {
  return root.querySelectorAll(selector).map((one) => one.textContent);
}
