// The screens: a cover (who answers, how it works, export and import) and one item at a time.
const bar = document.getElementById("bar");
const screen = document.getElementById("screen");
let at = 0; // the number of the item on the screen, 0 for the cover
let said = ""; // what the cover says of the last thing done there
const trail = []; // what to undo: [number, answer, note] as they were

const button = (label, act, attributes = {}) => el("button", { type: "button", class: "button", on: { click: act }, ...attributes }, label);
const keyHint = (key) => el("kbd", { "aria-hidden": "true" }, key);

function drawBar() {
  const done = answered();
  bar.replaceChildren(el("div", { class: "bar" },
    el("div", { class: "progress", role: "progressbar", "aria-valuemin": 0, "aria-valuemax": numbers.length, "aria-valuenow": done, "aria-label": "Answered" },
      el("i", { id: "done" })),
    el("span", { class: "quiet", id: "count" }, at ? `Item ${at} of ${numbers.length}` : `${done} of ${numbers.length} answered`),
    at ? [
      button("←", () => show(Math.max(1, at - 1)), { id: "back", "aria-label": "Back", title: "Back (←)", disabled: at === 1 }),
      button("→", () => show(at + 1), { id: "next", "aria-label": "Next", title: "Next (→)" }),
      button("Undo", undo, { id: "undo", title: "Take back the last answer (u)", disabled: !trail.length }),
      button("Menu", () => show(0), { id: "menu", title: "Export, import, keys (m)" })] : null));
  document.getElementById("done").style.width = `${(100 * done) / numbers.length}%`;
}

// Where two texts differ: what is left without the words that both begin and end with, if that is the smaller part of each.
function difference(one, other) {
  const [a, b] = [one, other].map((text) => text.match(/\s*\S+/g) ?? []);
  const least = Math.min(a.length, b.length);
  let start = 0;
  let end = 0;
  while (start < least && a[start].trim() === b[start].trim()) start += 1;
  while (end < least - start && a.at(-1 - end).trim() === b.at(-1 - end).trim()) end += 1;
  if (start + end < 0.4 * Math.max(a.length, b.length) || start + end === a.length) return null;
  return [a, b].map((words) => [words.slice(0, start), words.slice(start, words.length - end), words.slice(words.length - end)].map((part) => part.join("")));
}

const marked = ([before, middle, after]) => [before, middle.match(/^\s*/)[0], el("mark", {}, middle.trimStart()), after];

// A text beside an item, with the item's text or another of its texts marked where it stands in it, or where the two differ.
function besides(text, context) {
  let own = [text];
  const parts = context.map(([heading, place]) => {
    const beside = data.texts[place];
    const found = [text, ...context.map(([, other]) => data.texts[other])].find((part) => part.length < beside.length && part.trim() && beside.includes(part.trim()))?.trim();
    const differs = found ? null : difference(text, beside);
    const start = found ? beside.indexOf(found) : 0;
    if (differs && own.length === 1) own = marked(differs[0]);
    return el("section", { class: "card" }, el("h2", {}, heading), el("p", { class: "text", dir: "auto" },
      found ? marked([beside.slice(0, start), found, beside.slice(start + found.length)]) : differs ? marked(differs[1]) : beside));
  });
  return [own, parts];
}

function drawItem() {
  const [question, place, context] = data.items[at - 1];
  const [own, parts] = besides(data.texts[place], context);
  const options = optionsOf(at);
  const note = el("textarea", { id: "note", rows: 2, placeholder: "Note (optional)", "aria-label": "Note", on: {
    input: (event) => set(at, answerTo(at), event.target.value),
    keydown: (event) => { if (event.key === "Escape") event.target.blur(); },
  } });
  note.value = noteOn(at);
  screen.replaceChildren(el("div", { class: "sheet" },
    el("div", { class: "item" },
      el("h1", {}, data.questions[question].ask),
      el("blockquote", { class: "text judged", id: "text", dir: "auto" }, own),
      el("div", { class: `options${options.every(([, label]) => label.length < 14) ? " short" : options.length > 4 ? " some" : ""}`, role: "group", "aria-label": "Answers" }, options.map(([value, label, key]) =>
        button([keyHint(key), el("span", { dir: "auto" }, label)], () => answer(value), { class: `button option${value === data.skip ? " skip-it" : ""}`, "data-value": value, "aria-pressed": String(value === answerTo(at)) }))),
      note),
    el("div", { class: "beside" }, parts)));
}

