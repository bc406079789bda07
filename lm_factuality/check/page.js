// Filters, search, order, the chosen claim, and the keys.
const BATCH = 50; // answers that are drawn at a time
const answerList = document.getElementById("answers");
const tools = document.getElementById("tools");
const isNarrow = matchMedia("(max-width: 60rem)");
const chosenFilters = new Set(); // verdicts, "refusal" or "corrected"; empty for all
let isWorstFirst = true;
let matching = []; // the numbers of the answers that pass, in order
let numDrawn = 0;
let chosen = null; // {answer, claim}

const button = (label, act, attributes = {}) => el("button", { type: "button", class: "button", on: { click: act }, ...attributes }, label);

// ---- which answers are shown ----
function isWanted(answer, claim) {
  if (!chosenFilters.size) return true;
  const { verdict } = data.answers[answer].claims[claim];
  return chosenFilters.has(verdict) || (chosenFilters.has("corrected") && correctionOf(answer, claim) !== null);
}

function searchedText(answer) {
  answer.searched ??= [answer.id, answer.question, ...answer.pieces.map(([text]) => text), ...answer.claims.map(({ text }) => `\n${text}`)].join("").toLowerCase();
  return answer.searched;
}

function passes(number, words) {
  const answer = data.answers[number];
  const isFiltered = !chosenFilters.size || (chosenFilters.has("refusal") && answer.refusal)
    || answer.claims.some((_, claim) => isWanted(number, claim));
  return isFiltered && words.every((word) => searchedText(answer).includes(word));
}

function update() {
  const words = searchField.value.toLowerCase().split(/\s+/).filter(Boolean);
  matching = data.answers.map((_, number) => number).filter((number) => passes(number, words));
  if (isWorstFirst) {
    const count = (number, verdict) => countOf(data.answers[number], verdict);
    matching.sort((one, two) => count(two, "contradicted") - count(one, "contradicted") || count(two, "not_found") - count(one, "not_found") || one - two);
  }
  numDrawn = 0;
  answerList.replaceChildren();
  drawMore();
  drawTools();
}

function drawMore(upTo = numDrawn + BATCH) {
  document.getElementById("more")?.remove();
  const next = matching.slice(numDrawn, upTo);
  answerList.append(...next.map((number) => drawAnswer(number, isWanted)));
  numDrawn += next.length;
  const left = matching.length - numDrawn;
  if (left > 0) {
    // They do not come by themselves, which would move away what stands below the answers.
    answerList.append(button(`Show more answers (${left.toLocaleString("en")} left)`, () => drawMore(), { id: "more" }));
  }
  if (!matching.length) answerList.append(el("p", { class: "card nothing" }, data.answers.length ? "No answer passes the filters and the search." : "There are no answers."));
  drawSelection();
}

// ---- the tools above the answers ----
const searchField = el("input", { type: "search", id: "search", placeholder: "Search ( / )", "aria-label": "Search answers", autocomplete: "off", spellcheck: "false" });
const filterButtons = {};
const countText = el("output", { id: "count", class: "quiet", "aria-live": "polite" });
const orderButton = button("", toggleOrder, { id: "order", title: "Change the order (o)" });
const saveButton = button("", openSaving, { id: "save", class: "button main" });
const loadField = el("input", { type: "file", id: "file", accept: ".jsonl", hidden: true, "aria-label": "File of corrections" });
const loadButton = button("Load corrections", () => loadField.click(), { id: "load" });
const loadedText = el("p", { id: "loaded", class: "warn", role: "status", hidden: true });

