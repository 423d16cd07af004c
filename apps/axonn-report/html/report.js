// The table of runs, what is drawn and over which axis, and settings that differ.
const MOST_ROWS = 200;
const wantedSteps = (run) => {
  const configuration = newest(run).configuration;
  return isObject(configuration) && isObject(configuration.train) ? configuration.train.steps : undefined;
};
for (const run of data.runs) run.wanted = wantedSteps(run);
const termsOf = (run) => run.metrics.terms;
const lastOf = (run, key) => { const curve = curveOf(run, key); return curve ? curve.last : undefined; };
const lowestOf = (run, key) => { const curve = curveOf(run, key); return curve ? curve.lowest : undefined; };
const shown = (key) => (value) => valueText(key, value);

const COLUMNS = [
  {title: "run", left: true, value: (r) => r.name, cell: (r) => named(r.name, r.drawn ? colorOf(r) : "#fff")},
  {title: "state", left: true, value: (r) => textOf(r.status.state)},
  {title: "step", value: (r) => r.steps, text: String},
  {title: "loss", value: (r) => lastOf(r, "loss"), text: shown("loss")},
  {title: "lowest validation", value: (r) => lowestOf(r, "validation_loss"), text: shown("validation_loss")},
  {title: "per second", value: (r) => average(r, termsOf(r) + "_per_second"),
   text: (v, r) => `${count(Number(v.toPrecision(4)))} ${termsOf(r)}`, hide: "more"},
  {title: "of GEMM", value: (r) => average(r, "utilisation"), text: (v) => percent(v, 0), hide: "some"},
  {title: "hidden", value: (r) => average(r, "hidden_share"), text: (v) => percent(v, 0), hide: "some"},
  {title: "memory", value: (r) => lastOf(r, "peak_memory_bytes"), text: bytes, hide: "some"},
  {title: "ranks", value: (r) => newest(r).ranks, text: textOf, hide: "more"},
  {title: "grid", left: true, value: (r) => textOf(environmentOf(newest(r)).grid), hide: "more"},
  {title: "starts", value: (r) => (r.drawn ? r.starts.length : undefined), text: String, hide: "some"},
];
let sorted = {column: null, descending: false};

const classOf = (column) => [column.left ? "left words" : "", column.hide || ""].join(" ").trim();
function cellOf(column, run) {
  const value = column.value(run);
  if (column.cell) return column.cell(run);
  return value === undefined || value === null ? "" : (column.text || String)(value, run);
}
// Runs without a value come last.
function compare(a, b) {
  if (a === b) return 0;
  if (a === undefined || b === undefined) return a === undefined ? 1 : -1;
  return (sorted.descending ? -1 : 1) * (a < b ? -1 : 1);
}
function matching() {
  const words = at("run-words").elements.words.value.trim();
  const found = data.runs.filter((run) => COLUMNS.some((column) => String(column.value(run)).includes(words)));
  const {column} = sorted;
  return column ? found.sort((a, b) => compare(column.value(a), column.value(b))) : found;
}
function drawHead() {
  at("runs").tHead.replaceChildren(make("tr", {}, ...COLUMNS.map((column) => {
    const button = make("button", {type: "button"}, column.title);
    button.addEventListener("click", () => {
      sorted = {column, descending: sorted.column === column && !sorted.descending};
      drawTable();
    });
    const cell = make("th", {class: classOf(column), scope: "col"}, button);
    if (sorted.column === column) cell.setAttribute("aria-sort", sorted.descending ? "descending" : "ascending");
    return cell;
  })));
}
function drawTable() {
  drawHead();
  const found = matching();
  at("runs").tBodies[0].replaceChildren(...found.slice(0, MOST_ROWS).map((run) =>
    make("tr", {}, ...COLUMNS.map((column) => make("td", {class: classOf(column)}, cellOf(column, run))))));
  at("runs-shown").textContent = `${Math.min(found.length, MOST_ROWS)} of ${data.runs.length} runs`;
}

