// One stream: its condition and what to do, its lag over time, and its offset on each source.

import { actionsView } from "./actions.js";
import { address, openInAirflow, taskAddress } from "./connection.js";
import { element } from "./elements.js";
import { consumer } from "./overview.js";
import { consumptionPlot, lagPlot, offsetLine } from "./plots.js";
import { heldTable } from "./targets.js";
import { CONDITIONS, bytes, counted, fromNow, lag, length, since, time } from "./words.js";

export function streamView({ line, lags, moves, actions, held, as_of: asOf }, connection) {
  const now = Date.now();
  const { word, level, meaning } = CONDITIONS[line.condition];
  return element("section", { class: "stream" },
    element("p", {}, element("a", { href: address({ connection }) }, "All streams")),
    element("h1", {}, line.name),
    element("p", {}, element("span", { class: `condition ${level}` }, word), ` ${meaning}, since ${time(line.condition_since)}`),
    line.problem && element("p", { class: "reason" }, line.problem),
    line.advice && adviceView(line.advice),
    line.consumption && consumptionView(line.consumption, now),
    actionsView(actions, line, connection),
    element("h2", {}, "Lag"),
    lagPlot(lags, asOf, line.max_lag_seconds),
    element("h2", {}, "Consumptions"),
    consumptionPlot(moves, asOf),
    element("h2", {}, "Offset"),
    line.tables.map((table) => element("section", {},
      element("h3", {}, table.table),
      element("p", { class: "reason" }, `${table.location}; ${counted(table.commits_behind, "commit")} with data, ${bytes(table.bytes_behind)}`),
      table.problem && element("p", { class: "problem" }, table.problem),
      offsetLine(table, ["at_risk", "stale"].includes(line.condition)))),
    element("h2", {}, "Targets"),
    heldTable(held, null),
    element("h2", {}, "Facts"),
    facts(line, now),
    element("h2", {}, "History"),
    historyTable(moves, now));
}

function adviceView({ text, code }) {
  return element("section", { class: "advice", "aria-label": "What to do" },
    element("h2", {}, "What to do"),
    element("p", {}, text),
    code && element("div", { class: "code" },
      element("pre", { tabindex: "0" }, element("code", {}, code)),
      copyButton(code)));
}

function copyButton(code) {
  return element("button", {
    type: "button",
    onclick: async (event) => {
      const button = event.currentTarget;
      button.textContent = (await copied(code)) ? "Copied" : "Not copied";
    },
  }, "Copy");
}

async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch (error) {
    // Only a page that came by HTTPS, or from this machine, has the clipboard.
    const field = element("textarea", { class: "copied" });
    field.value = text;
    document.body.append(field);
    field.select();
    const isCopied = document.execCommand("copy");
    field.remove();
    return isCopied;
  }
}

function consumptionView(open, now) {
  const task = taskAddress(open.consumer);
  return element("section", { "aria-label": "Open consumption" },
    element("h2", {}, "Open consumption"),
    element("p", {},
      `${open.consumption_id} by `,
      task ? element("a", { href: task, onclick: openInAirflow }, open.consumer) : open.consumer,
      `, begun ${time(open.begun_at)}, ${since(open.begun_at, now)}, ${counted(open.attempts, "attempt")}`));
}

function explained({ strategy, file_count: files, size_bytes: size, commit_count: commits, reason }) {
  return `${strategy.replaceAll("_", " ")}: ${counted(files, "file")} of ${bytes(size)} for ${counted(commits, "commit")}; ${reason}`;
}

function historyTable(moves, now) {
  if (moves.length === 0) return element("p", {}, "No check of the last days found a move.");
  const rows = [...moves].reverse().map((move) => {
    const task = taskAddress(move.consumer);
    const { rows: taken } = move;
    const cells = [
      `${time(move.at)}, ${since(move.at, now)}`,
      move.transition,
      task ? element("a", { href: task, onclick: openInAirflow }, move.consumer) : move.consumer || "",
      move.actor,
      `version ${move.versions.join(", ")}`,
      taken ? `${taken.inserted} inserted, ${taken.updated} updated, ${taken.deleted} deleted` : "",
      move.seconds === null ? "" : `${move.seconds.toFixed(1)} s`,
    ];
    return element("tr", {}, cells.map((content) => element("td", {}, content)));
  });
  return element("div", { class: "scrolls", tabindex: "0", role: "region", "aria-label": "History" },
    element("table", {},
      element("thead", {}, element("tr", {},
        ["when", "what", "consumer", "by", "offset", "rows", "took"].map((title) => element("th", { scope: "col" }, title)))),
      element("tbody", {}, rows)));
}

function facts(line, now) {
  const found = [
    ["Source", line.source || "unknown"],
    ["Mode", line.mode || "unknown"],
    ["Waiting", lag(line)],
    ["Waiting since", line.waiting_since ? `${time(line.waiting_since)}, ${since(line.waiting_since, now)}` : "nothing waits"],
    ["max_lag", line.max_lag_seconds === null ? "none" : length(line.max_lag_seconds)],
    ["Stale after", `${time(line.stale_after)}, ${fromNow(line.stale_after, now)}`],
    ["Kept until", `${time(line.kept_until)}, ${fromNow(line.kept_until, now)}`],
    ["Explain", line.plan && explained(line.plan)],
    ["Complete through", time(line.complete_through) || "unknown"],
    ["Last consumer", consumer(line, now)],
    ["Owner", line.owner || "unknown"],
    ["Created", time(line.created_at) || "unknown"],
    ["Comment", line.comment || ""],
    ["Upsert table", line.upsert_table],
    ["Change stream", line.change_stream],
  ];
  return element("dl", {}, found
    .filter(([, value]) => value !== null)
    .flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, ...[value].flat())]));
}