function makeTools() {
  const filters = Object.entries(VERDICTS).map(([name, { label, sign, key }]) => [name, label, sign, key]);
  if (data.answers.some(({ refusal }) => refusal)) filters.push(["refusal", "Refusals", "", "r"]);
  filters.push(["corrected", "Corrected", "✎", ""]);
  for (const [name, label, sign, key] of filters) {
    filterButtons[name] = button(
      [sign ? el("span", { class: "sign", "aria-hidden": "true" }, sign) : null, el("span", { class: "filter-name" }, label), key ? el("kbd", { "aria-hidden": "true" }, key) : null].filter(Boolean),
      () => toggleFilter(name), { class: `button filter ${name}`, "data-filter-by": name, title: key ? `Show only these (${key})` : "Show only these" });
  }
  searchField.addEventListener("input", update);
  loadField.addEventListener("change", loadFile);
  tools.append(
    el("div", { class: "filters", role: "group", "aria-label": "Show only" }, Object.values(filterButtons)),
    el("div", { class: "finding" }, searchField, orderButton, saveButton));
  answerList.before(countText);
  document.getElementById("loading").append(loadButton, loadField, loadedText);
  // The evidence stays below the tools, which need one line or two.
  new ResizeObserver(() => document.documentElement.style.setProperty("--tools-height", `${tools.offsetHeight}px`)).observe(tools);
}

function drawTools() {
  for (const [name, filter] of Object.entries(filterButtons)) filter.setAttribute("aria-pressed", String(chosenFilters.has(name)));
  const corrections = numCorrections();
  filterButtons.corrected.hidden = !corrections && !chosenFilters.has("corrected");
  orderButton.textContent = isWorstFirst ? "Most contradicted first" : "In order";
  saveButton.textContent = `Save ${counted(corrections, "correction")}`;
  saveButton.hidden = !corrections;
  drawFigures();
  const all = counted(data.answers.length, "answer");
  countText.textContent = matching.length === data.answers.length ? all : `${matching.length.toLocaleString("en")} of ${all}`;
}

// The figures above the answers, with the corrections. The page cannot compute an interval.
const supportedFigure = document.querySelector(".figure.supported dd");
const countedFigure = [...supportedFigure.children].map((part) => part.textContent);

function drawFigures() {
  const total = (verdict) => data.answers.reduce((sum, answer) => sum + countOf(answer, verdict), 0);
  const totals = Object.keys(VERDICTS).map((verdict) => [verdict, total(verdict)]);
  const numClaims = totals.reduce((sum, [, count]) => sum + count, 0);
  let offset = 0;
  for (const [verdict, count] of totals) {
    const width = numClaims ? (100 * count) / numClaims : 0;
    const bar = document.querySelector(`rect.${verdict}`);
    bar.setAttribute("x", offset);
    bar.setAttribute("width", width);
    offset += width;
    if (verdict === "supported") continue;
    const [number, noun] = document.querySelector(`.figure.${verdict} dd`).children;
    number.textContent = count.toLocaleString("en");
    noun.textContent = count === 1 ? "claim" : "claims";
  }
  const share = (supported, unscored) => percent(numClaims > unscored ? supported / (numClaims - unscored) : null);
  const { supported, unscored } = Object.fromEntries(totals);
  const [number, small] = areCounted() ? countedFigure : [share(supported, unscored), `${supported.toLocaleString("en")} of ${counted(numClaims - unscored, "scored claim")}; no interval yet`];
  supportedFigure.children[0].textContent = number;
  supportedFigure.children[1].textContent = small;

  const judged = { supported: 0, unscored: 0 };
  eachClaim((claim) => { judged[claim.judged] += 1; });
  document.getElementById("as-judged").textContent = numCorrections()
    ? `${counted(numCorrections(), "verdict")} corrected or confirmed. As judged, ${share(judged.supported, judged.unscored)} are supported.${areCounted() ? "" : " For the interval, save them and check again with --corrections."}` : "";
}

function toggleFilter(name) {
  if (!chosenFilters.delete(name)) chosenFilters.add(name);
  update();
}

function toggleOrder() {
  isWorstFirst = !isWorstFirst;
  update();
}

// ---- the chosen claim ----
const piecesOf = ({ answer, claim }) => [...document.querySelectorAll(`#answer-${answer} .claim[data-claims~="${claim}"]`)];

