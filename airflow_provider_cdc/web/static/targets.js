// The targets of streams: which versions of their sources they hold, and the targets that were verified,
// those that differ first.

import { address } from "./connection.js";
import { element } from "./elements.js";
import { counted, since, time } from "./words.js";

const HELD = ["Target", "Its version", "Source", "Versions of the source", "Through the stream"];
const COLUMNS = ["Result", "Target", "Stream", "Verified through", "Last check"];

export function targetsView({ targets, held, omitted }, connection) {
  const now = Date.now();
  const sorted = [...targets].sort((a, b) => b.differing_keys - a.differing_keys);
  return element("section", {},
    element("h1", {}, "Targets"),
    omitted.map((each) => element("p", { class: "problem" }, `Not read: ${each}`)),
    element("h2", {}, "What they hold"),
    heldTable(held, connection),
    element("h2", {}, "Verifications"),
    element("p", {}, targets.length
      ? counted(targets.length, "target") + " verified against the source."
      : "No target was verified. VerifyTarget, or stream_maintenance(verify=[...]), does that."),
    targets.length > 0 && element("table", { class: "cards" },
      heading(COLUMNS),
      element("tbody", {}, sorted.map((target) => row(target, connection, now)))));
}

// One row for each source of each target. Without a connection, streams are no links.
export function heldTable(held, connection) {
  const rows = held.flatMap(({ target, provenance }) => provenance.sources.map((source) => [
    target,
    `version ${provenance.version}`,
    source.source,
    versions(source, provenance),
    connection ? element("a", { href: address({ connection, stream: source.stream }) }, source.stream) : source.stream,
  ]));
  if (rows.length === 0) return element("p", {}, "No consumption that the monitor saw says what it wrote.");
  return element("table", { class: "cards" }, heading(HELD), element("tbody", {}, rows.map((cells) => cards(cells, HELD))));
}

function versions({ spans }, { since_version: since, unknown_versions: unknown }) {
  const held = spans.map(({ after_version: after, through_version: through }) =>
    (through <= after + 1 ? `${through}` : `${after + 1} to ${through}`)).join(", ");
  const earlier = since > 0 ? `; commits before version ${since} of the target were not read` : "";
  const others = unknown.length ? `; version ${unknown.at(-1)} of the target names no source` : "";
  return `${held}${earlier}${others}`;
}

function heading(titles) {
  return element("thead", {}, element("tr", {}, titles.map((title) => element("th", { scope: "col" }, title))));
}

function cards(cells, titles) {
  return element("tr", {}, cells.map((content, i) => element("td", { "data-title": titles[i] }, content)));
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
  return cards(cells, COLUMNS);
}
