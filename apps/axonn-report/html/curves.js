// Curves of the metrics, one figure per key, one line per run. A bin of several steps has its mean
// on the line, within a band from its least to its greatest number.
const COLORS = ["#2c5c8f", "#c8553d", "#4f9d69", "#8a6fa8", "#e0a458", "#3c9aa8", "#a8577e", "#6b7280"];
const drawn = data.runs.filter((run) => run.drawn && run.steps > 0);
const colorOf = (run) => COLORS[data.runs.indexOf(run) % COLORS.length];
const FIRST = ["loss", "validation_loss", "tokens_per_second", "images_per_second", "utilisation", "hidden_share",
  "learning_rate", "gradient_norm"];
const SECONDS_AXIS = "seconds so far", TERMS_AXIS = "terms so far";
const WIDTH = 560, HEIGHT = 250, LEFT = 70, RIGHT = 548, TOP = 12, BOTTOM = 216, LABEL = 56;

const curveOf = (run, key) => (Object.hasOwn(run.metrics.curves, key) ? run.metrics.curves[key] : undefined);
const isBytes = (key) => key.endsWith("_bytes") || key.endsWith(".bytes");
function valueText(key, value) {
  if (isBytes(key)) return bytes(value);
  if (key.endsWith("_share") || key === "utilisation") return percent(value);
  if (Math.abs(value) >= 10000) return count(value);
  return String(Number(value.toPrecision(4)));
}

function tickText(key, value) {
  if (!isBytes(key)) return valueText(key, value);
  const [number, unit] = bytes(value).split(" ");
  return `${Number(number)} ${unit}`;
}

const placeText = (value) => count(Number(value.toPrecision(5)));

// Keys of all runs: those that come first above, then others as they come.
function keysOf(wanted) {
  const all = new Set(drawn.flatMap((run) => Object.keys(run.metrics.curves)).filter(wanted));
  return [...FIRST.filter((key) => all.has(key)), ...[...all].filter((key) => !FIRST.includes(key))];
}

function axisOf(run, over) {
  const axis = run.metrics.axes[over];
  return over === SECONDS_AXIS ? axis.map((value) => value / 3600) : axis;
}
function pointsOf(run, key, over) {
  const curve = curveOf(run, key);
  if (!curve) return [];
  const axis = axisOf(run, over);
  return curve.mean.map((mean, i) => ({
    x: axis[curve.at ? curve.at[i] : i], mean,
    least: curve.least ? curve.least[i] : mean,
    most: curve.most ? curve.most[i] : mean,
  }));
}

// Round numbers of units from least to most, three to eight.
function ticks(least, most, unit) {
  const rough = (most - least) / unit / 3, power = 10 ** Math.floor(Math.log10(rough));
  const step = [5, 2, 1].map((factor) => factor * power).find((one) => one <= rough) || power;
  const first = Math.ceil(least / unit / step), after = Math.floor(most / unit / step) + 1;
  return Array.from({length: after - first}, (_, i) => Number(((first + i) * step).toPrecision(12)) * unit);
}
const unitOf = (value) => 1024 ** Math.max(0, Math.floor(Math.log(value) / Math.log(1024)));
function powers(least, most) {
  const found = [];
  for (let i = Math.ceil(Math.log10(least)); i <= Math.log10(most); ++i) found.push(10 ** i);
  return found.length > 1 ? found : [least, most];
}
// The place of a value between two ends; logarithms if they are asked for and possible.
function scale(values, from, to, {logarithms = false, inBytes = false} = {}) {
  let least = Math.min(...values), most = Math.max(...values);
  const log = logarithms && least > 0;
  if (least === most) {
    const room = Math.abs(least) / 10 || 1;
    least -= room;
    most += room;
  }
  const f = log ? Math.log : (value) => value;
  const place = (value) => from + (to - from) * (f(value) - f(least)) / (f(most) - f(least));
  return {place, least, most, ticks: log ? powers(least, most) : ticks(least, most, inBytes ? unitOf(most) : 1)};
}