function drawSelection() {
  for (const piece of document.querySelectorAll(".claim.selected")) {
    piece.classList.remove("selected");
    piece.removeAttribute("aria-current");
  }
  if (!chosen) return;
  for (const piece of piecesOf(chosen)) {
    piece.classList.add("selected");
    piece.setAttribute("aria-current", "true");
  }
}

function choose(answer, claim) {
  chosen = { answer, claim };
  drawEvidence(chosen);
  drawSelection();
}

function close() {
  const [piece] = chosen ? piecesOf(chosen) : [];
  chosen = null;
  drawEvidence(null);
  drawSelection();
  piece?.focus({ preventScroll: true });
}

// Back to the text. The evidence stays beside it where there is room.
function leaveEvidence() {
  const [piece] = piecesOf(chosen);
  if (isNarrow.matches || !piece || !evidencePanel.contains(document.activeElement)) close();
  else piece.focus();
}

// The claim after or before the chosen one, of those that pass the filters.
function step(by) {
  const claimsOf = (number) => data.answers[number].claims.map((_, claim) => claim).filter((claim) => isWanted(number, claim));
  let place = chosen ? matching.indexOf(chosen.answer) : -1;
  if (place < 0) place = by > 0 ? -1 : matching.length;
  else {
    const inAnswer = claimsOf(chosen.answer).filter((claim) => (by > 0 ? claim > chosen.claim : claim < chosen.claim));
    if (inAnswer.length) return goTo(chosen.answer, by > 0 ? inAnswer[0] : inAnswer.at(-1));
  }
  for (place += by; place >= 0 && place < matching.length; place += by) {
    const claims = claimsOf(matching[place]);
    if (claims.length) return goTo(matching[place], by > 0 ? claims[0] : claims.at(-1));
  }
  return undefined;
}

function goTo(answer, claim) {
  const place = matching.indexOf(answer);
  if (place >= numDrawn) drawMore(place + 1);
  choose(answer, claim);
  if (!piecesOf(chosen).length) showPartWith(answer, claim);
  const [piece] = piecesOf(chosen);
  piece?.focus({ preventScroll: true });
  bringIntoView(piece);
}

// Turns to the part of a long answer where a claim is.
function showPartWith(number, claim) {
  const answer = data.answers[number];
  const part = partWith(answer, claim);
  if (part < 0) return;
  answer.part = part;
  document.getElementById(`answer-${number}`).replaceWith(drawAnswer(number, isWanted));
  drawSelection();
}