// The choices stand in the address, so that they outlive a renewal of the page.
const choices = new URLSearchParams(location.hash.slice(1));
function choose(name, value) {
  choices.set(name, String(value));
  location.replace("#" + choices);
}

const isPart = (key) => key.includes(".");
function drawFigures(id, wanted) {
  const form = at("axes").elements, words = form.words.value.trim();
  const keys = keysOf((key) => wanted(key) && key.includes(words));
  at(id).replaceChildren(...keys.map((key) => figure(key, form.over.value, form.log.checked)).filter(Boolean));
}
function drawCurves() {
  drawFigures("curves", (key) => !isPart(key));
  if (at("more").open) drawFigures("more-curves", isPart);
}
function readAxes() {
  const form = at("axes"), terms = new Set(drawn.map(termsOf));
  for (const [value, name] of [["step", "steps"], [TERMS_AXIS, [...terms].join(", ")], [SECONDS_AXIS, "hours"]])
    form.elements.over.append(make("option", {value}, name));
  form.elements.over.value = choices.get("over") || "step";
  if (form.elements.over.value === "") form.elements.over.value = "step";
  form.elements.log.checked = choices.get("log") === "true";
  const changed = () => {
    choose("over", form.elements.over.value);
    choose("log", form.elements.log.checked);
    drawCurves();
  };
  form.addEventListener("input", changed);
  form.addEventListener("reset", () => setTimeout(changed));
  form.addEventListener("submit", (event) => event.preventDefault());
  at("more").addEventListener("toggle", drawCurves);
  at("legend").replaceChildren(...drawn.flatMap((run) => [named(run.name, colorOf(run)), "  "]));
}

function readRuns() {
  const select = at("choose").elements.run, all = data.runs.filter((run) => run.drawn);
  select.append(...all.map((run, i) => make("option", {value: i}, run.name)));
  const before = Number(choices.get("run") || 0);
  select.value = String(before < all.length ? before : 0);
  at("choose").hidden = all.length < 2;
  at("choose").addEventListener("input", () => {
    choose("run", select.value);
    drawOneRun(all[Number(select.value)]);
  });
  drawOneRun(all[Number(select.value)]);
}

function flat(configuration, prefix = "") {
  return Object.entries(configuration).flatMap(([key, value]) =>
    isObject(value) ? flat(value, prefix + key + ".") : [[prefix + key, JSON.stringify(value)]]);
}
function drawDifferences() {
  const runs = data.runs.filter((run) => run.drawn && isObject(newest(run).configuration));
  const settings = runs.map((run) => new Map(flat(newest(run).configuration)));
  const keys = [...new Set(settings.flatMap((one) => [...one.keys()]))];
  const differing = keys.filter((key) => new Set(settings.map((one) => one.get(key))).size > 1);
  if (runs.length < 2 || differing.length === 0) return;
  show("differences-section");
  at("differences").replaceChildren(table(["<setting", ...runs.map((run) => "<" + run.name)],
    differing.map((key) => [key, ...settings.map((one) => one.get(key) || "")])));
}

function drawReport() {
  const names = data.runs.slice(0, 4).map((run) => run.name).join(", ") + (data.runs.length > 4 ? ", ..." : "");
  document.title = `${names} - axonn-report`;
  at("title").textContent = names;
  at("notes").replaceChildren(...data.notes.map((text) => make("p", {class: "warning"}, text)));
  at("footer").textContent = `${data.program}, written ${data.time}` +
    (data.renewed_every === null ? "." : `; renewed every ${Math.round(data.renewed_every)} s.`);
  at("run-words").hidden = data.runs.length < 10;
  at("run-words").addEventListener("input", drawTable);
  at("run-words").addEventListener("submit", (event) => event.preventDefault());
  drawTable();
  show("run-section");
  readRuns();
  if (drawn.length > 0) {
    show("curves-section");
    readAxes();
    drawCurves();
  }
  drawDifferences();
  if (data.renewed_every !== null) setTimeout(() => location.reload(), 1000 * data.renewed_every);
}
drawReport();
