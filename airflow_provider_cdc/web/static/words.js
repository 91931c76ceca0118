// The words and figures of the page.

export const CONDITIONS = {
  stale: { word: "Stale", level: "bad", meaning: "its changes can no longer be read, or its time has passed" },
  unreachable: { word: "Unreachable", level: "bad", meaning: "its source does not answer" },
  differs: { word: "Target differs", level: "bad", meaning: "a target does not equal the source" },
  late: { word: "Late", level: "bad", meaning: "its oldest change is older than its max_lag" },
  quarantined: { word: "Quarantine", level: "warn", meaning: "changes of its upsert table are in quarantine" },
  at_risk: { word: "At risk", level: "warn", meaning: "it goes stale soon" },
  unsettled: { word: "Unsettled", level: "warn", meaning: "a consumption failed and is not undone" },
  consuming: { word: "Consuming", level: "busy", meaning: "a consumption is open" },
  waiting: { word: "Waiting", level: "busy", meaning: "changes wait to be consumed" },
  current: { word: "Current", level: "good", meaning: "no change waits" },
};

const UNITS = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];

export function length(seconds) {
  const whole = Math.max(0, Math.round(seconds));
  const first = UNITS.findIndex(([, size]) => whole >= size);
  if (first < 0) return "0 s";
  const parts = [];
  let rest = whole;
  for (const [unit, size] of UNITS.slice(first, first + 2)) {
    const count = Math.floor(rest / size);
    rest -= count * size;
    if (count) parts.push(`${count} ${unit}`);
  }
  return parts.join(" ");
}

export function secondsSince(moment, now) {
  return (now - Date.parse(moment)) / 1000;
}

export function since(moment, now) {
  return moment ? `${length(secondsSince(moment, now))} ago` : "";
}

export function fromNow(moment, now) {
  const seconds = -secondsSince(moment, now);
  return seconds >= 0 ? `in ${length(seconds)}` : `${length(-seconds)} ago`;
}

export function time(moment) {
  return moment ? `${moment.slice(0, 10)} ${moment.slice(11, 19)} UTC` : "";
}

export function bytes(count) {
  if (count === null || count === undefined || count < 0) return "unknown";
  const units = ["B", "kB", "MB", "GB", "TB", "PB"];
  let value = count;
  let unit = 0;
  while (value >= 1000 && unit < units.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${unit && value < 100 ? value.toFixed(1) : Math.round(value)} ${units[unit]}`;
}

export function counted(count, noun) {
  if (count === null || count === undefined || count < 0) return `unknown ${noun}s`;
  return `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;
}

export function lag(line) {
  if (line.commits_behind === null) return "unknown";
  if (!line.waiting_since && !line.commits_behind) return "nothing waits";
  return `${counted(line.commits_behind, "commit")}, ${bytes(line.bytes_behind)}`;
}
