"use strict";
// The sample browser: a list in pages, a row in full. Texts are loaded in chunks, for the row that is open or, to search, all of them.
(() => {
  const content = JSON.parse(document.getElementById("content").textContent);
  content.models = Object.fromEntries(content.models);
  const root = document.getElementById("browser");
  const PAGE = 50;
  const KINDS = ["good", "bad", "open", ""];
  const taskOf = (id) => content.tasks.find((task) => task.id === id);

  const state = { task: "", model: "", row: "", beside: "", outcome: "", facet: "", sort: "", q: "", page: "" };
  let task, rows, shown, titles, texts = null, besideRows = null, turn = 0;

  const select = (label, options, value, change) => el("label", {}, el("span", {}, label), el("select", { on: { change: (event) => change(event.target.value) } },
    options.map(([key, name]) => el("option", { value: key, selected: key === value }, name))));
  const controls = el("div", { class: "controls", role: "search" });
  const list = el("ol", { class: "items", tabindex: "-1", "aria-label": "Rows" });
  const count = el("output", { "aria-live": "polite" });
  const pager = el("div", { class: "pager" });
  const detail = el("article", { class: "card row", "aria-live": "polite", tabindex: "-1" });
  const search = el("input", { type: "search", placeholder: "press / to search", on: { input: () => set({ q: search.value, page: "", row: "" }) } });
  root.append(controls, el("div", { class: "browser" }, el("nav", { class: "list", "aria-label": "Rows" }, count, list, pager), detail));

  const fail = (error) => detail.replaceChildren(el("p", { class: "warn" }, error.message));
  function set(changes) {
    Object.assign(state, changes);
    writeState(state);
    refresh().catch(fail);
  }

  function drawControls() {
    const words = task.words;
    const present = new Set(rows.map(([, outcome]) => outcome));
    const outcomes = [["", "all"], ...content.outcomes.map((name, place) => [name, words[place], place]).filter(([name, , place]) => present.has(place) || name === state.outcome)];
    if (state.beside) outcomes.push(["differ", "right where the other is wrong"]);
    controls.replaceChildren(
      select("Task", content.tasks.map((each) => [each.id, each.task]), task.id, (value) => set({ task: value, model: "", row: "", beside: "", outcome: "", facet: "", q: "", page: "", sort: "" })),
      select("Model", task.models.map((id) => [id, content.models[id]]), state.model, (value) => set({ model: value, page: "", beside: state.beside === value ? "" : state.beside })),
      task.models.length > 1 ? select("Beside", [["", "none"], ...task.models.filter((id) => id !== state.model).map((id) => [id, content.models[id]])], state.beside,
        (value) => set({ beside: value, outcome: value || state.outcome !== "differ" ? state.outcome : "" })) : "",
      el("label", {}, el("span", {}, "Search the texts"), search),
      select("Outcome", outcomes, state.outcome, (value) => set({ outcome: value, page: "", row: "" })),
      task.facets.length > 1 ? select(task.facet, [["", "all"], ...task.facets.map((each) => [each, each])], state.facet, (value) => set({ facet: value, page: "", row: "" })) : "",
      select("Order", [["", "as in the data"], ["worst", `${task.margin}, worst first`], ["best", `${task.margin}, best first`]], state.sort, (value) => set({ sort: value, page: "", row: "" })));
  }

  // Every text of a row in one string, for searching: what all models share, and what this one made of it.
  async function searchable(name) {
    const chunks = [...Array(Math.ceil(task.rows / content.chunk)).keys()];
    const strings = (value) => (typeof value === "string" ? value : value && typeof value === "object" ? Object.values(value).map(strings).join(" ") : "");
    const docs = (await Promise.all(chunks.map((chunk) => lmf.get(`${task.id}.docs.${chunk}`)))).flat();
    const own = Object.assign({}, ...(await Promise.all([...new Set(rows.map(([place]) => Math.floor(place / content.chunk)))].map((chunk) => lmf.get(`${name}.${chunk}`)))));
    return docs.map((doc, place) => `${strings(doc)} ${strings(own[place])}`.toLocaleLowerCase("en"));
  }

  async function refresh() {
    const mine = (turn += 1);
    const nextTask = taskOf(state.task) ?? content.tasks[0];
    if (nextTask !== task) texts = null;
    task = nextTask;
    state.task = task.id;
    if (!task.models.includes(state.model)) state.model = task.models[0];
    if (!task.models.includes(state.beside) || state.beside === state.model) state.beside = "";
    const name = `${task.id}.${state.model}`;
    if (texts?.name !== name) texts = null;
    const [foundRows, foundTitles, other] = await Promise.all([lmf.get(name), lmf.get(`${task.id}.docs`), state.beside ? lmf.get(`${task.id}.${state.beside}`) : null]);
    if (mine !== turn) return;
    [rows, titles, besideRows] = [foundRows, foundTitles, other && new Map(other.map((row) => [row[0], row]))];
    const words = state.q.toLocaleLowerCase("en").split(/\s+/).filter(Boolean);
    if (words.length && !texts) {
      count.textContent = "Reading the texts …";
      const found = await searchable(name);
      if (mine !== turn) return;
      texts = { name, found };
    }
    const wanted = content.outcomes.indexOf(state.outcome);
    shown = rows.filter(([place, outcome, , facets]) =>
      (state.outcome === "differ" ? outcome === 0 && besideRows?.get(place)?.[1] === 1 : wanted < 0 || outcome === wanted)
      && (!state.facet || facets.includes(state.facet)) && words.every((word) => texts.found[place].includes(word)));
    if (state.sort) {
      const sign = state.sort === "worst" ? 1 : -1;
      shown = [...shown].sort((a, b) => (a[2] === null) - (b[2] === null) || sign * (a[2] - b[2]) || a[0] - b[0]);
    } else shown = [...shown].sort((a, b) => a[0] - b[0]);
    const focused = controls.contains(document.activeElement) ? [...controls.querySelectorAll("select, input")].indexOf(document.activeElement) : -1;
    drawControls();
    if (search.value !== state.q) search.value = state.q;
    if (focused >= 0) controls.querySelectorAll("select, input")[focused]?.focus();
    drawList();
    await drawRow(mine);
  }

  const chosen = () => {
    const place = shown.findIndex(([row]) => String(row) === state.row);
    return place >= 0 ? place : 0;
  };

  function drawList() {
    const at = chosen();
    const pages = Math.max(1, Math.ceil(shown.length / PAGE));
    const page = state.row || state.page === "" ? Math.floor(at / PAGE) : Math.min(pages - 1, Number(state.page) || 0);
    count.textContent = shown.length === rows.length ? counted(rows.length, "row") : `${shown.length.toLocaleString("en")} of ${counted(rows.length, "row")}`;
    list.replaceChildren(...shown.slice(page * PAGE, (page + 1) * PAGE).map((row) => item(row, shown[at] === row)));
    const go = (to, label, text) => el("button", { type: "button", class: "button", "aria-label": label, disabled: to < 0 || to >= pages, on: { click: () => set({ page: String(to), row: String(shown[to * PAGE][0]) }) } }, text);
    pager.replaceChildren(...(pages > 1 ? [go(page - 1, "Page before", "←"), el("span", { class: "quiet" }, `page ${page + 1} of ${pages}`), go(page + 1, "Next page", "→")] : []));
  }

  const marginText = (margin) => (margin === null ? "" : rowViews.of(task.kind).margin(margin));

  function item([place, outcome, margin], isChosen) {
    const other = besideRows?.get(place);
    return el("li", {}, el("button", {
      type: "button", class: "item", "aria-current": isChosen ? "true" : null, "data-row": place, tabindex: isChosen ? "0" : "-1",
      on: { click: () => set({ row: String(place) }) },
    },
    el("span", { class: "title", dir: "auto" }, titles[place]),
    el("span", { class: "marks" }, rowViews.mark(KINDS[outcome], task.words[outcome]), other ? rowViews.mark(KINDS[other[1]], `B: ${task.words[other[1]]}`) : null,
      el("span", { class: "quiet" }, `#${place} ${marginText(margin)}`))));
  }

  async function drawRow(mine) {
    const row = shown[chosen()];
    if (!row) {
      detail.replaceChildren(el("p", { class: "quiet" }, "No row is like this. Take a filter away, or other words."));
      return;
    }
    const [place, outcome] = row;
    const chunk = Math.floor(place / content.chunk);
    const names = [`${task.id}.docs.${chunk}`, `${task.id}.${state.model}.${chunk}`];
    const other = besideRows?.get(place);
    if (other) names.push(`${task.id}.${state.beside}.${chunk}`);
    const [docs, details, others] = await Promise.all(names.map(lmf.get));
    if (mine !== turn) return;
    const doc = docs[place - chunk * content.chunk];
    const view = (model, result, made) => [
      el("header", {}, el("h3", { dir: "auto" }, content.models[model]), rowViews.mark(KINDS[result[1]], task.words[result[1]]),
        result[2] === null ? null : el("span", { class: "quiet" }, `${task.margin} ${marginText(result[2])}`)),
      made.unscored ? el("p", { class: "notice", dir: "auto" }, `Unscored: ${made.unscored}`) : null,
      rowViews.of(task.kind).view(doc, made, task.pages[model] ? `${task.pages[model]}#${place}` : null),
    ];
    const sides = [el("div", { class: "side" }, view(state.model, row, details[place]))];
    if (other) sides.push(el("div", { class: "side" }, view(state.beside, other, others[place])));
    detail.replaceChildren(
      el("h2", { class: "hidden-text" }, "The row"),
      el("p", { class: "quiet place" }, `${task.task} #${place} · ${doc.id}`, el("span", {}, ` · ${(chosen() + 1).toLocaleString("en")} of ${shown.length.toLocaleString("en")}`)),
      el("div", { class: sides.length > 1 ? "sides" : "one" }, sides));
  }

  function step(by) {
    if (!shown?.length) return;
    const to = Math.max(0, Math.min(shown.length - 1, chosen() + by));
    const focusList = list.contains(document.activeElement);
    set({ row: String(shown[to][0]), page: "" });
    // What is drawn anew has lost the focus; refresh has drawn it by the next task at the latest, as nothing new is to be loaded.
    setTimeout(() => {
      const current = list.querySelector("[aria-current]");
      current?.scrollIntoView({ block: "nearest" });
      if (focusList) current?.focus({ preventScroll: true });
    }, 30);
  }

  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName ?? "")) return;
    const by = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1, ArrowRight: PAGE, ArrowLeft: -PAGE, Home: -Infinity, End: Infinity }[event.key];
    const inScroll = event.target.closest?.(".scroll");
    if (by === undefined || inScroll) return;
    event.preventDefault();
    step(by);
  });
  addEventListener("hashchange", () => {
    Object.assign(state, Object.fromEntries(Object.keys(state).map((key) => [key, ""])), readState());
    refresh().catch(fail);
  });
  Object.assign(state, Object.fromEntries(Object.entries(readState()).filter(([key]) => key in state)));
  refresh().catch(fail);
})();
