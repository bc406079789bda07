// What a person corrected: kept in this browser for each check, and saved as CSV.
const data = JSON.parse(document.getElementById("data").textContent);
const STORAGE_KEY = `lm-factuality check ${data.check}`;

// The claims by the numbers of answer and claim: {"3:0": {verdict, note}}.
const kept = { person: "", claims: {} };
let isStorable = true; // whether this browser lets pages keep anything
let isSaved = true; // whether the file has all corrections

function loadCorrections() {
  try {
    const stored = JSON.parse(localStorage.getItem(STORAGE_KEY) ?? "null");
    if (stored && typeof stored.claims === "object") Object.assign(kept, stored);
    // Tries whether this browser stores anything, and writes over nothing of another tab.
    localStorage.setItem(`${STORAGE_KEY} can be stored`, "");
  } catch {
    isStorable = false;
  }
}

function storeCorrections() {
  try {
    localStorage.setItem(STORAGE_KEY, JSON.stringify(kept));
  } catch {
    isStorable = false;
  }
}

const claimKey = (answer, claim) => `${answer}:${claim}`;
const correctionOf = (answer, claim) => kept.claims[claimKey(answer, claim)] ?? null;
const numCorrections = () => Object.keys(kept.claims).length;

// Without a verdict, the correction is taken back.
function setCorrection(answer, claim, verdict, note) {
  if (verdict) kept.claims[claimKey(answer, claim)] = { verdict, note };
  else delete kept.claims[claimKey(answer, claim)];
  isSaved = false;
  storeCorrections();
}

function setPerson(person) {
  kept.person = person;
  storeCorrections();
}

// In the order of the answers, as "lm-factuality" reads them.
function correctionLines() {
  const lines = [];
  data.answers.forEach((answer, answerNumber) => {
    answer.claims.forEach((claim, claimNumber) => {
      const correction = correctionOf(answerNumber, claimNumber);
      if (!correction) return;
      const { verdict, note } = correction;
      lines.push({ answer: answer.id, start: claim.start, end: claim.end, claim: claim.text, verdict, person: kept.person, note });
    });
  });
  return lines;
}

const csvCell = (value) => (/[",\r\n]/.test(value) ? `"${String(value).replaceAll('"', '""')}"` : String(value));
const csvLine = (cells) => `${cells.map(csvCell).join(",")}\n`;

function saveCorrections() {
  const rows = correctionLines().map((line) => data.columns.map((column) => line[column]));
  const content = [data.columns, ...rows].map(csvLine).join("");
  const name = kept.person.replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-+|-+$/g, "");
  const href = URL.createObjectURL(new Blob([content], { type: "text/csv" }));
  el("a", { href, download: `corrections-${name || "person"}.csv` }).click();
  setTimeout(() => URL.revokeObjectURL(href), 10000);
  isSaved = true;
}

addEventListener("beforeunload", (event) => {
  if (!isStorable && !isSaved) event.preventDefault();
});
loadCorrections();
