// The numbers are those of axonn-config --json.
const inputs = data.ranking || data.scaling;
const AXES = ["x", "y", "z", "data"];
const PARTS = [
  ["forward", "#5b7fa6", (l) => l.forward_seconds],
  ["backward", "#7f9dbd", (l) => l.backward_seconds],
  ["optimizer", "#a9bdd3", (l) => l.optimizer_seconds],
  ["longer by all-reduces", "#c8553d", (l) => l.exposed_seconds.all_reduce],
  ["longer by gathers and scatters", "#e0a458", (l) => l.exposed_seconds.gather_scatter],
  ["longer by data", "#8a6fa8", (l) => l.exposed_seconds.data],
  ["longer by keys and values", "#4f9d69", (l) => l.exposed_seconds.context],
  ["pipeline waits", "#8b949e", (l) => l.pipeline_seconds],
];
const MEMORY = [
  ["weights and masters", "#5b7fa6", (m) => m.weights],
  ["gradients", "#7f9dbd", (m) => m.gradients],
  ["optimizer", "#a9bdd3", (m) => m.optimizer],
  ["gathered, scattered", "#e0a458", (m) => m.gathered],
  ["cache", "#efcf9c", (m) => m.cache],
  ["activations", "#4f9d69", (m) => m.activations],
  ["logits or one block", "#8a6fa8", (m) => Math.max(m.logits, m.block)],
];
const COLLECTIVES = [
  ["all-gathers z", "all_gather_z"],
  ["reduce-scatters z", "reduce_scatter_z"],
  ["forward all-reduces", "all_reduce_forward"],
  ["backward all-reduces", "all_reduce_backward"],
  ["data all-reduces", "all_reduce_data"],
  ["keys and values", "context"],
];

const gridText = (layout) => layout.grid.join("x");
const passes = (l) => `${l.micro_batches} x ${l.micro_batch}${l.checkpoint ? " again" : ""}` +
  (l.context > 1 ? ` context ${l.context}` : "");
const partsOf = (layout) => PARTS.map(([name, color, value]) => [name, color, value(layout)]);
const memoryOf = (layout) => MEMORY.map(([name, color, value]) => [name, color, value(layout.memory)]);

// The layouts of one count of GPUs, or the best one of each count.
const source = data.ranking ? data.ranking.layouts.map((layout) => ({gpus: data.gpus, layout}))
                            : data.scaling.counts.filter((one) => one.layout);
const rows = source.map((one, i) => ({gpus: one.gpus, layout: one.layout, ...data.details[i]}));
const longest = Math.max(...rows.map((row) => row.layout.seconds));

const exposed = (layout) => layout.exposed_seconds;
const usesContext = rows.some((row) => exposed(row.layout).context > 0);
const COLUMNS = [
  {title: "rank", value: (r) => r.layout.rank, drop: !data.ranking},
  {title: "GPUs", value: (r) => r.gpus, drop: Boolean(data.ranking)},
  {title: "grid", left: true, value: (r) => r.layout.grid,
   cell: (r) => make("button", {type: "button"}, gridText(r.layout))},
  {title: "inside a node", left: true, value: (r) => r.place, hide: "more"},
  {title: "step s", value: (r) => r.layout.seconds, text: (v) => fixed(v, 3)},
  {title: "where the time goes", left: true, value: (r) => r.layout.exposed_share,
   cell: (r) => bar(partsOf(r.layout), longest)},
  {title: "compute", value: (r) => r.layout.compute_seconds, text: (v) => fixed(v, 3), hide: "some"},
  {title: "exposed AR", value: (r) => exposed(r.layout).all_reduce, text: (v) => fixed(v, 3), hide: "some"},
  {title: "AG/RS", value: (r) => exposed(r.layout).gather_scatter, text: (v) => fixed(v, 3), hide: "some"},
  {title: "data", value: (r) => exposed(r.layout).data, text: (v) => fixed(v, 3), hide: "some"},
  {title: "context", value: (r) => exposed(r.layout).context, text: (v) => fixed(v, 3), hide: "some",
   drop: !usesContext},
  {title: "exposed", value: (r) => r.layout.exposed_share, text: (v) => percent(v), hide: "more"},
  {title: "comm s", value: (r) => r.layout.communication_seconds, text: (v) => fixed(v, 4), hide: "some"},
  {title: "passes", value: (r) => passes(r.layout), order: (r) => [r.layout.micro_batches, r.layout.micro_batch],
   hide: "more"},
  {title: "memory", value: (r) => r.layout.memory_bytes, text: bytes},
  {title: "cached", value: (r) => r.layout.cached_share, text: (v) => percent(v, 0), hide: "some"},
  {title: inputs.tokens_are + "/s", value: (r) => r.layout.tokens_per_second, text: count, hide: "more"},
  {title: "of peak", value: (r) => r.layout.model_flops_utilisation, text: (v) => percent(v), hide: "more"},
  {title: "$ per step", value: (r) => r.layout.dollars_per_step, text: (v) => fixed(v, 4), hide: "some",
   drop: !rows.some((r) => r.layout.dollars_per_step > 0)},
  {title: "type", left: true, value: (r) => r.layout.precision, hide: "some",
   drop: new Set(rows.map((r) => r.layout.precision)).size < 2},
].filter((column) => !column.drop);

