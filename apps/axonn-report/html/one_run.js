// The sections of one run: where the time of a step goes, memory, starts, slow ranks, samples.
const TIME = [
  ["forward", "#5b7fa6", "seconds.forward"],
  ["backward", "#7f9dbd", "seconds.backward"],
  ["optimizer", "#a9bdd3", "seconds.optimizer"],
];
const BESIDES = [["saves before a step", "seconds.checkpoint"], ["validation and samples", "seconds.validation"]];
const KINDS = [
  ["all-reduces of activations", "all_reduce", "#c8553d"],
  ["all-gathers of weights", "all_gather", "#e0a458"],
  ["reduce-scatters of gradients", "reduce_scatter", "#efcf9c"],
  ["gradients over data", "data", "#8a6fa8"],
  ["updated weights", "update", "#b9a3cf"],
];
const MEMORY = [
  ["weights and masters", "#5b7fa6", (m) => m.weights],
  ["gradients", "#7f9dbd", (m) => m.gradients],
  ["optimizer", "#a9bdd3", (m) => m.optimizer],
  ["gathered, scattered", "#e0a458", (m) => m.gathered],
  ["activations", "#4f9d69", (m) => m.activations],
  ["logits or one block", "#8a6fa8", (m) => Math.max(m.logits || 0, m.block || 0)],
];

const isNumber = (value) => typeof value === "number";
const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
const textOf = (value) => (typeof value === "string" ? value : isNumber(value) ? String(value) : "");
const average = (run, key) => { const curve = curveOf(run, key); return curve ? curve.average : undefined; };
const newest = (run) => run.starts[run.starts.length - 1] || {};
const environmentOf = (start) => (isObject(start.environment) ? start.environment : {});
const numbersOf = (value) =>
  Object.fromEntries(Object.entries(isObject(value) ? value : {}).filter(([, one]) => isNumber(one)));
const none = (words) => make("p", {class: "note"}, words);

function drawTime(run) {
  const step = average(run, "seconds.step");
  if (!isNumber(step)) return [none("not measured")];
  const parts = TIME.map(([name, color, key]) => [name, color, average(run, key) || 0]);
  const known = parts.reduce((sum, [, , value]) => sum + value, 0);
  if (step > known) parts.push(["other", "#cfd6de", Number((step - known).toPrecision(6))]);
  const exposed = average(run, "seconds.communication_exposed");
  const rows = parts.map(([name, color, value]) => [named(name, color), seconds(value), percent(value / step)]);
  rows.push(["a step", seconds(step), "100.0%"]);
  const whole = table(["<part, greatest over the ranks", "seconds", "share"], rows, true);
  const notes = isNumber(exposed) ? [make("p", {}, `Within them, waiting for collectives: ${seconds(exposed)} s, ` +
    `${percent(exposed / step)} of a step.`)] : [];
  for (const [words, key] of BESIDES) {
    const value = average(run, key);
    if (value > 0) notes.push(make("p", {}, `Besides: ${words}, ${seconds(value)} s per step.`));
  }
  return [bar(parts, Math.max(step, known), true), whole, ...notes];
}

function drawCommunication(run) {
  const of = (kind, part) => average(run, `communication.${kind}.${part}`);
  const inMetrics = Object.keys(run.metrics.curves).map((key) => key.match(/^communication\.(.+)\.exposed_seconds$/))
    .filter(Boolean).map((found) => found[1]);
  const others = inMetrics.filter((kind) => !KINDS.some(([, known]) => known === kind));
  const kinds = [...KINDS, ...others.map((kind) => [kind, kind, "#6b7280"])]
    .filter(([, kind]) => isNumber(of(kind, "exposed_seconds")));
  if (kinds.length === 0) return [none("none: one rank, or not measured")];
  const cells = (part) => [seconds(part("exposed_seconds")), seconds(part("hidden_seconds")), bytes(part("bytes")),
    count(Math.round(part("collectives")))];
  const sum = (part) => kinds.reduce((all, [, kind]) => all + (of(kind, part) || 0), 0);
  const rows = kinds.map(([name, kind, color]) => [named(name, color), ...cells((part) => of(kind, part) || 0)]);
  rows.push(["all", ...cells(sum)]);
  const bars = kinds.map(([name, kind, color]) => [name, color, of(kind, "exposed_seconds")]);
  const step = average(run, "seconds.step") || sum("exposed_seconds");
  return [bar(bars, step, true), none("the bar: exposed seconds within a step"),
    table(["<kind", "exposed s", "hidden s", "bytes", "collectives"], rows, true)];
}

