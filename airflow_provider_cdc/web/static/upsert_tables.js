// Upsert tables: how fresh they are, what waits, and what their jobs take.

import { address } from "./connection.js";
import { element } from "./elements.js";
import { lagPlot } from "./plots.js";
import { bytes, counted, length, secondsSince, since, time } from "./words.js";

export function upsertTablesView({ upsert_tables: tables, lags, omitted, as_of: asOf }, connection) {
  const now = Date.now();
  return element("section", {},
    element("h1", {}, "Upsert tables"),
    omitted.map((text) => element("p", { class: "problem" }, `Not read: ${text}`)),
    tables.length === 0 && element("p", {}, "This connection has no upsert table."),
    tables.map((table) => element("section", { "aria-label": table.name },
      element("h2", {}, table.name),
      element("p", {}, freshness(table, now)),
      table.problem && element("p", { class: "problem" }, table.problem),
      facts(table, connection, now),
      lagPlot(lags[table.stream_id] || [], asOf, table.max_staleness_seconds),
      jobs(table.jobs))));
}

function freshness(table, now) {
  const staleness = table.pending_since ? secondsSince(table.pending_since, now) : 0;
  const longest = table.max_staleness_seconds;
  const isLate = longest !== null && staleness > longest;
  return [
    element("span", { class: `condition ${isLate ? "bad" : "good"}` }, isLate ? "Late" : "In time"),
    ` staleness ${length(staleness)}, `,
    longest === null ? "no max_staleness: each read merges what waits" : `max_staleness ${length(longest)}`,
  ];
}

function facts(table, connection, now) {
  const recommended = table.recommended_max_staleness_seconds;
  const found = [
    ["Applied until", table.watermark ? `${time(table.watermark)}, ${since(table.watermark, now)}` : "unknown"],
    ["Waiting", table.pending_commits ? `${counted(table.pending_commits, "commit")}, ${bytes(table.pending_bytes)}` : "nothing waits"],
    ["In quarantine", counted(table.quarantined_changes, "change")],
    ["Recommended max_staleness", recommended === null ? "unknown until an apply has ended" : length(recommended)],
    ["Changes", element("a", { href: address({ connection, stream: table.stream_id }) }, "the stream in which they wait")],
  ];
  return element("dl", {}, found.flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]));
}

function jobs(uses) {
  if (uses.length === 0) return element("p", { class: "reason" }, "No job ran in the last day.");
  const rows = uses.map((use) => element("tr", {},
    [use.job_class, String(use.jobs), length(use.median_seconds), length(use.longest_seconds)]
      .map((text) => element("td", {}, text))));
  return element("table", { class: "jobs" },
    element("caption", {}, "Jobs of the last day"),
    element("thead", {}, element("tr", {},
      ["class", "jobs", "median", "longest"].map((title) => element("th", { scope: "col" }, title)))),
    element("tbody", {}, rows));
}
