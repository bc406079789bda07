"use strict";
// What every page shares: the theme, "/" for the search field, and tables that sort, search and filter. Data is only ever text.
(() => {
  const root = document.documentElement;
  let stored = null;
  try {
    stored = localStorage.getItem("theme");
  } catch {
    stored = null; // a browser may keep nothing for files; then the theme is the system's on every page
  }
  if (stored === "dark" || stored === "light") root.dataset.theme = stored;

  function addThemeButton() {
    const bar = document.querySelector("header.top .bar");
    if (!bar) return;
    const button = document.createElement("button");
    button.type = "button";
    button.className = "theme";
    button.setAttribute("aria-label", "Light or dark");
    button.title = "Light or dark";
    button.textContent = "◐";
    button.addEventListener("click", () => {
      const dark = matchMedia("(prefers-color-scheme: dark)").matches;
      const next = (root.dataset.theme ?? (dark ? "dark" : "light")) === "dark" ? "light" : "dark";
      root.dataset.theme = next;
      try {
        localStorage.setItem("theme", next);
      } catch {
        return; // see above
      }
    });
    bar.append(button);
  }

  const valueOf = (row, column) => {
    const cell = row.cells[column];
    return cell?.dataset.value ?? cell?.textContent.trim() ?? "";
  };

  function sortBy(table, heading) {
    const column = heading.cellIndex;
    const numeric = heading.classList.contains("number");
    const first = numeric ? "descending" : "ascending";
    const second = numeric ? "ascending" : "descending";
    const order = heading.getAttribute("aria-sort") === first ? second : first;
    for (const each of table.tHead.rows[0].cells) each.removeAttribute("aria-sort");
    heading.setAttribute("aria-sort", order);
    const sign = order === "ascending" ? 1 : -1;
    const compare = (a, b) => {
      const [one, other] = [valueOf(a, column), valueOf(b, column)];
      if (!numeric) return sign * one.localeCompare(other, "en", { numeric: true });
      const [left, right] = [one, other].map((value) => (value === "" ? NaN : Number(value.replace("−", "-").replaceAll(",", ""))));
      if (Number.isNaN(left) || Number.isNaN(right)) return Number.isNaN(left) - Number.isNaN(right); // what has no number is last either way
      return sign * (left - right);
    };
    const body = table.tBodies[0];
    body.append(...[...body.rows].sort(compare)); // a stable sort: ties keep the order of before
  }

  function makeSortable() {
    const headings = document.querySelectorAll("table[data-sortable] thead th:not(:has(button))");
    for (const heading of headings) {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...heading.childNodes);
      button.addEventListener("click", () => sortBy(heading.closest("table"), heading));
      heading.append(button);
    }
  }

  // One function of all search and filter fields of a table; "data-terms" of a row is searched with what it shows.
  function narrow(name) {
    const table = document.getElementById(name);
    const words = [...document.querySelectorAll(`[data-search="${name}"]`)].flatMap((field) =>
      field.value.toLocaleLowerCase("en").split(/\s+/).filter(Boolean));
    const filters = [...document.querySelectorAll(`[data-filter="${name}"]`)].filter((field) => field.value);
    const rows = [...table.tBodies[0].rows];
    let shown = 0;
    for (const row of rows) {
      const text = `${row.textContent} ${row.dataset.terms ?? ""}`.toLocaleLowerCase("en");
      row.hidden = !words.every((word) => text.includes(word))
        || !filters.every((field) => row.getAttribute(`data-${field.dataset.facet}`) === field.value);
      if (!row.hidden) shown += 1;
    }
    for (const count of document.querySelectorAll(`[data-count="${name}"]`)) {
      count.textContent = shown === rows.length ? `${rows.length} rows` : `${shown} of ${rows.length} rows`;
    }
  }

  // A table that goes on to the right says so until its end is in view.
  function hint() {
    for (const box of document.querySelectorAll(".scroll")) {
      box.classList.toggle("wide", box.scrollLeft + box.clientWidth < box.scrollWidth - 8);
      box.onscroll ??= hint;
    }
  }

  function start() {
    for (const event of ["resize", "toggle", "drawn"]) addEventListener(event, hint, true);
    hint();
    addThemeButton();
    makeSortable();
    addEventListener("drawn", makeSortable); // tables that scripts draw
    for (const field of document.querySelectorAll("[data-search], [data-filter]")) {
      const name = field.dataset.search ?? field.dataset.filter;
      for (const event of ["input", "change"]) field.addEventListener(event, () => narrow(name));
      if (field.value) narrow(name); // what the browser has kept over a reload
    }
    addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName ?? "");
      if (event.key === "Escape" && typing) event.target.blur();
      if (event.key !== "/" || typing) return;
      const search = document.querySelector('input[type="search"]');
      if (search) {
        event.preventDefault();
        search.focus();
        search.select();
      }
    });
  }
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})();
