// The alerts that were sent, the newest first.

import { address } from "./connection.js";
import { element } from "./elements.js";
import { since, time } from "./words.js";

const LEVELS = { breach: "bad", warning: "warn", recovery: "good" };

export function alertsView(alerts, connection) {
  const now = Date.now();
  return element("section", {},
    element("h1", {}, "Alerts"),
    alerts.length === 0 && element("p", {}, "No alert was sent."),
    element("ol", { class: "alerts" }, alerts.map((alert) => element("li", {},
      element("span", { class: `condition ${LEVELS[alert.kind]}` }, alert.kind),
      " ",
      element("time", { datetime: alert.at }, `${time(alert.at)}, ${since(alert.at, now)}`),
      element("p", {},
        element("a", { href: address({ connection, stream: alert.stream_id }) }, alert.stream),
        `: ${alert.sentence}`)))));
}
