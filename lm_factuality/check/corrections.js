// What people corrected: kept in this browser for each check, and saved as JSON Lines, which no spreadsheet alters.
const data = JSON.parse(document.getElementById("data").textContent);
const STORAGE_KEY = `lm-factuality check ${data.check}`;

// The claims by the numbers of answer and claim: {"3:0": {verdict, note, person}}. Without a person, it is who saves the file.
const kept = { person: "", claims: {} };
let isStorable = true; // whether this browser lets pages keep anything
let isSaved = true; // whether the file has all corrections

const claimKey = (answer, claim) => `${answer}:${claim}`;
const correctionOf = (answer, claim) => kept.claims[claimKey(answer, claim)] ?? null;
const numCorrections = () => Object.keys(kept.claims).length;

function eachClaim(act) {
  data.answers.forEach((answer, answerNumber) => answer.claims.forEach((claim, claimNumber) => act(claim, answerNumber, claimNumber)));
}

// The corrections that the command has counted in the figures come with the page.
eachClaim((claim, answerNumber, claimNumber) => {
  const { verdict, note, person } = claim;
  if (claim.judged) kept.claims[claimKey(answerNumber, claimNumber)] = { verdict, note, person };
  claim.judged ??= verdict;
});
const COUNTED = JSON.stringify(kept.claims);
const areCounted = () => JSON.stringify(kept.claims) === COUNTED;

function loadCorrections() {
  try {
    const stored = JSON.parse(localStorage.getItem(STORAGE_KEY) ?? "null");
    if (stored && typeof stored.claims === "object") Object.assign(kept, stored);
    // Tries whether this browser stores anything, and writes over nothing of another tab.
    localStorage.setItem(`${STORAGE_KEY} can be stored`, "");
  } catch {
    isStorable = false;
  }
  showCorrections();
}

function storeCorrections() {
  try {
    localStorage.setItem(STORAGE_KEY, JSON.stringify(kept));
  } catch {
    isStorable = false;
  }
}

// Gives each claim the verdict that counts.
function showCorrections() {
  eachClaim((claim, answerNumber, claimNumber) => {
    claim.verdict = correctionOf(answerNumber, claimNumber)?.verdict ?? claim.judged;
  });
  for (const answer of data.answers) answer.counts = undefined;
}

// Without a verdict, the correction is taken back.
function setCorrection(answer, claim, verdict, note) {
  if (verdict) kept.claims[claimKey(answer, claim)] = { verdict, note };
  else delete kept.claims[claimKey(answer, claim)];
  isSaved = false;
  storeCorrections();
  showCorrections();
}

function setPerson(person) {
  kept.person = person;
  storeCorrections();
}

// In the order of the answers, as "lm-factuality" reads them.
function correctionLines() {
  const lines = [];
  eachClaim(({ text, start, end }, answerNumber, claimNumber) => {
    const correction = correctionOf(answerNumber, claimNumber);
    const { id } = data.answers[answerNumber];
    if (correction) lines.push({ answer: id, start, end, claim: text, person: kept.person, ...correction });
  });
  return lines;
}

function saveCorrections() {
  const content = correctionLines().map((line) => `${JSON.stringify(line)}\n`).join("");
  const name = kept.person.replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-+|-+$/g, "");
  const href = URL.createObjectURL(new Blob([content], { type: "application/jsonl" }));
  el("a", { href, download: `corrections-${name || "person"}.jsonl` }).click();
  setTimeout(() => URL.revokeObjectURL(href), 10000);
  isSaved = true;
}

// Takes the corrections over from the text of a saved file. Returns how many lines were used, and those that belong to no claim
// here. A claim is meant by the id of its answer and its text and, if the answer has the text several times, its place.
function readCorrections(text) {
  const lines = text.split("\n").filter((line) => line.trim()).map((line) => JSON.parse(line));
  const unused = lines.filter((line) => {
    const places = [];
    eachClaim((claim, answer, number) => {
      if (data.answers[answer].id === line.answer && claim.text === line.claim) places.push({ key: claimKey(answer, number), start: claim.start });
    });
    const same = places.filter(({ start }) => start === line.start);
    const meant = Object.hasOwn(VERDICTS, line.verdict) ? (same.length ? same : places) : [];
    const { verdict, note = "", person = "" } = line;
    for (const { key } of meant) kept.claims[key] = { verdict, note, person };
    return !meant.length;
  });
  storeCorrections();
  showCorrections();
  return { numUsed: lines.length - unused.length, unused };
}

addEventListener("beforeunload", (event) => {
  if (!isStorable && !isSaved) event.preventDefault();
});
loadCorrections();
