// The targets of streams that were verified, those that differ first.

import { address } from "./connection.js";
import { element } from "./elements.js";
import { counted, since, time } from "./words.js";

const COLUMNS = ["Result", "Target", "Stream", "Verified through", "Last check"];

export function targetsView(targets, connection) {
  const now = Date.now();
  const sorted = [...targets].sort((a, b) => b.differing_keys - a.differing_keys);
  return element("section", {},
    element("h1", {}, "Targets"),
    element("p", {}, targets.length
      ? counted(targets.length, "target") + " verified against the source."
      : "No target was verified. VerifyTarget, or stream_maintenance(verify=[...]), does that."),
    targets.length > 0 && element("table", { class: "cards" },
      element("thead", {}, element("tr", {}, COLUMNS.map((title) => element("th", { scope: "col" }, title)))),
      element("tbody", {}, sorted.map((target) => row(target, connection, now)))));
}

function row(target, connection, now) {
  const differs = target.differing_keys > 0;
  const cells = [
    element("span", { class: `condition ${differs ? "bad" : "good"}` },
      differs ? `${counted(target.differing_keys, "key")} differ` : "Equal"),
    target.target,
    element("a", { href: address({ connection, stream: target.stream_id }) }, target.stream),
    target.verified_through === null ? "never equal" : `version ${target.verified_through}`,
    `version ${target.checked_version}, ${time(target.checked_at)}, ${since(target.checked_at, now)}`,
  ];
  return element("tr", {}, cells.map((content, i) => element("td", { "data-title": COLUMNS[i] }, content)));
}