const makeSvg = (tag) => document.createElementNS(at("blank").namespaceURI, tag);
function svgMaker(svg) {
  return (tag, attributes, text) => {
    const element = makeSvg(tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    if (text !== undefined) element.textContent = text;
    svg.append(element);
    return element;
  };
}
const path = (points, across, up, value) =>
  points.map((point) => `${across(point.x).toFixed(1)},${up(point[value]).toFixed(1)}`);

function drawFrame(draw, key, across, up) {
  for (const value of up.ticks) {
    const y = up.place(value);
    draw("line", {x1: LEFT, x2: RIGHT, y1: y, y2: y, stroke: "#e7ebf0"});
    draw("text", {x: LEFT - 6, y: y + 4, "text-anchor": "end", fill: "#586577"}, tickText(key, value));
  }
  for (const value of across.ticks) {
    const x = Math.min(across.place(value), WIDTH - LABEL / 2);
    draw("text", {x, y: BOTTOM + 20, "text-anchor": "middle", fill: "#586577"}, placeText(value));
  }
}
// Dashed lines at the steps at which a job began again.
function drawRestarts(draw, run, across, over) {
  const steps = run.metrics.axes.step, axis = axisOf(run, over);
  for (const start of run.starts.slice(1)) {
    const place = steps.findIndex((step) => step > start.step);
    if (place < 0) continue;
    const x = across.place(axis[place]);
    draw("line", {x1: x, x2: x, y1: TOP, y2: BOTTOM, stroke: colorOf(run), "stroke-dasharray": "2 4",
      class: "restart"});
  }
}
function drawRun(draw, run, points, across, up) {
  const color = colorOf(run);
  if (points.some((point) => point.most > point.least)) {
    const band = [...path(points, across, up, "most"), ...path(points, across, up, "least").reverse()];
    draw("polygon", {points: band.join(" "), fill: color, opacity: 0.16, class: "band"});
  }
  if (points.length === 1) draw("circle", {cx: across(points[0].x), cy: up(points[0].mean), r: 3, fill: color});
  const line = path(points, across, up, "mean").join(" ");
  draw("polyline", {points: line, fill: "none", stroke: color, "stroke-width": 1.5, class: "line"});
}

function nearest(points, x) {
  return points.reduce((best, point) => (Math.abs(point.x - x) < Math.abs(best.x - x) ? point : best));
}
// The values beside the pointer.
function follow(svg, output, key, across, lines) {
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    const share = ((event.clientX - box.left) / box.width * WIDTH - LEFT) / (RIGHT - LEFT);
    const x = across.least + share * (across.most - across.least);
    const texts = lines.map(([run, points]) => {
      const point = nearest(points, x);
      return `${drawn.length > 1 ? run.name + " " : ""}${valueText(key, point.mean)} at ${placeText(point.x)}`;
    });
    output.textContent = texts.join(", ");
  });
  svg.addEventListener("pointerleave", () => { output.textContent = ""; });
}

function figure(key, over, logarithms) {
  const lines = drawn.map((run) => [run, pointsOf(run, key, over)]).filter(([, points]) => points.length > 0);
  if (lines.length === 0) return null;
  const all = lines.flatMap(([, points]) => points);
  const across = scale(all.map((point) => point.x), LEFT, RIGHT);
  const up = scale(all.flatMap((point) => [point.least, point.most]), BOTTOM, TOP,
    {logarithms, inBytes: isBytes(key)});
  const svg = makeSvg("svg");
  svg.setAttribute("viewBox", `0 0 ${WIDTH} ${HEIGHT}`);
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", key);
  const draw = svgMaker(svg);
  drawFrame(draw, key, across, up);
  for (const [run, points] of lines) {
    drawRestarts(draw, run, across, over);
    drawRun(draw, run, points, across.place, up.place);
  }
  const output = make("output", {});
  follow(svg, output, key, across, lines);
  return make("figure", {"data-key": key}, make("figcaption", {}, key, output), svg);
}