function drawMemory(run) {
  const measured = curveOf(run, "peak_memory_bytes"), environment = environmentOf(newest(run));
  const predicted = numbersOf(environment.predicted_memory);
  const parts = MEMORY.map(([name, color, value]) => [name, color, value(predicted)])
    .filter(([, , value]) => value > 0);
  const peak = measured ? measured.last : undefined, whole = Math.max(predicted.total || 0, peak || 0);
  if (!(whole > 0)) return [none("neither predicted nor measured")];
  const rows = parts.map(([name, color, value]) => [named(name, color), bytes(value)]);
  if (predicted.total > 0) rows.push(["predicted", bytes(predicted.total)]);
  rows.push(["measured peak", peak > 0 ? bytes(peak) : "not measured"]);
  const notes = environment.device === "cpu" ? [none("Measured on CPUs: the whole process, with its libraries.")] : [];
  return [bar(parts, whole, true), bar([["measured peak", "#586577", peak]], whole, true),
    table(["<part", "bytes"], rows), ...notes];
}

function drawStarts(run) {
  if (run.starts.length === 0) return [none("not known")];
  const rows = run.starts.map((start) => {
    const environment = environmentOf(start);
    const hosts = environment.hosts, alone = Array.isArray(hosts) && isObject(hosts[0]) ? hosts[0] : {};
    const host = isNumber(hosts) ? `${hosts} hosts` : textOf(alone.name);
    return [textOf(start.step), textOf(environment.time), textOf(start.ranks), textOf(environment.grid), host,
      textOf(environment.axonn)];
  });
  return [table(["after step", "time (UTC)", "ranks", "grid", "<host", "<version"], rows)];
}

function drawSample(sample) {
  const head = make("p", {class: "note"}, `step ${sample.step}`);
  if (sample.image === undefined) return make("div", {}, head, make("pre", {}, sample.text));
  return make("div", {}, head,
    make("img", {src: "data:image/png;base64," + sample.image, alt: `samples of step ${sample.step}`}));
}

function settingsText(configuration, indent = "") {
  return Object.entries(configuration).map(([key, value]) =>
    isObject(value) ? `[${key}]\n${settingsText(value)}\n` : `${key} = ${JSON.stringify(value)}`).join("\n");
}

function factsOf(run) {
  const environment = environmentOf(newest(run)), status = run.status;
  return [textOf(status.state) || "state not known", `step ${run.steps}` + (run.wanted ? ` of ${run.wanted}` : ""),
    textOf(status.reason), status.time ? `seen ${textOf(status.time)}` : "", textOf(environment.machine),
    environment.device && environment.device !== "cpu" ? textOf(environment.device) : "",
    environment.axonn ? `axonn ${textOf(environment.axonn)}, LibTorch ${textOf(environment.libtorch)}` : "",
    [textOf(environment.transport), textOf(environment.library)].filter(Boolean).join(", "), run.directory,
  ].filter(Boolean).join("; ");
}

function problemsOf(run) {
  const notFinite = Object.entries(run.metrics.curves).filter(([, curve]) => curve.not_finite).map(([key, curve]) =>
    `${key} is not finite in ${curve.not_finite[0]} ${curve.not_finite[0] === 1 ? "step" : "steps"}, first in step ` +
    `${curve.not_finite[1]}`);
  return [...run.problems, ...notFinite, ...(run.steps === 0 ? ["no step is done yet"] : [])];
}

function drawOneRun(run) {
  at("run-problems").replaceChildren(...problemsOf(run).map((text) => make("p", {class: "warning"}, text)));
  at("run-facts").textContent = factsOf(run);
  at("time").replaceChildren(...drawTime(run));
  at("communication").replaceChildren(...drawCommunication(run));
  at("memory").replaceChildren(...drawMemory(run));
  at("starts").replaceChildren(...drawStarts(run));
  at("stragglers-part").hidden = run.stragglers.length === 0;
  at("stragglers").replaceChildren(table(["step", "<"], run.stragglers.map((one) => [String(one.step), one.text])));
  for (const cell of at("stragglers").querySelectorAll("td.left")) cell.classList.add("words");
  at("samples-part").hidden = run.samples.length === 0;
  at("samples").replaceChildren(...[...run.samples].reverse().map(drawSample));
  const start = newest(run), command = environmentOf(start).command;
  at("command").textContent = Array.isArray(command) ? command.map(textOf).join(" ") : "not known";
  at("settings").textContent = isObject(start.configuration) ? settingsText(start.configuration) : "not known";
}
