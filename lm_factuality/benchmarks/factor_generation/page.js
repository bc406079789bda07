"use strict";
// A row of FACTOR in open generation: where true and false part, and what the model writes there.
(() => {
  const { edits, mark, part, text } = rowViews;

  const MARKS = { true: ["good", "true"], false: ["bad", "false"], neutral: ["", "neither"] };

  function view(doc, detail) {
    return [
      part("Prefix", text(doc.prefix, "text prefix")),
      doc.true ? part("Where true and false part", doc.stem ? text([doc.stem, " …"]) : null, el("ul", { class: "choices" },
        el("li", { class: "choice gold" }, el("div", { class: "tags" }, mark("good", "true")), text(doc.true)),
        el("li", { class: "choice" }, el("div", { class: "tags" }, mark("", "false")), text(edits(doc.true, doc.false))))) : null,
      part("What the model wrote", el("ol", { class: "segments" }, (detail.sentences ?? detail.outputs).map((sentence, place) => {
        const [kind, label] = MARKS[detail.marks[place]] ?? ["open", "unscored"];
        return el("li", { class: `segment ${kind === "good" ? "tp" : kind === "bad" ? "fn" : "tn"}` }, el("div", { class: "tags" }, mark(kind, label)), text(sentence ?? detail.outputs[place] ?? ""));
      }))),
      detail.factor_acc === null || detail.factor_acc === undefined ? null : el("p", { class: "quiet" }, `By log-probabilities the model is ${detail.factor_acc ? "right" : "wrong"} on this row.`),
    ];
  }

  rowViews.add("factor_generation", { view });
})();
