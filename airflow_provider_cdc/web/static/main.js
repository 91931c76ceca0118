// Reads the address, loads the data, and shows one of the views.

import { alertsView } from "./alerts.js";
import { changeStreamsView } from "./change_streams.js";
import * as api from "./connection.js";
import { element, replaceContent } from "./elements.js";
import { Overview } from "./overview.js";
import { streamView } from "./stream.js";
import { targetsView } from "./targets.js";
import { upsertTablesView } from "./upsert_tables.js";
import { length, secondsSince, time } from "./words.js";

const REFRESH_MILLISECONDS = 30_000;
const LATE_SECONDS = 900;

const OTHER_VIEWS = {
  "upsert-tables": upsertTablesView,
  "change-streams": changeStreamsView,
  targets: targetsView,
  alerts: ({ alerts }, connection) => alertsView(alerts, connection),
};

const view = document.getElementById("view");
const asOf = document.getElementById("as-of");
const asked = api.request();
let overview = null;

function followTheme() {
  const query = window.matchMedia("(prefers-color-scheme: dark)");
  const theme = window.localStorage.getItem("theme");
  const isDark = theme === "dark" || (theme !== "light" && query.matches);
  document.documentElement.dataset.theme = isDark ? "dark" : "light";
}

function showProblem(found) {
  replaceContent(
    view,
    element("section", { class: "problem", role: "alert" },
      element("h1", {}, found.problem),
      element("p", {}, found.fix),
    ),
  );
  replaceContent(asOf);
}

function showMoment(moment) {
  const age = secondsSince(moment, Date.now());
  const isLate = age > LATE_SECONDS;
  asOf.classList.toggle("late", isLate);
  const late = isLate ? " The monitor is late: look at its DAG." : "";
  replaceContent(asOf, `As of ${time(moment)}, ${length(age)} ago.${late}`);
}

async function showConnections() {
  const found = await api.connections();
  if (found.problem) return found;
  const ids = found.connections;
  asked.connection ||= ids[0] || "cdc_default";
  if (!ids.includes(asked.connection)) ids.push(asked.connection);
  const select = element("select", {
    id: "connection",
    onchange: (event) => {
      window.location.search = api.address({ connection: event.target.value, view: asked.view });
    },
  }, ids.map((id) => element("option", { value: id, selected: id === asked.connection }, id)));
  replaceContent(
    document.getElementById("connections"),
    element("label", { for: "connection" }, "Connection "),
    select,
  );
  replaceContent(
    document.getElementById("views"),
    ...api.VIEWS.map(([name, title]) => element("a", {
      href: api.address({ connection: asked.connection, view: name === "streams" ? "" : name }),
      "aria-current": asked.view === name && !asked.stream ? "page" : null,
    }, title)),
  );
  return found;
}

async function show() {
  if (asked.stream) {
    const found = await api.stream(asked.connection, asked.stream);
    if (found.problem) return showProblem(found);
    replaceContent(view, streamView(found, asked.connection));
    return showMoment(found.as_of);
  }
  const found = await api.loadView(asked.connection, asked.view);
  if (found.problem) {
    overview = null;
    return showProblem(found);
  }
  if (asked.view !== "streams") {
    replaceContent(view, OTHER_VIEWS[asked.view](found, asked.connection));
    return showMoment(found.as_of);
  }
  if (overview === null) {
    overview = new Overview(asked.connection);
    replaceContent(view, overview.root);
  }
  overview.show(found);
  return showMoment(found.as_of);
}

async function begin() {
  followTheme();
  const found = await showConnections();
  if (found.problem) return showProblem(found);
  await show();
  document.getElementById("refresh").addEventListener("click", show);
  window.setInterval(() => {
    // A refresh would close a dialog.
    if (document.visibilityState === "visible" && !document.querySelector("dialog[open]")) show();
  }, REFRESH_MILLISECONDS);
}

begin();
