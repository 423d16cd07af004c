"use strict";
// Elements of all pages. Texts go into a page as text, never as HTML.
const data = JSON.parse(document.getElementById("data").textContent);

function make(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) element.setAttribute(name, value);
  element.append(...children);
  return element;
}
const at = (id) => document.getElementById(id);
const show = (id) => { at(id).hidden = false; };
const fixed = (value, digits) => value.toFixed(digits);
const percent = (share, digits = 1) => fixed(100 * share, digits) + "%";
const seconds = (value) => fixed(value, value < 0.1 ? 6 : 3);

function scaled(value, step, units) {
  let unit = 0;
  while (Math.abs(value) >= step && unit + 1 < units.length) { value /= step; ++unit; }
  return [value, units[unit]];
}
function bytes(value) {
  const [number, unit] = scaled(value, 1024, ["B", "KiB", "MiB", "GiB", "TiB", "PiB"]);
  return fixed(number, unit === "B" ? 0 : 2) + " " + unit;
}
function count(value) {
  const [number, unit] = scaled(value, 1000, ["", "k", "M", "G", "T", "P"]);
  return (unit === "" ? String(number) : fixed(number, 1)) + (unit && " " + unit);
}

function bar(parts, whole, tall) {
  const line = make("div", {class: tall ? "bar tall" : "bar"});
  for (const [name, color, value] of parts) {
    if (!(value > 0)) continue;
    const part = make("span", {title: name});
    part.style.width = 100 * value / whole + "%";
    part.style.background = color;
    line.append(part);
  }
  return line;
}
// Cells are texts or elements; a title that begins with "<" is of a column to the left.
function table(titles, rows, total = false) {
  const left = titles.map((title) => title.startsWith("<"));
  const cell = (tag, content, i) => make(tag, left[i] ? {class: "left"} : {}, content);
  const head = make("tr", {}, ...titles.map((title, i) => cell("th", title.replace("<", ""), i)));
  const lines = rows.map((cells) => make("tr", {}, ...cells.map((content, i) => cell("td", content, i))));
  if (total) lines[lines.length - 1].className = "total";
  return make("table", {}, make("thead", {}, head), make("tbody", {}, ...lines));
}
function named(name, color) {
  const swatch = make("span", {class: "swatch"});
  swatch.style.background = color;
  return make("span", {}, swatch, name);
}
