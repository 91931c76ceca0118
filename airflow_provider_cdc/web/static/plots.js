// Plots as drawings, with a table of the same figures for those who do not see them.

import { drawing, element } from "./elements.js";
import { bytes, counted, length, time } from "./words.js";

const WIDTH = 720;
const HEIGHT = 180;
const LEFT = 92;
const BOTTOM = 24;
const TOP = 10;

// A point: [at, waiting since (0: nothing waits), commits, bytes, last consumed], in seconds.
// `limit`: the longest lag that is allowed, in seconds, or null.
export function lagPlot(points, asOf, limit) {
  const end = Math.floor(Date.parse(asOf) / 1000);
  if (points.length === 0) return element("p", {}, "No check has recorded its lag yet.");
  const begin = Math.min(points[0][0], end - 60);
  const steps = lagSteps(points, end);
  const longest = Math.max(...steps.map(([, lag]) => lag));
  const most = Math.max(60, longest, limit || 0);
  const x = (at) => LEFT + ((at - begin) / (end - begin)) * (WIDTH - LEFT - 10);
  const y = (lag) => HEIGHT - BOTTOM - (lag / most) * (HEIGHT - BOTTOM - TOP);
  const path = steps.map(([at, lag], i) => `${i ? "L" : "M"}${x(at).toFixed(1)} ${y(lag).toFixed(1)}`).join("");
  const consumed = consumptions(points).filter((at) => at >= begin);
  const summary = `Lag from ${stamp(begin)} to ${stamp(end)}: at most ${length(longest)}, now ${length(steps.at(-1)[1])}.`
    + (limit === null ? "" : ` The limit is ${length(limit)}.`)
    + ` ${counted(consumed.length, "check")} found a new consumption.`;
  return element("figure", {},
    drawing("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": summary },
      drawing("line", { class: "axis", x1: LEFT, y1: HEIGHT - BOTTOM, x2: WIDTH - 10, y2: HEIGHT - BOTTOM }),
      [0, 0.5, 1].map((part) => drawing("text", { class: "mark", x: LEFT - 6, y: y(most * part) + 4, "text-anchor": "end" }, length(most * part))),
      drawing("text", { class: "mark", x: LEFT, y: HEIGHT - 6 }, stamp(begin)),
      drawing("text", { class: "mark", x: WIDTH - 10, y: HEIGHT - 6, "text-anchor": "end" }, stamp(end)),
      consumed.map((at) => drawing("line", { class: "consumption", x1: x(at), y1: TOP, x2: x(at), y2: HEIGHT - BOTTOM })),
      limit !== null && drawing("line", { class: "limit", x1: LEFT, y1: y(limit), x2: WIDTH - 10, y2: y(limit) }),
      drawing("path", { class: "lag", d: path })),
    element("figcaption", {}, summary),
    figures(points));
}

// Between two checks that found the same, the lag of a waiting change grows, and while the source does not answer.
function lagSteps(points, end) {
  const steps = [];
  let waiting = 0;
  points.forEach(([at, found, commits], i) => {
    if (commits >= 0) waiting = found;
    const until = i + 1 < points.length ? points[i + 1][0] : end;
    steps.push([at, waiting ? at - waiting : 0], [until, waiting ? until - waiting : 0]);
  });
  return steps.map(([at, lag]) => [at, Math.max(0, lag)]);
}

function consumptions(points) {
  return points.map((point) => point[4]).filter((at, i, all) => at && i > 0 && at !== all[i - 1]);
}

function figures(points) {
  const rows = points.slice(-20).reverse().map(([at, waiting, commits, size, consumed]) => element("tr", {},
    [stamp(at), waiting ? stamp(waiting) : commits < 0 ? "unknown" : "nothing waits", counted(commits, "commit"), bytes(size), consumed ? stamp(consumed) : ""]
      .map((text) => element("td", {}, text))));
  return element("details", {},
    element("summary", {}, "The last figures"),
    element("div", { class: "scrolls", tabindex: "0", role: "region", "aria-label": "The last figures" },
      element("table", {},
        element("thead", {}, element("tr", {},
          ["check", "waiting since", "commits", "bytes", "last consumed"].map((title) => element("th", { scope: "col" }, title)))),
        element("tbody", {}, rows))));
}