let sorted = {column: null, descending: false};
let chosen = rows[0];

function compare(a, b) {
  if (Array.isArray(a)) return a.map((one, i) => compare(one, b[i])).find((sign) => sign !== 0) || 0;
  return a < b ? -1 : a > b ? 1 : 0;
}
function classOf(column) {
  return [column.left ? "left" : "", column.hide || ""].join(" ").trim();
}
function textsOf(row) {
  return [gridText(row.layout), row.place, passes(row.layout), row.layout.precision].join(" | ");
}
function passesFilters(row) {
  const form = at("filters").elements;
  const other = (axis, i) => form[axis].value !== "" && Number(form[axis].value) !== row.layout.grid[i];
  if (AXES.some(other)) return false;
  if (form.memory.value !== "" && row.layout.memory_bytes > Number(form.memory.value) * 2 ** 30) return false;
  return textsOf(row).includes(form.words.value.trim());
}

function drawHead() {
  at("layouts").tHead.replaceChildren(make("tr", {}, ...COLUMNS.map((column) => {
    const button = make("button", {type: "button"}, column.title);
    button.addEventListener("click", () => sortBy(column));
    const cell = make("th", {class: classOf(column), scope: "col"}, button);
    if (sorted.column === column) cell.setAttribute("aria-sort", sorted.descending ? "descending" : "ascending");
    return cell;
  })));
}
function drawRows() {
  const shown = rows.filter(passesFilters);
  if (sorted.column) {
    const key = sorted.column.order || sorted.column.value;
    shown.sort((a, b) => (sorted.descending ? -1 : 1) * compare(key(a), key(b)));
  }
  at("layouts").tBodies[0].replaceChildren(...shown.map((row) => {
    const line = make("tr", row === chosen ? {class: "chosen"} : {}, ...COLUMNS.map((column) => {
      const content = column.cell ? column.cell(row) : (column.text || String)(column.value(row));
      return make("td", {class: classOf(column)}, content);
    }));
    line.addEventListener("click", () => choose(row));
    return line;
  }));
  at("shown").textContent = `${shown.length} of ${rows.length} layouts`;
}
function sortBy(column) {
  sorted = {column, descending: sorted.column === column && !sorted.descending};
  drawHead();
  drawRows();
}
function choose(row) {
  chosen = row;
  drawRows();
  drawGrid(row);
}

function drawFilters() {
  const form = at("filters");
  AXES.forEach((axis, i) => {
    const sizes = [...new Set(rows.map((row) => row.layout.grid[i]))].sort((a, b) => a - b);
    const options = sizes.map((size) => make("option", {value: size}, String(size)));
    form.elements[axis].append(make("option", {value: ""}, "any"), ...options);
  });
  form.addEventListener("input", drawRows);
  form.addEventListener("reset", () => setTimeout(drawRows));
  form.addEventListener("submit", (event) => event.preventDefault());
  at("legend").replaceChildren(...PARTS.filter(([, , value]) => rows.some((row) => value(row.layout) > 0))
      .map(([name, color]) => make("span", {}, named(name, color), "  ")));
}

