"use strict";
// A row of long-form factuality: the response in sentences, its facts, and why the judge says so.
(() => {
  const { mark, part, text } = rowViews;

  const STATUS = { supported: ["good", "supported"], elsewhere: ["swap", "true of another"], ungrouped: ["open", "in no group"], not_supported: ["bad", "not supported"], irrelevant: ["", "irrelevant"], unscored: ["open", "unscored"] };
  const WORST = ["not_supported", "elsewhere", "unscored", "ungrouped", "irrelevant", "supported"];

  function view(doc, detail) {
    const worst = (sentence) => WORST.find((status) => detail.facts.some(([, own], fact) => own === sentence && detail.statuses[fact] === status));
    return [
      part("Prompt", text(doc.question)),
      part("What the model wrote", el("p", { class: "text judged", dir: "auto" }, detail.pieces.map(([piece, sentence]) => {
        const status = sentence < 0 ? null : worst(sentence);
        return status ? el("span", { class: `sentence ${status}`, title: STATUS[status][1] }, piece) : piece;
      }))),
      detail.facts.length ? part("Facts", el("ul", { class: "facts" }, detail.facts.map(([fact], place) => {
        const [kind, label] = STATUS[detail.statuses[place]];
        return el("li", {}, mark(kind, label), el("span", { dir: "auto" }, fact), detail.reasons[place] ? el("small", { class: "quiet", dir: "auto" }, ` ${detail.reasons[place]}`) : null);
      }))) : null,
      detail.abstained ? el("p", { class: "quiet" }, "The model declined to answer.") : null,
      doc.passages.length ? el("details", {}, el("summary", {}, `The ${doc.passages.length} passages`), doc.passages.map(({ title, text: passage }) => el("div", { class: "part" }, el("h4", { dir: "auto" }, title), text(passage, "text prefix")))) : null,
    ];
  }

  rowViews.add("longform", { view });
})();