function bringIntoView(piece) {
  if (!piece) return;
  const { top, bottom } = piece.getBoundingClientRect();
  // On a phone, the evidence covers the lower part of the screen.
  const room = isNarrow.matches ? evidencePanel.getBoundingClientRect().top : innerHeight;
  const edge = isNarrow.matches ? 0 : tools.getBoundingClientRect().bottom;
  if (top >= edge + 8 && bottom <= room - 8) return;
  scrollBy({ top: top - edge - (room - edge) / 3, behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth" });
}

function correct(verdict) {
  const before = correctionOf(chosen.answer, chosen.claim);
  const isTakenBack = before?.verdict === verdict;
  setCorrection(chosen.answer, chosen.claim, isTakenBack ? null : verdict, before?.note ?? "");
  const wasInPanel = evidencePanel.contains(document.activeElement);
  drawCorrection(chosen);
  document.getElementById(`answer-${chosen.answer}`).replaceWith(drawAnswer(chosen.answer, isWanted));
  drawSelection();
  if (wasInPanel) document.querySelector(`#correction [data-verdict="${verdict}"]`).focus({ preventScroll: true });
  else piecesOf(chosen)[0]?.focus({ preventScroll: true });
  drawTools();
}

// ---- loading ----
async function loadFile() {
  const [file] = loadField.files;
  if (!file) return;
  try {
    const { numUsed, unused } = readCorrections(await file.text());
    loadedText.replaceChildren(`${file.name}: ${counted(numUsed, "correction")} loaded.`,
      unused.length ? ` ${unused.length.toLocaleString("en")} belong to no claim on this page: ${unused.map(({ answer, claim }) => `“${claim}” (${answer})`).join(", ")}.` : "");
  } catch {
    loadedText.textContent = `${file.name} is no file of corrections that this page saved. No correction was loaded.`;
  }
  loadedText.hidden = false;
  loadField.value = "";
  update();
  drawEvidence(chosen);
}

// ---- saving ----
function openSaving() {
  const person = el("input", { id: "person", value: kept.person, autocomplete: "name", maxlength: 80 });
  const problem = el("p", { class: "warn", id: "problem", role: "alert", hidden: true }, "Please give your name or initials first.");
  const dialog = el("dialog", { class: "card saving", "aria-labelledby": "saving" });
  const save = () => {
    problem.hidden = Boolean(person.value.trim());
    if (!person.value.trim()) return person.focus();
    setPerson(person.value.trim());
    saveCorrections();
    return dialog.close();
  };
  person.addEventListener("keydown", (event) => { if (event.key === "Enter") save(); });
  dialog.append(
    el("h2", { id: "saving" }, `Save ${counted(numCorrections(), "correction")}`),
    el("p", { class: "quiet" }, isStorable ? "The file goes to your downloads. Nothing is sent anywhere." : "This browser does not let the page keep anything: save before you close it."),
    el("label", { class: "name" }, "Your name or initials", person), problem,
    el("div", { class: "moves" }, button("Save file", save, { id: "download", class: "button main" }), button("Cancel", () => dialog.close())));
  dialog.addEventListener("close", () => { dialog.remove(); saveButton.focus(); });
  document.body.append(dialog);
  dialog.showModal();
}

// ---- clicks and keys ----
function chooseFrom(piece, movesFocus) {
  const answer = Number(piece.closest(".answer").id.slice("answer-".length));
  choose(answer, Number(piece.dataset.claim));
  bringIntoView(piece);
  if (movesFocus) evidencePanel.focus({ preventScroll: true });
}

answerList.addEventListener("click", (event) => {
  const piece = event.target.closest(".claim");
  // A reader who marks a passage with the mouse wants to copy it.
  if (piece && getSelection().isCollapsed) chooseFrom(piece, false);
});

const KEYS = {
  j: () => step(1),
  k: () => step(-1),
  o: toggleOrder,
  a: () => { chosenFilters.clear(); update(); },
  r: () => { if (filterButtons.refusal) toggleFilter("refusal"); },
};
for (const [verdict, { key, number }] of Object.entries(VERDICTS)) {
  KEYS[key] = () => toggleFilter(verdict);
  KEYS[number] = () => { if (chosen) correct(verdict); };
}

addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog")) return;
  const piece = event.target.closest?.(".claim[role]");
  if (event.key === "Escape") {
    if (event.target.matches("textarea")) evidencePanel.focus({ preventScroll: true });
    else if (!event.target.matches("input") && chosen) leaveEvidence();
    return;
  }
  if (event.target.matches("input, textarea, select")) return;
  if (piece && (event.key === "Enter" || event.key === " ")) {
    event.preventDefault();
    chooseFrom(piece, true);
  } else if (Object.hasOwn(KEYS, event.key.toLowerCase())) {
    event.preventDefault();
    KEYS[event.key.toLowerCase()]();
  }
});

makeTools();
update();
drawEvidence(null);
// On a wide screen the place beside the texts is not left empty: it has the worst claim of the first answer that shows.
if (!isNarrow.matches && matching.length) {
  const [first] = matching;
  const answer = data.answers[first];
  const visible = answer.claims.map((_, claim) => claim).filter((claim) => piecesOf({ answer: first, claim }).length);
  const [worst] = visible.sort((one, two) => rankOf(answer, one) - rankOf(answer, two));
  if (worst !== undefined) choose(first, worst);
}
