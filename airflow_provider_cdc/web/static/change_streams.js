// Change streams: their partitions over time, and how far each consumer has read them.

import { drawing, element } from "./elements.js";
import { counted, length, since, time } from "./words.js";

const WIDTH = 720;
const HEIGHT = 200;
const BOTTOM = 24;
const EDGE = 4;

export function changeStreamsView({ change_streams: streams, omitted, as_of: asOf }) {
  const now = Date.now();
  return element("section", {},
    element("h1", {}, "Change streams"),
    omitted.map((text) => element("p", { class: "problem" }, `Not read: ${text}`)),
    streams.length === 0 && element("p", {}, "This connection has no change stream."),
    streams.map((stream) => element("section", { "aria-label": stream.name },
      element("h2", {}, stream.name),
      element("p", {}, `On ${stream.tables.join(", ") || "no table"}. Captured through ${time(stream.captured_through)}, `
        + `${since(stream.captured_through, now)}; ${counted(stream.sealed_commits, "commit")} to capture.`),
      stream.consumers.length === 0 && [
        element("p", {}, "No consumer has begun."),
        partitionPlot(stream, null, asOf),
      ],
      stream.consumers.map((consumer) => consumerView(stream, consumer, asOf, now)))));
}

function consumerView(stream, consumer, asOf, now) {
  const stuck = consumer.partitions.filter((each) => each.is_stuck);
  const [word, level] = consumer.is_stale ? ["Stale", "bad"]
    : stuck.length ? [`${counted(stuck.length, "partition")} stuck`, "warn"]
      : consumer.is_complete ? ["Complete", "good"] : ["Reading", "busy"];
  return element("section", { "aria-label": consumer.consumer },
    element("h3", {}, consumer.consumer),
    element("p", {}, element("span", { class: `condition ${level}` }, word),
      ` processed through ${time(consumer.watermark)}, ${since(consumer.watermark, now)}`),
    partitionPlot(stream, consumer, asOf),
    partitionTable(stream, consumer, now));
}

// Time goes to the right; the keys go down. A split or a merge is where rectangles meet.
function partitionPlot(stream, consumer, asOf) {
  const { partitions } = stream;
  const end = Date.parse(asOf);
  const begin = Math.min(...partitions.map((each) => Date.parse(each.start)), end - 1000);
  const x = (moment) => EDGE + ((Math.min(Date.parse(moment), end) - begin) / (end - begin)) * (WIDTH - 2 * EDGE);
  const y = (share) => EDGE + share * (HEIGHT - BOTTOM - EDGE);
  const read = new Map((consumer ? consumer.partitions : []).map((each) => [each.partition, each]));
  const shapes = partitions.flatMap((each, place) => {
    const progress = read.get(place);
    const box = {
      x: x(each.start), y: y(each.low), height: Math.max(1, y(each.high) - y(each.low)),
      width: Math.max(1, x(each.end || asOf) - x(each.start)),
    };
    const done = progress ? Math.max(0, Math.min(x(progress.watermark) - box.x, box.width)) : 0;
    return [
      drawing("rect", { ...box, class: progress && progress.is_stuck ? "partition stuck" : "partition" }),
      done > 0 && drawing("rect", { ...box, width: done, class: "read" }),
    ];
  });
  const open = partitions.filter((each) => each.end === null).length;
  const summary = `${counted(partitions.length, "partition")} since ${time(new Date(begin).toISOString())}, ${open} of them open.`;
  return element("figure", {},
    drawing("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": summary },
      shapes,
      drawing("text", { class: "mark", x: EDGE, y: HEIGHT - 6 }, time(new Date(begin).toISOString())),
      drawing("text", { class: "mark", x: WIDTH - EDGE, y: HEIGHT - 6, "text-anchor": "end" }, time(asOf))),
    element("figcaption", {}, consumer ? `${summary} Filled: processed.` : summary));
}

function partitionTable(stream, consumer, now) {
  const unfinished = consumer.partitions.filter((each) => each.state !== "finished");
  const rows = unfinished.map((each) => {
    const { low, high, start } = stream.partitions[each.partition];
    const cells = [
      `${(low * 100).toFixed(1)} % to ${(high * 100).toFixed(1)} %`,
      time(start),
      each.is_stuck ? `${each.state}, stuck` : each.state,
      `${time(each.watermark)}, ${length((now - Date.parse(each.watermark)) / 1000)} ago`,
    ];
    return element("tr", {}, cells.map((text) => element("td", {}, text)));
  });
  return element("details", { open: rows.length <= 4 ? "" : false },
    element("summary", {}, counted(rows.length, "partition") + " to read"),
    element("div", { class: "scrolls", tabindex: "0", role: "region", "aria-label": `Partitions of ${consumer.consumer}` },
      element("table", {},
        element("thead", {}, element("tr", {},
          ["keys", "since", "state", "processed through"].map((title) => element("th", { scope: "col" }, title)))),
        element("tbody", {}, rows))));
}
