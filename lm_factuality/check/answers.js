// The answers: their texts with the claims marked in place. Long texts are shown in parts.
const VERDICTS = {
  supported: { label: "Supported", sign: "✓", key: "s", number: "1" },
  contradicted: { label: "Contradicted", sign: "✕", key: "c", number: "2" },
  not_found: { label: "Not found", sign: "?", key: "n", number: "3" },
  unscored: { label: "Unscored", sign: "–", key: "u", number: "4" },
};
const SEVERITY = ["contradicted", "not_found", "unscored", "supported"];
const PREVIEW = 3000; // characters of a long answer that are shown at first
const PART = 20000; // characters that are shown at a time; browsers are slow with one long paragraph
const SLACK = 1000; // an answer that is longer than the preview by this much is shown whole all the same

const lengthOf = (answer) => (answer.length ??= answer.pieces.reduce((sum, [text]) => sum + text.length, 0));
const countOf = (answer, verdict) => (answer.counts ??= countVerdicts(answer))[verdict];

function countVerdicts(answer) {
  const counts = { supported: 0, contradicted: 0, not_found: 0, unscored: 0 };
  for (const claim of answer.claims) counts[claim.verdict] += 1;
  return counts;
}

// The claims that no piece of the text shows.
function unplacedClaims(answer) {
  const placed = new Set(answer.pieces.flatMap(([, claims]) => claims));
  return answer.claims.map((_, claim) => claim).filter((claim) => !placed.has(claim));
}

// Where to end a part of a text: after white space if there is any near, else between characters.
function partEnd(text, limit) {
  if (text.length <= limit) return text.length;
  const start = Math.max(0, limit - 200);
  const space = text.slice(start, limit).search(/\s\S*$/);
  if (space >= 0) return start + space + 1;
  const isInPair = /[\ud800-\udbff]/.test(text[limit - 1]);
  return isInPair ? limit - 1 : limit;
}

// Cuts the pieces of an answer into parts of at most `size` characters: lists of {text, claims, ending}. The last piece of a claim,
// which is in `ending` there, carries its sign.
function cutIntoParts(answer, size) {
  const lastPiece = new Map();
  answer.pieces.forEach(([, claims], piece) => { for (const claim of claims) lastPiece.set(claim, piece); });
  const parts = [[]];
  let room = size;
  for (const [piece, [text, claims]] of answer.pieces.entries()) {
    for (let rest = text; rest;) {
      const fragment = rest.slice(0, partEnd(rest, room));
      rest = rest.slice(fragment.length);
      const ending = rest ? [] : claims.filter((claim) => lastPiece.get(claim) === piece);
      if (fragment) parts.at(-1).push({ text: fragment, claims, ending });
      room -= fragment.length;
      if (rest || room <= 0) {
        parts.push([]);
        room = size;
      }
    }
  }
  return parts.filter((part, number) => part.length || !number);
}

const partsOf = (answer) => (answer.parts ??= cutIntoParts(answer, PART));
const previewOf = (answer) => (answer.preview ??= cutIntoParts(answer, PREVIEW)[0]);
const isLong = (answer) => lengthOf(answer) > PREVIEW + SLACK;

// The part of an answer where a claim begins, -1 for a claim without a place.
const partWith = (answer, claim) => partsOf(answer).findIndex((part) => part.some(({ claims }) => claims.includes(claim)));

// The answer number "at" as an element. `isWanted` tells which claims pass the filters.
function drawAnswer(at, isWanted) {
  const answer = data.answers[at];
  const text = el("p", { class: "text", dir: "auto" });
  const more = el("p", { class: "more" });
  const counts = Object.entries(VERDICTS).filter(([verdict]) => countOf(answer, verdict));
  const card = el("article", { class: "card answer", id: `answer-${at}`, "aria-labelledby": `question-${at}` },
    el("header", {},
      el("h2", { id: `question-${at}`, dir: "auto", class: answer.question ? null : "quiet" }, answer.question || `Answer ${answer.id}`),
      el("p", { class: "facts" },
        answer.refusal ? el("span", { class: "badge" }, "Refusal") : null,
        !answer.refusal && !answer.claims.length ? el("span", { class: "badge" }, "No claims") : null,
        counts.map(([verdict, { label, sign }]) => el("span", { class: `tally ${verdict}`, title: `${label}: ${countOf(answer, verdict)}` },
          el("span", { "aria-hidden": "true" }, sign), " ", countOf(answer, verdict), el("span", { class: "hidden-text" }, ` ${label.toLowerCase()}`))),
        el("span", { class: "id", dir: "auto", title: "The id of the answer" }, answer.question ? answer.id : null))),
    text, more);
  drawText(at, text, more, isWanted);
  const unplaced = (answer.unplaced ??= unplacedClaims(answer));
  if (unplaced.length) {
    card.append(el("div", { class: "unplaced" }, el("p", { class: "quiet" }, "Claims without a place in the text"),
      el("ul", {}, unplaced.map((claim) => el("li", {}, drawPiece(at, answer.claims[claim].text, [claim], [claim], isWanted))))));
  }
  return card;
}

// Shows the preview of a long answer, or the part that the reader has chosen.
function drawText(at, text, more, isWanted) {
  const answer = data.answers[at];
  const isPreview = isLong(answer) && answer.part === undefined;
  const number = answer.part ?? 0;
  const part = isPreview ? previewOf(answer) : partsOf(answer)[number];
  text.replaceChildren(...part.map((piece) => (piece.claims.length ? drawPiece(at, piece.text, piece.claims, piece.ending, isWanted) : piece.text)));
  if (!part.length) text.append(el("span", { class: "quiet" }, "An empty answer."));
  text.classList.toggle("cut", isPreview);
  const turnTo = (next) => {
    answer.part = next;
    drawText(at, text, more, isWanted);
    drawSelection();
  };
  const turn = (label, next) => el("button", { type: "button", class: "button small", on: { click: () => turnTo(next) } }, label);
  const last = partsOf(answer).length - 1;
  more.replaceChildren();
  if (isPreview) {
    more.append(turn(last ? "Read on" : "Show the whole answer", 0), el("span", { class: "quiet" }, counted(lengthOf(answer), "character")));
  } else if (last) {
    more.append(...[
      number > 0 ? turn("Previous part", number - 1) : null,
      number < last ? turn("Next part", number + 1) : null,
      el("span", { class: "quiet" }, `Part ${number + 1} of ${last + 1}`)].filter(Boolean));
  }
}

// A part of the text that claims cover. The worst of them that passes the filters gives it its look.
function drawPiece(at, text, claims, ending, isWanted) {
  const answer = data.answers[at];
  const worstFirst = [...claims].sort((one, two) => rankOf(answer, one) - rankOf(answer, two));
  const wanted = worstFirst.filter((claim) => isWanted(at, claim));
  const [claim] = wanted.length ? wanted : worstFirst;
  const { verdict } = answer.claims[claim];
  const classes = ["claim", verdict, ending.includes(claim) ? "last" : "", wanted.length ? "" : "faded",
    ending.some((covering) => correctionOf(at, covering)) ? "corrected" : ""];
  return el("span", {
    class: classes.filter(Boolean).join(" "), role: "button", tabindex: "0", "data-claims": claims.join(" "), "data-claim": claim,
    title: VERDICTS[verdict].label, "aria-label": `${VERDICTS[verdict].label}: ${text.slice(0, 300)}`,
  }, text);
}

const rankOf = (answer, claim) => SEVERITY.indexOf(answer.claims[claim].verdict);
