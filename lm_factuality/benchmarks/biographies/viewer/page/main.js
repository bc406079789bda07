// Reads the data, shows the summary and the list, and one response at a time.
const content = JSON.parse(document.getElementById("data").textContent);
const detail = document.getElementById("detail");

function toggleTheme() {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const now = document.documentElement.dataset.theme ?? (dark ? "dark" : "light");
  document.documentElement.dataset.theme = now === "dark" ? "light" : "dark";
}

function show(place) {
  const response = content.responses[place];
  detail.replaceChildren(response ? showResponse(response) : el("p", { class: "quiet" }, "There is no response to show."));
  detail.scrollTop = 0;
  list?.mark(place);
}

function open(place) {
  const hash = `#${place}`;
  if (location.hash === hash) show(place);
  else location.hash = hash;
}

function chosen() {
  const place = /^#\d+$/.test(location.hash) ? Number(location.hash.slice(1)) : -1;
  return place in content.responses ? place : list?.shown[0] ?? 0;
}

document.getElementById("summary").append(
  ...showSummary(content.title, content.summary, content.settings, content.responses, toggleTheme).filter(Boolean));
const list = content.responses.length > 1 ? new List(document.getElementById("list"), content.responses, open) : null;
document.getElementById("layout").classList.toggle("single", !list);
addEventListener("hashchange", () => {
  if (location.hash !== "#detail") show(chosen());
});
addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const isTyping = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName ?? "");
  if (event.key === "Escape" && isTyping) event.target.blur();
  if (isTyping || !list) return;
  if (event.key === "/") {
    event.preventDefault();
    list.search.focus();
  } else if (event.key === "j") list.step(1);
  else if (event.key === "k") list.step(-1);
});
show(chosen());
