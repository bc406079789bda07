"use strict";
// The differences of the two models that are picked; of each task also the rows on which only one of them is right.
(() => {
  const content = JSON.parse(document.getElementById("content").textContent);
  const [one, other] = ["one", "other"].map((id) => document.getElementById(id));
  const root = document.getElementById("pairs");
  const labels = Object.fromEntries(content.models);
  const order = content.models.map(([id]) => id);
  const SHOWN = 12;
  const LEAST = content.least;

  const signed = (value, digits) => `${value > 0 ? "+" : value < 0 ? "−" : ""}${Math.abs(value).toFixed(digits)}`;
  const pText = (p) => (p === null ? "–" : p < 0.001 ? "<\u00a00.001" : p.toFixed(3));

  function verdict(metric, difference, p, clusters) {
    if (clusters < LEAST) return "–";
    if (p === null) return el("span", { class: "badge" }, "not known");
    if (p >= 0.05) return el("span", { class: "badge" }, "no clear difference");
    if (metric.higher === null) return el("span", { class: "badge open" }, difference > 0 ? "A higher" : "B higher");
    const first = metric.higher === difference > 0;
    return el("span", { class: `badge ${first ? "a" : "b"}` }, first ? "A better" : "B better");
  }

  // The difference with its interval on a line with zero in the middle; "reach" is what both ends of the line stand for. An interval
  // that goes on beyond an end of the line has an arrow there.
  function bar(low, value, high, reach) {
    const place = (number) => `${50 + 50 * Math.max(-1, Math.min(1, number / reach))}%`;
    const line = el("span", { class: "forest", "aria-hidden": "true" });
    if (low !== null) {
      const span = el("i", { class: `span${low < -reach ? " on-left" : ""}${high > reach ? " on-right" : ""}` });
      span.style.left = place(low);
      span.style.right = `${100 - parseFloat(place(high))}%`;
      line.append(span);
    }
    const dot = el("i", { class: "dot" });
    dot.style.left = place(value);
    line.append(dot);
    return line;
  }

  function metricRow(metric, found, reach) {
    const [a, b, difference, low, high, p, adjusted, least, n, clusters] = found;
    const write = (value) => (metric.scale * value).toFixed(metric.digits).replace("-", "−");
    return el("tr", {},
      el("th", { scope: "row" }, metric.label, metric.unit ? el("small", {}, metric.unit) : null),
      el("td", { class: "number" }, write(a)), el("td", { class: "number" }, write(b)),
      el("td", { class: "number", "data-value": difference }, el("b", {}, signed(metric.scale * difference, metric.digits)),
        low === null ? null : el("small", {}, `${signed(metric.scale * low, metric.digits)} to ${signed(metric.scale * high, metric.digits)}`)),
      el("td", { class: "bar-cell", "data-value": difference }, bar(low, difference, high, reach),
        el("small", { class: "axis" }, [-1, 0, 1].map((end) => el("span", {}, signed(end * metric.scale * reach, metric.scale * reach >= 1 ? 0 : metric.digits))))),
      el("td", { class: "number", "data-value": adjusted ?? "" }, pText(adjusted), el("small", {}, `uncorrected ${pText(p)}`)),
      el("td", {}, verdict(metric, difference, adjusted, clusters)),
      el("td", { class: "number" }, least === null ? "–" : write(least)),
      el("td", { class: "number" }, n.toLocaleString("en")));
  }

  const scored = (task, found) => task.metrics.map((metric) => [metric, found.find(([name]) => name === metric.name)?.slice(1)]).filter(([, each]) => each);

  // All charts of a page have one axis for shares, which ends at 100 points.
  function taskTable(task, rows, all) {
    if (!rows.length) return el("p", { class: "quiet" }, "No row has a score of both models.");
    const reach = (metric) => {
      const alike = metric.unit === "%" ? all : rows;
      const ends = (few) => alike.filter(([each, found_]) => each.scale === metric.scale && (few || metric.unit === "%" || found_[9] >= LEAST))
        .flatMap(([, [, , value, low, high]]) => [value, low ?? value, high ?? value].map(Math.abs));
      const most = metric.scale * Math.max(...(ends(false).length ? ends(false) : ends(true)), 1e-6);
      const step = 10 ** Math.floor(Math.log10(most));
      const end = [1, 2, 5, 10].find((times) => times * step >= most * 0.999) * step;
      return (metric.unit === "%" ? Math.min(end, 100) : end) / metric.scale;
    };
    const head = ["Score", "A", "B", "A minus B", "Difference", "p, Holm", "Verdict", "Detectable", "Rows"];
    return el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": task.task }, el("table", { class: "data", "data-sortable": true },
      el("thead", {}, el("tr", {}, head.map((label, place) => el("th", { scope: "col", class: [1, 2, 3, 4, 5, 7, 8].includes(place) ? "number" : null }, label)))),
      el("tbody", {}, rows.map(([metric, each]) => metricRow(metric, each, reach(metric))))));
  }

  async function disagreements(task, a, b) {
    const [titles, rowsA, rowsB] = await Promise.all([lmf.get(`${task.id}.docs`), lmf.get(`${task.id}.${a}`), lmf.get(`${task.id}.${b}`)]);
    const outcomes = new Map(rowsB.map((row) => [row[0], row[1]]));
    const only = { a: [], b: [], both: 0, neither: 0 };
    for (const [place, outcome] of rowsA) {
      const theirs = outcomes.get(place);
      if (outcome > 1 || theirs === undefined || theirs > 1) continue;
      if (outcome === 0 && theirs === 0) only.both += 1;
      else if (outcome === 1 && theirs === 1) only.neither += 1;
      else (outcome === 0 ? only.a : only.b).push(place);
    }
    if (!only.a.length && !only.b.length && !only.both && !only.neither) return null;
    const list = (title, places, model) => el("div", {}, el("h4", {}, `${title}: ${places.length.toLocaleString("en")}`),
      el("ul", { class: "links" }, places.slice(0, SHOWN).map((place) => el("li", {},
        el("a", { href: `samples.html#${new URLSearchParams({ task: task.id, model, row: place, beside: model === a ? b : a })}`, dir: "auto" }, titles[place])))),
      places.length > SHOWN ? el("p", {}, el("a", { href: `samples.html#${new URLSearchParams({ task: task.id, model, beside: model === a ? b : a, outcome: "differ" })}` }, "all of them")) : null);
    return el("details", { class: "rows" },
      el("summary", {}, `${task.right}: both ${only.both}, only A ${only.a.length}, only B ${only.b.length}, neither ${only.neither}`),
      el("div", { class: "two" }, list("Only A", only.a, a), list("Only B", only.b, b)));
  }

  async function show() {
    const [a, b] = [one.value, other.value];
    writeState({ a, b });
    if (a === b) {
      root.replaceChildren(el("p", { class: "note" }, "Choose two different models."));
      return;
    }
    const isFlipped = order.indexOf(a) > order.indexOf(b);
    const [first, second] = isFlipped ? [b, a] : [a, b];
    const shared = content.tasks.filter((task) => task.models.includes(a) && task.models.includes(b));
    if (!shared.length) {
      root.replaceChildren(el("p", { class: "note" }, "These two have no task with samples in common."));
      return;
    }
    const found = (await lmf.get(`pairs.${first}`))[second] ?? {};
    const flip = ([name, x, y, difference, low, high, p, adjusted, least, n, clusters]) =>
      [name, y, x, -difference, high === null ? null : -high, low === null ? null : -low, p, adjusted, least, n, clusters];
    const pairs = shared.map((task) => scored(task, (found[task.id] ?? []).map((row) => (isFlipped ? flip(row) : row))));
    const sections = await Promise.all(shared.map(async (task, place) =>
      el("section", {}, el("h2", {}, task.task), taskTable(task, pairs[place], pairs.flat()), await disagreements(task, a, b))));
    const few = shared.filter((_, place) => pairs[place].some(([, each]) => each[9] < LEAST)).map((task) => task.task);
    if (few.length) sections.unshift(el("p", { class: "note" }, `Too few documents for a verdict on some scores of ${few.join(", ")}; ${LEAST} are needed.`));
    if (a === one.value && b === other.value) {
      root.replaceChildren(el("p", { class: "pair" }, el("span", { class: "named" }, el("span", { class: "badge a" }, "A"), el("span", { dir: "auto" }, labels[a])), el("span", { class: "named" }, el("span", { class: "badge b" }, "B"), el("span", { dir: "auto" }, labels[b]))), ...sections);
      dispatchEvent(new Event("drawn"));
    }
  }

  const fail = (error) => root.replaceChildren(el("p", { class: "warn" }, error.message));
  const state = readState();
  one.value = order.includes(state.a) ? state.a : order[0];
  // Without a wish, the two with the most tasks in common.
  const common = (a, b) => content.tasks.filter((task) => task.models.includes(a) && task.models.includes(b)).length;
  if (!order.includes(state.a) && !order.includes(state.b)) {
    const pairs = order.flatMap((a, place) => order.slice(place + 1).map((b) => [a, b, common(a, b)]));
    const most = pairs.reduce((best, pair) => (pair[2] > best[2] ? pair : best), pairs[0]);
    [state.a, state.b] = most;
    one.value = state.a;
  }
  other.value = order.includes(state.b) ? state.b : order.find((id) => id !== one.value && content.tasks.some((task) => task.models.includes(id) && task.models.includes(one.value))) ?? order[1];
  for (const field of [one, other]) field.addEventListener("change", () => show().catch(fail));
  document.getElementById("swap").addEventListener("click", () => {
    [one.value, other.value] = [other.value, one.value];
    show().catch(fail);
  });
  show().catch(fail);
})();
