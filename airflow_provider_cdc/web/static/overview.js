// The table of all streams, with a search and a filter by condition.

import { address, openInAirflow, taskAddress } from "./connection.js";
import { element, replaceContent } from "./elements.js";
import { CONDITIONS, counted, fromNow, lag, since, time } from "./words.js";

// How many rows are made at once. A browser needs seconds to make ten thousand.
const ROWS = 200;
const COLUMNS = ["Condition", "Stream", "Source", "Mode", "Waiting", "Stale after", "Kept until", "Last consumer"];

export class Overview {
  constructor(connection) {
    this.connection = connection;
    this.chosen = new Set();
    this.text = "";
    this.lines = [];
    this.fitting = [];
    this.search = element("input", {
      type: "search",
      id: "search",
      placeholder: "name, source, consumer or problem",
      oninput: (event) => {
        this.text = event.target.value.trim().toLowerCase();
        this.filter();
      },
    });
    this.conditions = element("div", { class: "conditions", role: "group", "aria-label": "Conditions" });
    this.count = element("p", { class: "count", role: "status" });
    this.body = element("tbody");
    this.end = element("div", { class: "end" });
    new IntersectionObserver(([entry]) => entry.isIntersecting && this.addRows(), { rootMargin: "400px" }).observe(this.end);
    this.root = element("section", {},
      element("h1", {}, "Streams"),
      element("div", { class: "tools" },
        element("label", { for: "search" }, "Search "), this.search, this.conditions),
      this.count,
      element("table", { class: "streams" },
        element("colgroup", {}, COLUMNS.map((title) => element("col", { class: `of-${title.toLowerCase().replace(" ", "-")}` }))),
        element("thead", {}, element("tr", {},
          COLUMNS.map((title) => element("th", { scope: "col" }, title)))),
        this.body),
      this.end,
    );
  }

  show(found) {
    this.lines = found.lines.map((line) => ({ line, text: searched(line) }));
    this.showConditions(found.lines);
    this.filter(this.body.childElementCount);
  }

  showConditions(lines) {
    const counts = new Map();
    for (const { condition } of lines) counts.set(condition, (counts.get(condition) || 0) + 1);
    const buttons = Object.entries(CONDITIONS)
      .filter(([condition]) => counts.has(condition) || this.chosen.has(condition))
      .map(([condition, { word, level, meaning }]) => element("button", {
        type: "button",
        class: `condition ${level}`,
        title: meaning,
        "aria-pressed": String(this.chosen.has(condition)),
        onclick: (event) => this.toggle(condition, event.currentTarget),
      }, `${word} ${counts.get(condition) || 0}`));
    this.conditions.replaceChildren(...buttons);
  }

  toggle(condition, button) {
    if (!this.chosen.delete(condition)) this.chosen.add(condition);
    button.setAttribute("aria-pressed", String(this.chosen.has(condition)));
    this.filter();
  }

  // Shows the first lines that fit. The others get their rows when one scrolls to them.
  filter(atLeast = 0) {
    this.fitting = this.lines
      .filter(({ line, text }) => (!this.chosen.size || this.chosen.has(line.condition)) && text.includes(this.text))
      .map(({ line }) => line);
    const all = counted(this.lines.length, "stream");
    this.count.textContent = this.fitting.length === this.lines.length ? all : `${this.fitting.length.toLocaleString("en")} of ${all}`;
    this.body.replaceChildren(...this.rows(0, Math.max(ROWS, atLeast)));
  }

  addRows() {
    this.body.append(...this.rows(this.body.childElementCount, ROWS));
  }

  rows(begin, count) {
    const now = Date.now();
    return this.fitting.slice(begin, begin + count).map((line) => this.row(line, now));
  }

  row(line, now) {
    const { word, level } = CONDITIONS[line.condition];
    const cells = [
      [element("span", { class: `condition ${level}` }, word),
        line.problem && element("p", { class: "reason" }, firstSentence(line.problem))],
      [element("a", { href: address({ connection: this.connection, stream: line.stream_id }) }, line.name)],
      [line.source || "unknown"],
      [line.mode || "unknown"],
      [lag(line), line.waiting_since && element("p", { class: "reason" }, `since ${time(line.waiting_since)}, ${since(line.waiting_since, now)}`)],
      [element("span", { class: "moment" }, time(line.stale_after)), element("p", { class: "reason" }, fromNow(line.stale_after, now))],
      [element("span", { class: "moment" }, time(line.kept_until)), element("p", { class: "reason" }, fromNow(line.kept_until, now))],
      consumer(line, now),
    ];
    return element("tr", {},
      cells.map((content, i) => element("td", { "data-title": COLUMNS[i] }, content)));
  }
}

export function consumer(line, now) {
  if (!line.last_consumer) return ["not consumed yet"];
  const task = taskAddress(line.last_consumer);
  return [
    task === null
      ? line.last_consumer
      : element("a", { href: task, onclick: openInAirflow }, line.last_consumer),
    element("p", { class: "reason" }, since(line.last_consumed_at, now)),
  ];
}

// The cause and the fix of an error are on the page of the stream.
function firstSentence(problem) {
  return problem.split(". Cause: ")[0];
}

function searched(line) {
  const parts = [line.name, line.source, line.last_consumer, line.problem, line.owner, line.comment];
  return parts.filter(Boolean).join("\n").toLowerCase();
}
