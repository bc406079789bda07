// The verdict on the chosen claim: its reason, the passages, and the choice of another verdict.
const evidencePanel = document.getElementById("evidence");
const LONG_TEXT = 900; // characters; a longer passage or claim scrolls in a box of its own

// What makes a box that scrolls reachable by keyboard.
const scrolling = (text, name) => (text.length > LONG_TEXT ? { tabindex: "0", role: "group", "aria-label": name } : {});

function drawEvidence(chosen) {
  document.body.classList.toggle("with-evidence", Boolean(chosen));
  if (!chosen) {
    evidencePanel.replaceChildren(el("div", { class: "hint" }, el("p", {}, "Choose a claim in a text to see its evidence here.")));
    return;
  }
  const answer = data.answers[chosen.answer];
  const claim = answer.claims[chosen.claim];
  evidencePanel.replaceChildren(
    el("header", { class: "verdict-head" },
      el("div", { class: "verdict-title" },
        el("h2", { id: "verdict" }),
        el("span", { class: "quiet" }, `Claim ${chosen.claim + 1} of ${answer.claims.length}`)),
      el("span", { class: "moves" },
        el("button", { type: "button", class: "button icon", id: "previous", title: "Previous claim (k)", "aria-label": "Previous claim", on: { click: () => step(-1) } }, "↑"),
        el("button", { type: "button", class: "button icon", id: "next", title: "Next claim (j)", "aria-label": "Next claim", on: { click: () => step(1) } }, "↓"),
        el("button", { type: "button", class: "button icon", id: "close", title: "Close (Esc)", "aria-label": "Close", on: { click: close } }, "×"))),
    el("div", { class: "verdict-body" },
      el("p", { class: "claim-text", dir: "auto", ...scrolling(claim.text, "Claim") }, claim.text),
      el("p", { class: "reason", dir: "auto" }, claim.reason || "No reason was given."),
      claim.probability === null ? null : el("p", { class: "quiet probability" }, `Probability that it is supported: ${claim.probability.toFixed(2)}`),
      drawSiblings(chosen),
      ...drawPassages(claim),
      el("section", { class: "correction", id: "correction", "aria-label": "Correct the verdict" })));
  drawCorrection(chosen);
  evidencePanel.scrollTop = 0;
  for (const passage of evidencePanel.querySelectorAll(".passage.long")) {
    const mark = passage.querySelector("mark, .deciding");
    if (mark) passage.scrollTop = mark.offsetTop - passage.offsetTop - passage.clientHeight / 3;
  }
}

// Other claims of the same words, which the text cannot show apart.
function drawSiblings(chosen) {
  const answer = data.answers[chosen.answer];
  const together = new Set();
  for (const [, claims] of answer.pieces) {
    if (claims.includes(chosen.claim)) for (const claim of claims) together.add(claim);
  }
  together.delete(chosen.claim);
  if (!together.size) return null;
  return el("details", { class: "siblings" }, el("summary", {}, `${counted(together.size, "other claim")} in these words`),
    el("ul", {}, [...together].map((claim) => el("li", {},
      el("button", { type: "button", class: "sibling", "data-sibling": claim, on: { click: () => choose(chosen.answer, claim) } },
        el("span", { class: `tally ${answer.claims[claim].verdict}`, title: VERDICTS[answer.claims[claim].verdict].label }, VERDICTS[answer.claims[claim].verdict].sign),
        el("span", { dir: "auto" }, answer.claims[claim].text))))));
}

// The deciding passage, or else the nearest, is open and comes first. The others can be opened.
function drawPassages(claim) {
  if (!claim.evidence.length) return [el("p", { class: "quiet" }, "No passage was found for this claim.")];
  const order = claim.evidence.map((_, place) => place);
  // Passages that were found for another claim have no score and come last.
  order.sort((one, two) => (two === claim.deciding) - (one === claim.deciding) || (claim.scores[two] ?? 0) - (claim.scores[one] ?? 0));
  const [first, ...others] = order;
  const heading = claim.deciding === null ? "Nearest passage" : "Evidence";
  return [
    el("section", { class: "passages", "aria-label": heading }, el("h3", {}, heading), drawPassage(claim, first)),
    others.length ? el("details", { class: "passages others" }, el("summary", {}, counted(others.length, "other passage")),
      others.map((place) => drawPassage(claim, place))) : null].filter(Boolean);
}

function drawPassage(claim, place) {
  const [document_, title, text] = data.passages[claim.evidence[place]];
  return el("figure", { class: `source${place === claim.deciding ? " decides" : ""}` },
    el("figcaption", {},
      el("strong", { dir: "auto" }, title || document_),
      title && title !== document_ ? el("span", { class: "document", dir: "auto" }, document_) : null),
    el("blockquote", { class: `passage${text.length > LONG_TEXT ? " long" : ""}`, dir: "auto", ...scrolling(text, "Passage") },
      place === claim.deciding && claim.marks ? markPassage(text, claim.marks) : text));
}

// The text with its deciding sentence set off and the deciding words marked.
function markPassage(text, [sentence, words]) {
  const edges = new Set([0, text.length, ...(sentence ?? []), ...words.flat()]);
  const sorted = [...edges].sort((one, two) => one - two);
  const isWithin = (start, spans) => spans.some(([from, to]) => from <= start && start < to);
  return sorted.slice(0, -1).map((start, index) => {
    const part = text.slice(start, sorted[index + 1]);
    const content = isWithin(start, words) ? el("mark", {}, part) : part;
    return sentence && isWithin(start, [sentence]) ? el("span", { class: "deciding" }, content) : content;
  });
}

function drawCorrection(chosen) {
  const correction = correctionOf(chosen.answer, chosen.claim);
  const { verdict: current, judged } = data.answers[chosen.answer].claims[chosen.claim];
  const heading = document.getElementById("verdict");
  heading.className = `verdict ${current}`;
  heading.replaceChildren(el("span", { "aria-hidden": "true" }, VERDICTS[current].sign), ` ${VERDICTS[current].label}`);
  const person = correction?.person || kept.person || "you";
  const section = document.getElementById("correction");
  const note = el("textarea", { id: "note", rows: 2, placeholder: "Note (optional)", "aria-label": "Note", on: {
    input: (event) => setCorrection(chosen.answer, chosen.claim, correction.verdict, event.target.value),
  } });
  note.value = correction?.note ?? "";
  section.replaceChildren(
    el("h3", {}, "What do you say?"),
    el("div", { class: "choices", role: "group", "aria-label": "Your verdict" }, Object.entries(VERDICTS).map(([verdict, { label, sign, number }]) =>
      el("button", { type: "button", class: `button choice ${verdict}`, "data-verdict": verdict, "aria-pressed": String(correction?.verdict === verdict),
        on: { click: () => correct(verdict) } },
      el("kbd", { "aria-hidden": "true" }, number), el("span", { class: "sign", "aria-hidden": "true" }, sign), verdict === "unscored" ? "Cannot tell" : label))),
    ...(correction ? [note, el("p", { class: "quiet", id: "said" },
      current === judged ? `Confirmed by ${person}.` : `Corrected by ${person}. The judge said: ${VERDICTS[judged].label}.`)] : []));
}