function drawGrid(row) {
  const layout = row.layout, best = rows[0].layout, other = layout !== best && Boolean(data.ranking);
  at("grid-title").textContent = gridText(layout) + (data.ranking ? "" : ` on ${row.gpus} GPUs`);
  at("grid-facts").textContent = [
    `micro-batches: ${layout.micro_batches} x ${layout.micro_batch} ${data.samples} per rank`, layout.precision,
    layout.checkpoint ? "blocks run again" : "nothing run again",
    `${percent(layout.cached_share, 0)} of the gathered weights cached`, `inside a node: ${row.place}`,
    `${count(layout.tokens_per_second)} ${inputs.tokens_are}/s`,
    `${percent(layout.model_flops_utilisation)} of the peak`,
    `${percent(layout.hardware_flops_utilisation)} with what is run again`].join(", ");
  const signed = (value, text) => (value < 0 ? "-" : "+") + text(Math.abs(value));
  const against = (value, its, text) => other ? [signed(value - its, text)] : [];
  const titles = (first) => [...first, ...(other ? [`beside ${gridText(best)}`] : [])];

  const time = partsOf(layout).filter(([, , value], i) => value > 0 || PARTS[i][2](best) > 0);
  at("time").replaceChildren(bar(time, layout.seconds, true), table(titles(["<part", "seconds", "share"]), [
    ...time.map(([name, color, value]) => [named(name, color), seconds(value), percent(value / layout.seconds),
      ...against(value, PARTS.find((part) => part[0] === name)[2](best), seconds)]),
    ["a step", seconds(layout.seconds), "100.0%", ...against(layout.seconds, best.seconds, seconds)]], true));

  const memory = memoryOf(layout), room = data.usable_bytes;
  at("memory").replaceChildren(bar(memory, room, true), table(titles(["<part", "bytes", "share of its room"]), [
    ...memory.map(([name, color, value]) => [named(name, color), bytes(value), percent(value / room),
      ...against(value, MEMORY.find((part) => part[0] === name)[2](best.memory), bytes)]),
    ["total", bytes(layout.memory_bytes), percent(layout.memory_bytes / room),
      ...against(layout.memory_bytes, best.memory_bytes, bytes)]], true));

  at("collectives").replaceChildren(table(titles(["<collective", "seconds of a step"]), [
    ...COLLECTIVES.map(([name, key]) => [name, layout.collectives[key], best.collectives[key]])
        .filter(([, value, its]) => value > 0 || its > 0)
        .map(([name, value, its]) => [name, seconds(value), ...against(value, its, seconds)]),
    ["all", seconds(layout.communication_seconds),
      ...against(layout.communication_seconds, best.communication_seconds, seconds)]], true));

  const rings = Object.entries(row.terms.rings || {});
  at("rings").replaceChildren(rings.length === 0 ? make("p", {}, "none") :
    table(["<axis", "ranks", "GB/s", "latency us", "<level by level"], rings.map(([axis, ring]) => [
      axis, String(ring.ranks), fixed(ring.gbps, 2), fixed(ring.latency_seconds * 1e6, 1),
      ring.level_by_level ? "yes" : "no"])));

  const terms = ["forward_seconds", "all_gather_z", "reduce_scatter_z", "all_reduce_forward", "all_reduce_backward",
    "all_reduce_data"];
  at("layers").replaceChildren(table(["<layer", "times", "forward s", "all-gather z", "reduce-scatter z",
    "forward AR", "backward AR", "data AR"], row.terms.one_pass.map((layer) => [
      layer.name, String(layer.count), ...terms.map((key) => layer[key] > 0 ? seconds(layer[key]) : "")])));

  at("next").textContent = `axonn-config explain ${gridText(layout)}${data.flags}` +
    (data.launchable ? `\naxonn-config launch ${gridText(layout)}${data.flags} > run.sbatch` : "");
}

function drawFacts() {
  const room = `${bytes(data.memory_bytes)}, of which ${bytes(data.usable_bytes)} are for a rank`;
  const machine = `${inputs.machine} (${data.gpu}, ${room})`;
  const gpus = data.ranking ? `${data.gpus} GPUs of ${machine}` : `counts of GPUs of ${machine}`;
  document.title = `${inputs.model} on ${inputs.machine} - axonn-config`;
  at("title").textContent = `${inputs.model} on ${inputs.machine}`;
  at("facts").append(make("p", {}, data.network),
    make("p", {}, `${count(inputs.batch_tokens)} ${inputs.tokens_are} per batch, ${gpus}`),
    make("p", {}, `Bandwidths ${inputs.mode}, collectives as ${inputs.coefficients}, ranked by ${inputs.objective}; ` +
      `${data.band}; layouts within it of each other share a rank.`));
  for (const [id, text] of [["what-if", inputs.what_if], ["problem", data.problem]]) {
    if (!text) continue;
    at(id).textContent = text;
    show(id);
  }
  at("footer").textContent = `${data.program}. Seconds and bytes are predictions of its model, not measurements.`;
}

