// One response: its scores, its text and its facts.
function showResponse(response) {
  const facts = el("div", { class: "column facts-column" });
  const select = (sentence, scrolls) => {
    for (const node of root.querySelectorAll(".selected")) node.classList.remove("selected");
    for (const node of root.querySelectorAll(`[data-sentence="${Number(sentence)}"]`)) node.classList.add("selected");
    const first = facts.querySelector(".fact.selected");
    if (scrolls && first) {
      first.scrollIntoView({ block: "center", behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth" });
      first.focus({ preventScroll: true });
    }
  };
  facts.append(...individualCards(response, select));
  if (!response.facts.length) facts.append(el("section", { class: "card" }, el("p", { class: "quiet" }, "There are no facts to show.")));
  const root = el("article", { class: "response" },
    el("header", { class: "head" },
      el("div", {}, el("h2", { dir: "auto" }, response.name), el("p", { class: "quiet", dir: "auto" }, [`#${response.index}`, response.generation.question, response.judged_against && `judged against ${response.judged_against}`].filter(Boolean).join(" · "))), kindMark(response)),
    notice(response),
    verdict(response),
    el("div", { class: "columns" },
      el("div", { class: "column text-column" },
        el("section", { class: "card", "aria-label": "Text" }, el("header", {}, el("h3", {}, "What the model wrote")), text(response, select), legend(response)),
        given(response)),
      facts));
  return root;
}

function notice(response) {
  if (response.abstained) return el("p", { class: "notice" }, "The model declined to answer, so there is nothing to score.");
  return response.unscored ? el("p", { class: "notice" }, icon("unscored"), "Unscored: ", response.unscored) : null;
}

function verdict(response) {
  const scores = response.scores;
  if (!scores) return null;
  const number = (value, low, high) => [
    el("b", {}, percent(value)),
    low !== high && (scores.unscored || scores.unscored_grouped)
      ? el("small", {}, `${percent(low)} to ${percent(high)}, as the unscored would count`) : null,
  ];
  const supported = (wanted) => response.statuses.filter((status) => wanted.includes(status)).length;
  const grouped = response.groups.flat().length;
  const gap = scores.difference;
  return el("section", { class: "verdict", "aria-label": "Scores" },
    el("div", { class: "score plain" }, el("h3", {}, "FActScore"), number(scores.factscore, scores.factscore_worst, scores.factscore_best),
      el("p", {}, `${supported(["supported", "elsewhere", "ungrouped"])} of ${scores.facts} facts are true of somebody`)),
    el("div", { class: `gap${gap > 0.005 ? " open" : ""}` }, el("b", {}, gap === null ? "" : gap < 0.0005 ? "no difference" : `−${(100 * gap).toFixed(1)}`),
      gap > 0.0005 ? el("small", {}, "points") : null, dumbbell(scores)),
    el("div", { class: "score grouped" }, el("h3", {}, "D-FActScore"), number(scores.d_factscore, scores.d_factscore_worst, scores.d_factscore_best),
      el("p", {}, grouped ? `${supported(["supported"])} of ${grouped}${grouped < scores.facts ? " in groups" : ""} are true of the one they seem to be about` : "no fact is in a group")),
    el("div", { class: "numbers" },
      el("div", {}, el("b", {}, scores.num_biographies ?? "–"), el("span", {}, scores.num_biographies === 1 ? "person a reader would count" : "people a reader would count")),
      el("div", {}, el("b", {}, scores.num_entities), el("span", {}, scores.num_entities === 1 ? "entity told of" : "entities told of"))));
}

const worstOf = (response, facts) => SEVERITY.find((status) => facts.some((fact) => response.statuses[fact] === status));

// Sentences are tinted by individual and followed by the entities their facts are from; the words of a fact are underlined by its status.
function text(response, select) {
  const groupOf = new Map(response.groups.flatMap((facts, group) => facts.map((fact) => [fact, group])));
  const own = (sentence) => response.facts.flatMap((each, fact) => (each.sentence === sentence ? [fact] : []));
  const sentenceAt = (place) => response.pieces[place]?.[1];
  const seen = new Set();
  const node = el("p", { class: "text", dir: "auto" });
  let button;
  for (const [place, [piece, sentence, stated]] of response.pieces.entries()) {
    const facts = sentence < 0 ? [] : own(sentence);
    if (!facts.length) {
      node.append(piece);
      continue;
    }
    if (sentenceAt(place - 1) !== sentence) {
      const groups = [...new Set(facts.map((fact) => groupOf.get(fact) ?? -1))];
      for (const group of groups.filter((each) => each >= 0 && !seen.has(each))) {
        seen.add(group);
        node.append(el("span", { class: "swatch", "data-hue": hue(group), title: `Individual ${group + 1} begins` }, String(group + 1)));
      }
      const whole = response.pieces.map(([words, each]) => (each === sentence ? words : "")).join("");
      const choose = () => select(sentence, true);
      button = el("span", {
        class: "sentence", "data-hue": hue(groups[0]), "data-sentence": sentence, role: "button", tabindex: "0",
        "aria-label": `${whole} (${STATUSES[worstOf(response, facts)].label})`,
        on: { click: choose, keydown: (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); choose(); } } },
      });
      node.append(button);
    }
    button.append(stated.length ? el("span", { class: `words-of-fact ${worstOf(response, stated)}` }, piece) : piece);
    if (sentenceAt(place + 1) !== sentence) node.append(marks(response, facts));
  }
  if (!response.pieces.length) node.append(el("span", { class: "quiet" }, "An empty text."));
  return node;
}

