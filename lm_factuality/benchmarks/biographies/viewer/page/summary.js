// The head of the page: means over the set with their intervals.
function showSummary(title, summary, settings, responses, toggle) {
  const shares = [
    ["d_factscore", "D-FActScore", "checked against that person’s page"],
    ["factscore", "FActScore", "checked against any page"],
    ["difference", "Difference", "what merging people hides"],
  ];
  const numbers = [
    ["num_biographies", "Biographies", "people a reader would count"],
    ["num_entities", "Entities", "people told of"],
  ];
  const headlines = shares.map(([key, name, note]) => tile(name, note, summary[key], (value) => (100 * value).toFixed(1), key === "difference" ? "" : "%", key));
  const others = [
    ...numbers.map(([key, name, note]) => tile(name, note, summary[key], (value) => value.toFixed(2), "", key)),
    tile("People merged", "one biography, several entities", summary.one_bio_many_entities, (value) => (100 * value).toFixed(1), "%", "one_bio_many_entities"),
    tile("Answered", "the rest abstained", summary.respond_ratio, (value) => (100 * value).toFixed(1), "%", "respond_ratio"),
  ];
  const unscored = responses.filter((response) => response.unscored).length;
  const unscoredFacts = summary.unscored_facts_in_groups;
  const bounds = summary.d_factscore;
  const notes = [
    `${counted(responses.length, "response")}, ${counted(summary.facts, "fact")}.`,
    "In brackets: 95% intervals, clustered by name.",
    unscored || unscoredFacts
      ? `Unscored: ${counted(unscored, "response")}, ${counted(unscoredFacts, "fact")}; D-FActScore is between ${percent(bounds.worst)} and ${percent(bounds.best)}, as they would count.`
      : "Nothing is unscored.",
    `${Object.entries(settings).map(([name, value]) => `${name[0].toUpperCase()}${name.slice(1)}: ${value}`).join("; ")}.`,
  ];
  return [
    el("div", { class: "bar-top" }, el("h1", { dir: "auto" }, title),
      el("button", { type: "button", class: "theme", on: { click: toggle }, title: "Light or dark" }, svg("M8 2a6 6 0 1 0 0 12V2z M8 2a6 6 0 0 1 0 12", "icon half"), el("span", { class: "hidden-text" }, "Light or dark"))),
    responses.length > 1 ? el("dl", { class: "tiles" }, headlines) : null,
    responses.length > 1 ? el("details", {}, el("summary", {}, "More scores"), el("dl", { class: "tiles" }, others)) : null,
    el("p", { class: "quiet" }, (responses.length > 1 ? notes : notes.slice(-1)).join(" ")),
  ];
}

function tile(name, note, found, format, unit, key) {
  const signed = (value) => format(value).replace("-", "−");
  const interval = found.interval ? found.interval.map(signed).join(found.interval[0] < 0 ? " to " : " – ") : "";
  return el("div", { class: `tile ${key}` }, el("dt", {}, name, el("small", {}, note)),
    el("dd", {}, el("b", {}, found.value === null ? "–" : `${signed(found.value)}${unit}`), interval ? el("span", {}, `[${interval}]`) : null));
}
