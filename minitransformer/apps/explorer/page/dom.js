// Elements and text. Data reach the document as text only, never as markup.

import { t } from "./words.js";

const SVG = "http://www.w3.org/2000/svg";

/** Return a new element; attributes named on... are listeners, null and false leave an attribute out. */
export function el(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** Return a new SVG element. */
export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") element.style.cssText = value; // allowed where the attribute in markup is not
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** Return the elements of a formula, if it is to be narrow with one equation in each row. The MathML comes from formulas.json alone; anything but MathML is dropped. */
export function formula(mathml, narrow = false) {
  const parsed = new DOMParser().parseFromString(mathml, "text/html");
  if (narrow) {
    for (const row of parsed.querySelectorAll("mtr")) {
      for (const cell of [...row.children].slice(2).reverse()) {
        const next = row.cloneNode(false);
        next.append(row.children[0].cloneNode(false), cell);
        row.after(next);
      }
    }
  }
  const formulas = [...parsed.querySelectorAll("math")].map((math) => document.importNode(math, true));
  for (const math of formulas) {
    for (const node of math.querySelectorAll("*")) if (node.namespaceURI !== math.namespaceURI) node.remove();
    for (const node of [math, ...math.querySelectorAll("*")]) {
      for (const { name } of [...node.attributes]) if (/^on|href|src/i.test(name)) node.removeAttribute(name);
    }
  }
  return formulas;
}

/** Return a number as text with some significant digits: 0.01234, −1.5, 3.2e−7. */
export function number(x, digits = 4) {
  if (x === null || x === undefined) return "–";
  if (Number.isNaN(x)) return "NaN";
  if (!Number.isFinite(x)) return x > 0 ? "∞" : "−∞";
  if (x === 0) return "0";
  const size = Math.abs(x);
  const text = size >= 1e5 || size < 1e-3 ? x.toExponential(Math.max(digits - 2, 0)) : String(+x.toPrecision(digits));
  return text.replace("e+", "e").replaceAll("-", "−");
}

/** Return a shape as text: 1 × 9 × 64. */
export function shapeText(shape) {
  return shape.length ? shape.join(" × ") : t("scalar");
}

/** Return a probability as text: 97.3 %. */
export function percent(p) {
  return p > 0.9995 && p < 1 ? "> 99.9 %" : p < 0.0005 && p > 0 ? "< 0.1 %" : `${(100 * p).toFixed(1)} %`;
}

/** Return a key with places where a line may break: after a slash, a dot or an underscore. */
export function breakable(key) {
  return key.split(/(?<=[/._])/).flatMap((part, i) => (i ? [el("wbr"), part] : [part]));
}

/** Return a text as elements: what stands between backticks is code. */
export function withCode(text) {
  return text.split("`").map((part, i) => (i % 2 ? el("code", {}, part) : part));
}
