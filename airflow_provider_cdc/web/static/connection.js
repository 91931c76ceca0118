// Requests to the application, and links within Airflow's UI.

const PATH = window.location.pathname.replace(/[^/]*$/, "");
const AIRFLOW = PATH.replace(/\/cdc\/$/, "");

export const VIEWS = [
  ["streams", "Streams"],
  ["upsert-tables", "Upsert tables"],
  ["change-streams", "Change streams"],
  ["targets", "Targets"],
  ["alerts", "Alerts"],
];

export function request() {
  const query = new URLSearchParams(window.location.search);
  const view = query.get("view");
  return {
    connection: query.get("connection"),
    stream: query.get("stream"),
    view: VIEWS.some(([name]) => name === view) ? view : "streams",
  };
}

export function address(parts) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parts)) if (value) query.set(name, value);
  return `?${query}`;
}

export async function load(path, options = {}) {
  let answer;
  try {
    answer = await fetch(`${PATH}api/${path}`, { credentials: "same-origin", ...options });
  } catch (error) {
    return failure("The API server does not answer.", "Check the network, then refresh.");
  }
  if (answer.status === 401) return failure("Your session has ended.", "Log in to Airflow again.");
  if (answer.status === 403) {
    return failure("You do not have the right to do this.", "Ask for the right to see plugins, or to change the connection.");
  }
  try {
    const found = await answer.json();
    if (answer.ok || found.problem) return found;
    return failure(`The request was refused (${answer.status}).`, "Check what you entered.");
  } catch (error) {
    return failure(`The API server failed (${answer.status}).`, "Look into its log.");
  }
}

export async function connections() {
  return load("connections");
}

// What a view shows: streams, upsert-tables, change-streams, targets or alerts.
export async function loadView(connection, view) {
  return load(`connections/${encodeURIComponent(connection)}/${view}`);
}

export async function stream(connection, id) {
  return loadView(connection, `streams/${encodeURIComponent(id)}`);
}

export async function act(connection, action, body) {
  return load(`connections/${encodeURIComponent(connection)}/actions/${action}`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
  });
}

export function runAddress(dag, run) {
  return `${AIRFLOW}/dags/${encodeURIComponent(dag)}/runs/${encodeURIComponent(run)}`;
}

// A consumer is called <dag_id>/<task_id> if its task has no other name for it.
export function taskAddress(consumer) {
  const parts = (consumer || "").split("/");
  if (parts.length < 2 || parts.some((part) => part === "")) return null;
  const [dag, task] = parts.map(encodeURIComponent);
  return `${AIRFLOW}/dags/${dag}/tasks/${task}`;
}

// The frame of the page may not navigate the window around it, but that window may itself.
export function openInAirflow(event) {
  if (window.parent === window) return;
  event.preventDefault();
  const link = window.parent.document.createElement("a");
  link.href = event.currentTarget.href;
  link.click();
}

function failure(problem, fix) {
  return { problem, fix };
}
