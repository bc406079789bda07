// The facts of a response under their individuals; the evidence of a fact is made when it is asked for.
function individualCards(response, select) {
  const grouped = new Set(response.groups.flat());
  const rest = response.facts.map((_, fact) => fact).filter((fact) => !grouped.has(fact));
  const cards = response.groups.map((facts, group) => card(response, select, group, facts));
  if (rest.length) cards.push(card(response, select, -1, rest));
  return cards;
}

function card(response, select, group, facts) {
  const heading = group < 0 ? "In no group" : `Individual ${group + 1}`;
  return el(
    "section", { class: "card individual", "data-hue": hue(group), "aria-label": heading },
    el("header", {},
      el("h3", {}, el("span", { class: "swatch", "aria-hidden": "true" }, group < 0 ? "–" : String(group + 1)), heading),
      el("span", { class: "count" }, counted(facts.length, "fact"))),
    group < 0 ? el("p", { class: "quiet" }, "In no group: FActScore alone counts them.") : candidates(response, group, facts),
    el("ol", { class: "facts" }, facts.map((fact) => factRow(response, select, group, fact))),
  );
}

// Equation 1: how many facts of the group the page of each entity supports.
function candidates(response, group, facts) {
  const support = response.entities.map((title, entity) => ({
    title, entity, count: facts.filter((fact) => response.matrix[fact][entity]?.outcome === "supported").length,
  }));
  const link = response.links[group];
  const shown = support.filter(({ entity, count }) => count || entity === link).sort(
    (a, b) => (b.entity === link) - (a.entity === link) || b.count - a.count || a.entity - b.entity);
  const hidden = support.length - shown.length;
  return el("div", { class: "candidates" },
    link === null || link === undefined ? el("p", { class: "quiet" }, "Linked to no entity: no page supports any of its facts.") : null,
    shown.map(({ title, entity, count }) => {
      const fill = el("i", {});
      fill.style.width = `${(100 * count) / facts.length}%`;
      return el("div", { class: `candidate${entity === link ? " linked" : ""}` },
        entityMark(entity, title, entity === link ? "solid" : "hollow"),
        el("span", { class: "title" }, title, entity === link ? el("span", { class: "tag" }, "linked") : null),
        el("span", { class: "meter", "aria-hidden": "true" }, fill),
        el("span", { class: "number" }, `supports ${count} of ${facts.length}`));
    }),
    hidden ? el("p", { class: "quiet" }, `${counted(hidden, shown.length ? "other entity" : "entity", shown.length ? "other entities" : "entities")} of the passages: no fact supported.`) : null);
}

function factRow(response, select, group, fact) {
  const { text, sentence } = response.facts[fact];
  const status = response.statuses[fact];
  const panel = el("div", { class: "evidence", id: `evidence-${fact}`, hidden: true });
  const button = el("button", {
    type: "button", class: `fact ${status}`, id: `fact-${fact}`, "data-sentence": sentence,
    "aria-expanded": "false", "aria-controls": panel.id,
    on: {
      click: () => {
        const opens = panel.hidden;
        if (opens && !panel.childElementCount) panel.append(...evidence(response, group, fact));
        panel.hidden = !opens;
        button.setAttribute("aria-expanded", String(opens));
        select(sentence, false);
      },
    },
  },
  icon(status),
  el("span", { class: "words" }, el("span", { dir: "auto" }, text), el("span", { class: "status" }, STATUSES[status].label)),
  el("span", { class: "holders" }, response.entities.map((title, entity) => {
    const outcome = response.matrix[fact][entity]?.outcome;
    return outcome === "supported" ? entityMark(entity, `${title}: supported`, entity === response.links[group] ? "solid" : "hollow") : null;
  })));
  return el("li", {}, button, panel);
}

function evidence(response, group, fact) {
  const link = response.links[group] ?? -1;
  const order = response.entities.map((_, entity) => entity).sort((a, b) => {
    const rank = (entity) => (entity === link ? 0 : response.matrix[fact][entity]?.outcome === "supported" ? 1 : 2);
    return rank(a) - rank(b) || a - b;
  });
  if (!order.length) return [el("p", { class: "quiet" }, "There is no page to check it against.")];
  return order.map((entity) => {
    const { outcome, score, reason, evidence: passages } = response.matrix[fact][entity];
    const title = response.entities[entity];
    const inner = [
      reason ? el("p", { class: "reason", dir: "auto" }, reason) : null,
      passages.map((number) => el("blockquote", { dir: "auto" }, highlighted(response.evidence[number], response.facts[fact].text, response.name))),
      passages.length ? null : el("p", { class: "quiet" }, "No evidence was shown to the judge."),
    ];
    return el("details", { class: "judgement", open: entity === link || outcome === "supported" },
      el("summary", {}, icon(outcome), entityMark(entity, title, entity === link ? "solid" : "hollow"),
        el("span", { class: "title" }, title),
        el("span", { class: "outcome" }, `${verdictWord(response.matrix[fact][entity])}${probability(score)}`)),
      inner);
  });
}

// A judge that gives no probability is recorded as certain.
function probability(score) {
  if (score === null || score === 0 || score === 1) return "";
  if (score < 0.01) return ", below 0.01";
  return score > 0.99 ? ", above 0.99" : `, ${score.toFixed(2)}`;
}

// Some judges say of an unsupported fact whether the page contradicts it.
function verdictWord({ outcome, is_contradicted: isContradicted }) {
  if (isContradicted === undefined) return STATUSES[outcome].label;
  return isContradicted ? "contradicted" : "not found";
}

// The words of the fact, marked in the passage; not those of the name, which are everywhere.
function highlighted(passage, fact, name) {
  const words = (text) => text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? [];
  const everywhere = new Set(words(name));
  const known = new Set(words(fact).filter((word) => !everywhere.has(word) && (word.length > 3 || /\d/.test(word))));
  return passage.split(/([\p{L}\p{N}]+)/u).map((part) => (known.has(part.toLowerCase()) ? el("mark", {}, part) : part));
}
