"use strict";
// A row of FACTOR: the prefix, and its completions with their log-probabilities.
(() => {
  const { edits, mark, number, part, text } = rowViews;

  const said = (right) => (right === undefined ? "not scored" : right ? "right" : "wrong");

  function view(doc, detail) {
    const means = detail.mean_logprobs ?? [];
    const deciding = (detail.compares_sums ? detail.sum_logprobs : means) ?? [];
    const best = deciding.length && !deciding.includes(null) ? deciding.indexOf(Math.max(...deciding)) : -1;
    const lowest = Math.min(...deciding.filter((value) => value !== null));
    return [
      part("Prefix", text(doc.prefix, "text prefix")),
      part("Choices", el("ol", { class: "choices" }, doc.choices.map((choice, place) => {
        const isGold = place === doc.gold;
        const meter = el("i", {});
        const value = deciding[place];
        if (value !== null && value !== undefined && best >= 0) meter.style.width = `${lowest === deciding[best] ? 100 : 12 + (88 * (value - lowest)) / (deciding[best] - lowest)}%`;
        return el("li", { class: `choice${isGold ? " gold" : ""}${place === best ? " chosen" : ""}` },
          el("div", { class: "tags" }, isGold ? mark("good", "true") : mark("", doc.types[place] || "false"), place === best ? mark(isGold ? "good" : "bad", "the model's") : null),
          text(isGold ? choice : edits(doc.choices[doc.gold] ?? "", choice)),
          el("div", { class: "scores" }, el("span", { class: "meter", "aria-hidden": "true" }, meter),
            el("span", {}, el("b", {}, number(means[place])), " mean"), el("span", {}, number(detail.sum_logprobs?.[place], 2), " sum"),
            el("span", {}, `${detail.tokens?.[place] ?? "–"} tokens`)));
      }))),
      el("p", { class: "quiet" }, `Log-probabilities in nats, the mean per token. By tokens ${said(detail.verdicts.factor_acc)}, by sums ${said(detail.verdicts.acc)}, by bytes ${said(detail.verdicts.acc_bytes)}.`,
        detail.continuous?.choice_prob === undefined ? null : ` Probability of the true one given that one of them follows ${number(100 * detail.continuous.choice_prob, 1)}%, Brier score ${number(detail.continuous.brier_score)}, ${number(detail.continuous.bits_per_byte)} bits per byte.`,
        detail.truncated ? " The beginning of the prefix was cut off." : null),
    ];
  }

  rowViews.add("factor", { view, margin: (value) => `${value > 0 ? "+" : ""}${number(value)}` });
})();
