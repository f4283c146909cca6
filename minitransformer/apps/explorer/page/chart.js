// Line charts as SVG: axes with few labels, linear or logarithmic, and as many lines as there are.

import { el, number, svg } from "./dom.js";
import { t } from "./words.js";

const LEFT = 52, RIGHT = 12, TOP = 10, BOTTOM = 34;

/**
 * Return a chart.
 *
 * lines: [{name, points: [[x, y]...], className}]; label: what a screen reader says; xName, yName: names of the axes;
 * logX, logY: logarithmic axes, where values of 0 and below are left out; marker: an x with a vertical line;
 * dots: draw a dot at each point, with its numbers in a tooltip.
 */
export function chart({ lines, label, xName, yName, logX = false, logY = false, marker, dots, width = 360, height = 210 }) {
  const shown = lines.map((line) => ({
    ...line, points: line.points.filter(([x, y]) => Number.isFinite(x) && Number.isFinite(y) && (!logX || x > 0) && (!logY || y > 0)),
  }));
  const all = shown.flatMap((line) => line.points);
  if (!all.length) return el("p", { class: "muted" }, t("There is nothing to draw: every value is 0 or missing."));
  const across = axis(all.map(([x]) => x), logX, LEFT, width - RIGHT);
  const up = axis(all.map(([, y]) => y), logY, height - BOTTOM, TOP);
  return svg("svg", {
    class: "chart", role: "img", "aria-label": label, viewBox: `0 0 ${width} ${height}`, width, height,
  },
  up.ticks.map((y) => [
    svg("line", { class: "grid", x1: LEFT, x2: width - RIGHT, y1: up.at(y), y2: up.at(y) }),
    svg("text", { x: LEFT - 6, y: up.at(y) + 4, "text-anchor": "end" }, tickText(y, logY)),
  ]),
  across.ticks.map((x) => [
    svg("line", { class: "grid", x1: across.at(x), x2: across.at(x), y1: TOP, y2: height - BOTTOM }),
    svg("text", { x: across.at(x), y: height - BOTTOM + 14, "text-anchor": "middle" }, tickText(x, logX)),
  ]),
  svg("text", { x: (LEFT + width - RIGHT) / 2, y: height - 4, "text-anchor": "middle" }, xName),
  svg("text", { class: "y-name", x: -(TOP + height - BOTTOM) / 2, y: 11, "text-anchor": "middle", transform: "rotate(-90)" }, yName),
  marker === undefined ? null : svg("line", { class: "marker", x1: across.at(marker), x2: across.at(marker), y1: TOP, y2: height - BOTTOM }),
  shown.map((line, i) => svg("g", { class: `line ${line.className ?? `line-${i % 8}`}` },
    svg("polyline", { points: line.points.map(([x, y]) => `${across.at(x).toFixed(1)},${up.at(y).toFixed(1)}`).join(" ") },
      svg("title", {}, line.name)),
    dots ? line.points.map(([x, y]) => svg("circle", { cx: across.at(x), cy: up.at(y), r: 3.5 },
      svg("title", {}, `${xName} ${number(x)}: ${yName} ${number(y)}`))) : null)));
}

/** Return the names of the lines, each with a sample of its colour. */
export function chartKey(lines) {
  return el("ul", { class: "legend" }, lines.map((line, i) => el("li", {},
    svg("svg", { width: 22, height: 10, "aria-hidden": "true" },
      svg("g", { class: `line ${line.className ?? `line-${i % 8}`}` }, svg("polyline", { points: "1,5 21,5" }))),
    ` ${line.name}`)));
}

function tickText(x, log) {
  return log && (x >= 1e3 || x <= 1e-2) ? `10${superscript(Math.round(Math.log10(x)))}` : number(x, 3);
}

function superscript(n) {
  return [...String(n)].map((sign) => (sign === "-" ? "⁻" : "⁰¹²³⁴⁵⁶⁷⁸⁹"[sign])).join("");
}

function axis(values, log, from, to) {
  const forward = log ? Math.log10 : (x) => x;
  const backward = log ? (x) => 10 ** x : (x) => x;
  let least = Math.min(...values.map(forward)), most = Math.max(...values.map(forward));
  if (log) [least, most] = [Math.floor(least + 1e-9), Math.ceil(most - 1e-9)];
  if (most - least < 1e-12) [least, most] = log ? [least - 1, most + 1] : [least - (Math.abs(least) || 1) / 2, most + (Math.abs(most) || 1) / 2];
  const step = log ? Math.max(1, Math.ceil((most - least) / 5)) : niceStep((most - least) / 4);
  const ticks = [];
  for (let i = Math.ceil(least / step - 1e-9); i * step <= most + step * 1e-9; i += 1) ticks.push(backward(+(i * step).toPrecision(12)));
  return { ticks, at: (x) => from + (to - from) * (forward(x) - least) / (most - least) };
}

function niceStep(rough) {
  const size = 10 ** Math.floor(Math.log10(rough));
  return size * [1, 2, 2.5, 5, 10].find((factor) => factor * size >= rough);
}
