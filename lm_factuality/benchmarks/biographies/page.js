"use strict";
// A row of AmbigBio or of long form: the response with the words of its facts, and the verdicts on them.
(() => {
  const { mark, part, text, tiles } = rowViews;

  const STATUS = { supported: ["good", "supported"], elsewhere: ["swap", "true of another"], ungrouped: ["open", "in no group"], contradicted: ["bad", "contradicted"], not_supported: ["bad", "not supported"], irrelevant: ["", "irrelevant"], unscored: ["open", "unscored"] };
  const WORST = ["contradicted", "not_supported", "elsewhere", "unscored", "ungrouped", "irrelevant", "supported"];

  function view(doc, detail, page) {
    const scores = detail.scores;
    const worst = (facts) => WORST.find((status) => facts.some((fact) => detail.statuses[fact] === status));
    return [
      scores ? tiles([["FActScore", percent(scores.factscore)], ["D-FActScore", percent(scores.d_factscore)], ["Biographies", scores.num_biographies ?? "–"], ["Entities", scores.num_entities]]) : part("Prompt", text(doc.question)),
      part("What the model wrote", el("p", { class: "text judged", dir: "auto" }, detail.pieces.map(([piece, , facts]) => {
        const status = worst(facts);
        return status ? el("span", { class: `words-of-fact ${status}`, title: STATUS[status][1] }, piece) : piece;
      }))),
      detail.facts.length ? part("Facts", el("ul", { class: "facts" }, detail.facts.map(([fact], place) => {
        const [kind, label] = STATUS[detail.statuses[place]];
        const reason = detail.reasons?.[place];
        return el("li", {}, mark(kind, label), el("span", { dir: "auto" }, fact), reason ? el("small", { class: "quiet", dir: "auto" }, ` ${reason}`) : null);
      }))) : null,
      detail.abstained ? el("p", { class: "quiet" }, "The model declined to answer.") : null,
      page ? el("p", {}, el("a", { href: page }, "With individuals, passages and evidence")) : null,
      doc.passages.length ? el("details", {}, el("summary", {}, counted(doc.passages.length, "passage")), doc.passages.map(({ title, text: passage }, place) => el("div", { class: "part" }, el("h4", { dir: "auto" }, `[${place + 1}] ${title}`), text(passage, "text prefix")))) : null,
    ];
  }

  for (const kind of ["ambigbio", "longform"]) rowViews.add(kind, { view });
})();
