// The list of responses: its buttons are made once, then filtered, sorted and chosen from.
const ORDERS = {
  difference: ["Difference, largest first", (a, b) => number(b, "difference") - number(a, "difference")],
  given: ["As in the file", () => 0],
  name: ["Name", (a, b) => a.name.localeCompare(b.name)],
  d_factscore: ["D-FActScore, lowest first", (a, b) => number(a, "d_factscore", 2) - number(b, "d_factscore", 2)],
  factscore: ["FActScore, lowest first", (a, b) => number(a, "factscore", 2) - number(b, "factscore", 2)],
  unscored: ["Unscored facts, most first", (a, b) => number(b, "unscored_grouped") - number(a, "unscored_grouped")],
};
const CONDITIONS = {
  all: ["All", () => true],
  differ: ["FActScore and D-FActScore differ", (each) => number(each, "difference") > 0.0005],
  faulty: ["With facts not supported", (each) => each.statuses.some((status) => ["contradicted", "not_supported"].includes(status))],
  unscored: ["With anything unscored", (each) => Boolean(each.unscored) || each.statuses.includes("unscored")],
};

const number = (response, key, missing = -1) => response.scores?.[key] ?? missing;

class List {
  constructor(node, responses, open) {
    this.responses = responses;
    this.open = open;
    this.buttons = responses.map((response, place) => this.button(response, place));
    this.shown = [];
    this.search = el("input", { type: "search", id: "search", placeholder: "Search names and texts", "aria-label": "Search names and texts", autocomplete: "off", spellcheck: "false" });
    const kinds = Object.entries(KINDS).filter(([kind]) => responses.some((response) => kindOf(response) === kind));
    this.kind = choice("kind", "Type", [["all", "All types"], ...kinds.map(([kind, { label, note }]) => [kind, `${label}: ${note}`])]);
    this.condition = choice("condition", "Show", Object.entries(CONDITIONS).map(([key, [label]]) => [key, label]));
    this.order = choice("order", "Sort by", Object.entries(ORDERS).map(([key, [label]]) => [key, label]));
    this.count = el("p", { class: "quiet", "aria-live": "polite", id: "count" });
    this.items = el("ol", { class: "items" });
    this.search.addEventListener("input", () => this.update());
    for (const control of [this.kind, this.condition, this.order]) control.addEventListener("change", () => this.update());
    this.items.addEventListener("keydown", (event) => this.move(event));
    node.append(el("div", { class: "controls" }, this.search, labelled("Type", this.kind), labelled("Show", this.condition), labelled("Sort by", this.order), this.count), this.items);
    this.update();
  }

  button(response, place) {
    const { scores } = response;
    const kind = kindOf(response);
    return el("button", { type: "button", class: "item", "data-place": place, on: { click: () => this.open(place) } },
      el("span", { class: "name", dir: "auto", title: response.generation.question }, response.name),
      el("span", { class: `kind ${kind}` }, KINDS[kind].label),
      dumbbell(scores),
      el("span", { class: "figures" }, response.statuses.includes("unscored") ? el("span", { title: "has facts without a verdict" }, icon("unscored")) : null,
        el("span", { class: "index" }, `#${response.index}`), scores ? `${percent(scores.factscore, 0)} → ${percent(scores.d_factscore, 0)}` : "–"));
  }

  update() {
    const wanted = this.search.value.trim().toLowerCase().split(/\s+/).filter(Boolean);
    const matches = ({ response }) => {
      const all = `${response.name} ${response.index} ${response.pieces.map(([piece]) => piece).join("")}`.toLowerCase();
      return (this.kind.value === "all" || kindOf(response) === this.kind.value)
        && CONDITIONS[this.condition.value][1](response) && wanted.every((word) => all.includes(word));
    };
    const compare = ORDERS[this.order.value][1];
    this.shown = this.responses.map((response, place) => ({ response, place })).filter(matches)
      .sort((a, b) => compare(a.response, b.response) || a.place - b.place).map(({ place }) => place);
    this.items.replaceChildren(...this.shown.map((place) => el("li", {}, this.buttons[place])));
    this.count.textContent = `${this.shown.length} of ${counted(this.responses.length, "response")}`;
  }

  mark(place) {
    this.current = place;
    this.buttons.forEach((button, each) => (each === place ? button.setAttribute("aria-current", "true") : button.removeAttribute("aria-current")));
    const item = this.buttons[place];
    if (item?.isConnected) this.items.scrollTop += overflow(item.getBoundingClientRect(), this.items.getBoundingClientRect());
  }

  step(by) {
    if (!this.shown.length) return;
    const at = this.shown.indexOf(this.current);
    const next = at < 0 ? 0 : Math.min(Math.max(at + by, 0), this.shown.length - 1);
    this.open(this.shown[next]);
  }

  move(event) {
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!by) return;
    event.preventDefault();
    this.step(by);
    this.buttons[this.current]?.focus({ preventScroll: true });
  }
}

// By how much a list has to scroll to show an item.
function overflow(item, list) {
  if (item.top < list.top) return item.top - list.top;
  return item.bottom > list.bottom ? item.bottom - list.bottom : 0;
}

function choice(id, label, options) {
  return el("select", { id, "aria-label": label }, options.map(([value, text]) => el("option", { value }, text)));
}

function labelled(text, control) {
  return el("label", { class: "labelled" }, el("span", {}, text), control);
}