function marks(response, facts) {
  const counts = new Map();
  for (const fact of facts) {
    const key = `${response.attributed[fact] ?? ""} ${response.statuses[fact]}`;
    counts.set(key, (counts.get(key) ?? 0) + 1);
  }
  return el("span", { class: "marks" }, [...counts].map(([key, count]) => {
    const [entity, status] = key.split(" ");
    const title = entity === "" ? "" : response.entities[Number(entity)];
    return el("span", { class: `mark ${status}`, title: `${counted(count, "fact")} ${STATUSES[status].label}${title ? `: ${title}` : ""}` },
      entity === "" ? null : letter(Number(entity)), icon(status), count > 1 ? String(count) : null);
  }));
}

function legend(response) {
  const used = SEVERITY.filter((status) => response.statuses.includes(status)).reverse();
  const told = [...new Set(response.attributed.filter((entity) => entity !== null))].sort((a, b) => a - b);
  if (!used.length) return null;
  return el("footer", { class: "legend" },
    el("ul", {}, used.map((status) => el("li", {}, icon(status), el("span", { class: `words-of-fact ${status}` }, STATUSES[status].label), el("span", { class: "quiet" }, ` ${STATUSES[status].note}`)))),
    el("ul", {}, told.map((entity) => el("li", {}, entityMark(entity, response.entities[entity], response.links.includes(entity) ? "solid" : "hollow"), response.entities[entity],
      response.links.includes(entity) ? null : el("span", { class: "quiet" }, " linked to no individual")))));
}

function given(response) {
  const { passages, citation_numbers: numbers } = response.generation;
  // Files of released responses keep the cited passages alone, and their numbers cannot always be told.
  const cited = (place) => (numbers ? numbers[place] : place + 1);
  const order = passages.map((_, place) => place).sort((a, b) => (cited(a) ?? a) - (cited(b) ?? b));
  return el("section", { class: "card passages", "aria-label": "Passages" },
    el("header", {}, el("h3", {}, "Passages it was given"), el("span", { class: "count" }, String(passages.length))),
    order.map((place) => el("details", {},
      el("summary", {}, cited(place) ? el("span", { class: "cite" }, `[${cited(place)}]`) : null, el("span", { class: "title", dir: "auto" }, passages[place].title)),
      el("p", { dir: "auto" }, passages[place].text))));
}