function drawCover() {
  const left = numbers.length - answered();
  const name = el("input", { id: "person", value: kept.person, autocomplete: "off", maxlength: 80 });
  const go = () => {
    if (!name.value.trim()) { say("Please give your name or initials first."); return; }
    kept.person = name.value.trim();
    save();
    said = "";
    show(numbers.find((number) => !isAnswered(number)) ?? 1);
  };
  const say = (text) => { said = text; drawCover(); };
  name.addEventListener("keydown", (event) => { if (event.key === "Enter") go(); });
  const load = async (event) => {
    const [file] = event.target.files;
    if (file) say(takeOver(await file.text()));
    drawBar();
  };
  const title = !kept.person ? "Thank you for looking at these" : left ? "To be continued" : "All answered, thank you";
  screen.replaceChildren(el("div", { class: "cover card" },
    el("h1", {}, title),
    el("p", {}, `This sheet has ${counted(numbers.length, "item")}, one on each screen. Read the evidence and answer. The next item then appears. `,
      "Answer independently, without help. If you cannot tell, say so. Some items may come twice."),
    isKept ? el("p", { class: "quiet" }, "Your answers stay in this browser until you export them; nothing is sent anywhere.")
      : el("p", { class: "warn", id: "unkept" }, "This browser does not let the page keep anything: export your answers before you close it, and import the JSONL file to go on."),
    said ? el("p", { class: "warn", id: "said", role: "status" }, said) : null,
    el("label", { class: "name" }, "Your name or initials", name),
    button(left === numbers.length ? "Begin" : left ? `Go on, ${counted(left, "item")} left` : "Look through them again", go, { class: "button main", id: "go" }),
    answered() ? el("div", { class: "files" }, el("h2", {}, "Hand in"), el("p", { class: "quiet" }, left ? "You can export at any time; unanswered items are left out." : "Send one of these files back."),
      el("div", { class: "moves" }, button("Export CSV", () => download("csv", asCsv()), { id: "csv" }), button("Export JSONL", () => download("jsonl", asJsonl()), { id: "jsonl" }))) : null,
    el("details", {}, el("summary", {}, "Go on from another device"), el("label", { class: "name" }, "JSONL file that was exported there", el("input", { type: "file", id: "import", accept: ".jsonl", on: { change: load } }))),
    el("details", {}, el("summary", {}, "Keys"), el("p", {}, "The key on each button gives that answer; ", keyHint("s"), " I cannot tell; ", keyHint("←"), " ", keyHint("→"), " back and on; ",
      keyHint("u"), " undo; ", keyHint("n"), " note, ", keyHint("Esc"), " leaves it; ", keyHint("m"), " this menu."))));
}

function show(number) {
  at = number > numbers.length ? 0 : number;
  if (at) drawItem();
  else drawCover();
  drawBar();
  scrollTo(0, 0);
  screen.focus({ preventScroll: true });
}

function answer(value) {
  trail.push([at, answerTo(at), noteOn(at)]);
  set(at, value);
  const open = numbers.filter((number) => !isAnswered(number));
  show(open.find((number) => number > at) ?? open[0] ?? 0);
}

function undo() {
  const last = trail.pop();
  if (!last) return;
  set(...last);
  show(last[0]);
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || !at || event.target.matches("input, textarea")) return;
  const key = event.key.toLowerCase();
  const option = optionsOf(at).find(([, , own]) => own === key);
  if (option) answer(option[0]);
  else if (key === "arrowleft") show(Math.max(1, at - 1));
  else if (key === "arrowright") show(at + 1);
  else if (key === "u") undo();
  else if (key === "n") document.getElementById("note").focus();
  else if (key === "m") show(0);
  else return;
  event.preventDefault();
});
addEventListener("beforeunload", (event) => { if (!isKept && !isExported) event.preventDefault(); });
load();
show(0);
