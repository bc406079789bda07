// How statuses, individuals and entities look: always by shape and word as well as by colour.
const STATUSES = {
  supported: { label: "supported", note: "by the page of this individual’s entity", path: "M2.5 8.5 6.5 12.5 13.5 4" },
  elsewhere: {
    label: "true of another", note: "FActScore counts it, D-FActScore does not",
    path: "M2 5.5h11M10 2.5l3 3-3 3M14 10.5H3M6 7.5l-3 3 3 3",
  },
  ungrouped: { label: "in no group", note: "some page supports it: FActScore alone counts it", path: "M8 2.5v5M8 13a2.2 2.2 0 1 1 0-4.4 2.2 2.2 0 0 1 0 4.4" },
  contradicted: { label: "contradicted", note: "by the page of this individual’s entity", path: "M4 4l8 8M12 4l-8 8" },
  not_supported: { label: "not supported", note: "by any page", path: "M4 4l8 8M12 4l-8 8" },
  irrelevant: { label: "irrelevant", note: "not about the person", path: "M3 8h10" },
  unscored: {
    label: "unscored", note: "no verdict",
    path: "M5.2 6a2.8 2.8 0 1 1 4.2 2.4C8.4 9 8 9.4 8 10.4M8 13v.2",
  },
};
const SEVERITY = ["contradicted", "not_supported", "elsewhere", "unscored", "irrelevant", "ungrouped", "supported"];

const KINDS = {
  one_bio_many_entities: { label: "People merged", note: "one biography, several entities" },
  one_bio_one_entity: { label: "One person", note: "one biography, one entity" },
  many_bios_many_entities: { label: "Told apart", note: "several biographies and entities" },
  other: { label: "Other", note: "no entity at all, or several biographies of one" },
  abstained: { label: "Abstained", note: "the model declined to answer" },
  unscored: { label: "Unscored", note: "no verdict on the response" },
};

const NUM_HUES = 6;
const hue = (group) => (group < 0 ? "none" : String(group % NUM_HUES));

function letter(entity) {
  const last = String.fromCharCode(65 + (entity % 26));
  return entity < 26 ? last : letter(Math.floor(entity / 26) - 1) + last;
}

function icon(status) {
  return svg(STATUSES[status].path, `icon ${status}`);
}

function entityMark(entity, title, state = "solid") {
  return el("span", { class: `entity ${state}`, title, "aria-label": `entity ${letter(entity)}, ${title}` }, letter(entity));
}

function kindOf(response) {
  if (response.abstained) return "abstained";
  if (!response.scores || !response.scores.kind) return "unscored";
  return response.scores.kind;
}

function kindMark(response) {
  const kind = kindOf(response);
  return el("span", { class: `kind ${kind}`, title: KINDS[kind].note }, KINDS[kind].label);
}

// Both scores on one line from 0 to 100%: the hollow dot is FActScore, the full one D-FActScore.
function dumbbell(scores) {
  const ends = [scores?.factscore, scores?.d_factscore];
  const track = el("span", { class: "dumbbell", "aria-hidden": "true" });
  if (typeof ends[0] !== "number") return track;
  const low = Math.min(ends[0], ends[1] ?? ends[0]);
  const high = Math.max(ends[0], ends[1] ?? ends[0]);
  const bar = el("i", { class: "bar" });
  bar.style.left = `${100 * low}%`;
  bar.style.width = `${100 * (high - low)}%`;
  track.append(bar);
  ["plain", "grouped"].forEach((name, number) => {
    if (typeof ends[number] !== "number") return;
    const dot = el("i", { class: `dot ${name}` });
    dot.style.left = `${100 * ends[number]}%`;
    track.append(dot);
  });
  return track;
}