function drawScaling() {
  const counts = data.scaling.counts, found = counts.filter((one) => one.layout);
  if (counts.length < 2) return;
  show("scaling");
  if (found.length > 1) drawCurve(found);
  else at("curve").remove();
  const knee = data.scaling.knee;
  at("knee").textContent = knee === null ? "" :
    `Up to ${knee} GPUs keep ${percent(data.knee_share, 0)} of the first count's speed per GPU.`;
  const priced = found.some((one) => one.dollars_per_billion > 0);
  const titles = ["GPUs", "<best grid", "step s", inputs.tokens_are + "/s", "efficiency", "memory",
    `GPU hours per G ${inputs.tokens_are}`];
  at("counts").replaceChildren(table(priced ? [...titles, "$"] : titles, counts.map((one) => {
    const layout = one.layout;
    if (!layout) return [String(one.gpus), one.reason];
    const cells = [String(one.gpus), gridText(layout), fixed(layout.seconds, 3), count(layout.tokens_per_second),
      percent(one.efficiency), bytes(layout.memory_bytes), fixed(one.gpu_hours_per_billion, 1)];
    return priced ? [...cells, fixed(one.dollars_per_billion, 0)] : cells;
  })));
  for (const line of at("counts").querySelectorAll("tbody tr")) {
    if (line.cells.length !== 2) continue;
    line.cells[1].colSpan = titles.length;
    line.cells[1].style.whiteSpace = "normal";
  }
}

function drawCurve(found) {
  const svg = at("curve"), left = 70, right = 690, top = 20, bottom = 280;
  const draw = (tag, attributes, text) => {
    const element = document.createElementNS(svg.namespaceURI, tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    if (text !== undefined) element.textContent = text;
    svg.append(element);
  };
  const speed = (one) => one.layout.tokens_per_second, ideal = (one) => speed(one) / one.efficiency;
  const values = found.flatMap((one) => [speed(one), ideal(one)]);
  const axis = (least, most, from, to) => (value) =>
    most > least ? from + (to - from) * Math.log(value / least) / Math.log(most / least) : (from + to) / 2;
  const across = axis(found[0].gpus, found[found.length - 1].gpus, left, right);
  const up = axis(Math.min(...values), Math.max(...values), bottom, top);
  const points = (value) => found.map((one) => `${across(one.gpus)},${up(value(one))}`).join(" ");
  draw("polyline", {points: points(ideal), fill: "none", stroke: "#bbb", "stroke-width": 1.5});
  draw("polyline", {points: points(speed), fill: "none", stroke: "#5b7fa6", "stroke-width": 2});
  found.forEach((one, i) => {
    const label = {x: across(one.gpus), "text-anchor": "middle", class: i % 2 === 0 ? "even" : "odd"};
    const fill = one.gpus === data.gpus ? "#c8553d" : "#5b7fa6";
    draw("circle", {cx: across(one.gpus), cy: up(speed(one)), r: 5, fill});
    draw("text", {...label, y: bottom + 46}, String(one.gpus));
    draw("text", {...label, y: up(speed(one)) + 22}, percent(one.efficiency, 0));
  });
  draw("text", {x: (left + right) / 2, y: bottom + 72, "text-anchor": "middle"}, `GPUs (${data.gpu})`);
  draw("text", {x: 4, y: top}, count(Math.max(...values)));
  draw("text", {x: 4, y: bottom}, count(Math.min(...values)));
  draw("text", {x: 4, y: (top + bottom) / 2}, inputs.tokens_are + "/s");
}

function drawSensitivity() {
  const found = data.sensitivity;
  if (!found) return;
  show("sensitivity");
  at("draws").textContent =
    `Every constant of ${inputs.machine} times ${found.least_factor} to ${found.most_factor} at random, ` +
    `${found.draws} times: how often each grid is the best. ${gridText(rows[0].layout)} loses, where another is ` +
    `better: median ${percent(found.median_regret)}, worst ${percent(found.worst_regret)}.`;
  const best = Object.entries(found.best).sort((a, b) => b[1] - a[1]);
  at("winners").replaceChildren(table(["<grid", "times", "<"], best.map(([grid, times]) =>
    [grid, String(times), bar([[grid, "#5b7fa6", times]], found.draws)])));
}

function drawRejected() {
  const all = data.ranking ? data.ranking.rejected : [];
  if (all.length === 0) return;
  show("rejected");
  const reasons = new Map();
  for (const one of all) reasons.set(one.reason, [...(reasons.get(one.reason) || []), one]);
  at("reasons").replaceChildren(table(["<reason", "grids", "<closest"], [...reasons].map(([reason, grids]) => {
    const memory = reason === "memory";
    if (memory) grids.sort((a, b) => a.bytes_over - b.bytes_over);
    const over = (one) => (memory ? ` (${bytes(one.bytes_over)} too much)` : "");
    const texts = grids.slice(0, 3).map((one) => gridText(one) + over(one));
    return [memory ? `over ${bytes(data.usable_bytes)}` : `${reason} != 0`, String(grids.length), texts.join(", ")];
  })));
  for (const cell of at("reasons").querySelectorAll("td:last-child")) cell.style.whiteSpace = "normal";
}

drawFacts();
if (rows.length > 0) {
  show("ranking");
  show("grid");
  drawFilters();
  drawHead();
  choose(rows[0]);
}
drawScaling();
drawSensitivity();
drawRejected();