function stamp(seconds) {
  return time(new Date(seconds * 1000).toISOString()).slice(5);
}

// The rows that each consumption took: inserted, updated and deleted, one bar each.
export function consumptionPlot(moves, asOf) {
  const taken = moves.filter((move) => move.rows);
  if (taken.length === 0) return element("p", {}, "No check of the last days found a consumption.");
  const end = Date.parse(asOf);
  const begin = Math.min(...taken.map((move) => Date.parse(move.at))) - 1000;
  const total = ({ rows }) => rows.inserted + rows.updated + rows.deleted;
  const most = Math.max(1, ...taken.map(total));
  const x = (at) => LEFT + ((Date.parse(at) - begin) / (end - begin)) * (WIDTH - LEFT - 16);
  const tall = (rows) => (rows / most) * (HEIGHT - BOTTOM - TOP);
  const bars = taken.flatMap((move) => {
    let top = HEIGHT - BOTTOM;
    return ["inserted", "updated", "deleted"].map((kind) => {
      const height = tall(move.rows[kind]);
      top -= height;
      return height > 0 && drawing("rect", { class: kind, x: x(move.at), y: top, width: 6, height },
        drawing("title", {}, `${time(move.at)}: ${counted(move.rows[kind], "row")} ${kind}`));
    });
  });
  const rows = taken.reduce((sum, move) => sum + total(move), 0);
  const seconds = taken.map((move) => move.seconds).sort((a, b) => a - b);
  const summary = `${counted(taken.length, "consumption")} of ${counted(rows, "row")};`
    + ` ${seconds[Math.floor(seconds.length / 2)].toFixed(1)} s in the median, ${seconds.at(-1).toFixed(1)} s at most.`;
  return element("figure", {},
    drawing("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": summary },
      drawing("line", { class: "axis", x1: LEFT, y1: HEIGHT - BOTTOM, x2: WIDTH - 10, y2: HEIGHT - BOTTOM }),
      [0, 1].map((part) => drawing("text", { class: "mark", x: LEFT - 6, y: HEIGHT - BOTTOM - tall(most * part) + 4, "text-anchor": "end" }, (most * part).toLocaleString("en"))),
      drawing("text", { class: "mark", x: LEFT, y: HEIGHT - 6 }, stamp(begin / 1000)),
      drawing("text", { class: "mark", x: WIDTH - 10, y: HEIGHT - 6, "text-anchor": "end" }, stamp(end / 1000)),
      bars),
    element("figcaption", {}, `${summary} Bars: `, ...["inserted", "updated", "deleted"].flatMap((kind) => [element("span", { class: `key ${kind}` }), ` ${kind} `])));
}

// The versions of a source: consumed, waiting or about to be lost, and the offset between them.
export function offsetLine(table, isAtRisk) {
  const { offset_version: offset, latest_version: latest } = table;
  if (latest === null) return element("p", {}, `At version ${offset}. The newest version is unknown.`);
  const share = latest === 0 ? 1 : offset / latest;
  const edge = LEFT + share * (WIDTH - 2 * LEFT);
  const waiting = latest - offset;
  const summary = `At version ${offset} of ${latest}: ${waiting ? counted(waiting, "version") + " after the offset" : "no version after the offset"}${waiting && isAtRisk ? ", about to be lost" : ""}.`;
  return element("figure", {},
    drawing("svg", { viewBox: `0 0 ${WIDTH} 44`, role: "img", "aria-label": summary },
      drawing("rect", { class: "consumed", x: LEFT, y: 10, width: edge - LEFT, height: 12 }),
      drawing("rect", { class: isAtRisk ? "lost" : "waiting", x: edge, y: 10, width: WIDTH - LEFT - edge, height: 12 }),
      drawing("line", { class: "offset", x1: edge, y1: 4, x2: edge, y2: 28 }),
      drawing("text", { class: "mark", x: LEFT - 6, y: 20, "text-anchor": "end" }, "0"),
      drawing("text", { class: "mark", x: WIDTH - LEFT + 6, y: 20 }, String(latest)),
      drawing("text", { class: "mark", x: edge, y: 40, "text-anchor": "middle" }, `offset ${offset}`)),
    element("figcaption", {}, summary));
}
