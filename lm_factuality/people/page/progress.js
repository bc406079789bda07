// What people have answered: kept in this browser for each sheet and person, exported as CSV and JSONL, imported from JSONL.
const data = JSON.parse(document.getElementById("data").textContent);
const PLACE = `lm-factuality sheet ${data.sheet}`;

// {person, people: {name: {number: {answer, note}}}}; numbers count from 1.
const kept = { person: "", people: {} };
let isKept = true; // whether this browser lets pages keep anything
let isExported = true;

function load() {
  try {
    const found = JSON.parse(localStorage.getItem(PLACE) ?? "null");
    if (found && typeof found.people === "object") Object.assign(kept, found);
    // Tries whether this browser stores anything. Nothing is written over answers that another tab may have just stored.
    localStorage.setItem(`${PLACE} can be stored`, "");
  } catch {
    isKept = false;
  }
}

function save() {
  isExported = false;
  try {
    localStorage.setItem(PLACE, JSON.stringify(kept));
    isKept = true;
  } catch {
    isKept = false;
  }
}

const of = (person) => (kept.people[`:${person}`] ??= {}); // a colon before it, since a person may be called "constructor"
const own = () => of(kept.person);
const answerTo = (number) => own()[number]?.answer ?? "";
const noteOn = (number) => own()[number]?.note ?? "";
const optionsOf = (number) => {
  const [question, , , options] = data.items[number - 1];
  return [...(options.length ? options : data.questions[question].options), [data.skip, "I cannot tell", "s"]];
};
const isAnswered = (number) => answerTo(number) !== "";
const numbers = data.items.map((_, place) => place + 1);
const answered = () => numbers.filter(isAnswered).length;

function set(number, answer, note = noteOn(number)) {
  if (answer || note) own()[number] = { answer, note };
  else delete own()[number];
  save();
}

// What is exported: answered items alone, a line each, as "lm-factuality people" reads them.
const lines = () => numbers.filter(isAnswered).map((number) =>
  ({ sheet: data.sheet, number, question: data.items[number - 1][0], answer: answerTo(number), person: kept.person, note: noteOn(number) }));
const cell = (value) => (/[",\r\n]/.test(value) ? `"${String(value).replaceAll('"', '""')}"` : String(value));
const asCsv = () => [data.columns, ...lines().map((line) => data.columns.map((name) => line[name]))].map((row) => `${row.map(cell).join(",")}\n`).join("");
const asJsonl = () => lines().map((line) => `${JSON.stringify(line)}\n`).join("");

function download(ending, content) {
  const name = kept.person.replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-+|-+$/g, "") || "labels";
  const link = el("a", { href: URL.createObjectURL(new Blob([content], { type: "text/plain" })), download: `${data.sheet}-${name}.${ending}` });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  isExported = true;
}

// Takes over the answers of an exported JSONL file; says what it did, or why not.
function takeOver(text) {
  let found;
  try {
    found = text.split("\n").filter((line) => line.trim()).map((line) => JSON.parse(line));
  } catch {
    return "This file is not JSONL. Choose the JSONL file that this page exported.";
  }
  if (found.some((label) => label?.sheet !== data.sheet)) return "These labels are of another sheet.";
  const sound = found.filter(({ number, answer }) => numbers.includes(number) && optionsOf(number).some(([value]) => value === answer));
  if (sound.length < found.length) return "Some of these labels answer what this sheet does not ask; none was taken over.";
  for (const { person, number, answer, note } of sound) of(person)[number] = { answer, note: note ?? "" };
  kept.person ||= sound[0]?.person ?? "";
  save();
  return `${counted(sound.length, "answer")} taken over.`;
}
