// What an operator can do to a stream: each action starts the run of a DAG, after a confirmation.

import * as api from "./connection.js";
import { element, replaceContent } from "./elements.js";

// The fields of an action: their names in the request, their labels, and how a text becomes a value.
const ACTIONS = {
  advance: {
    word: "Advance",
    meaning: "Moves the offset to the end of the source. The changes that wait are skipped, and no target gets them.",
    fields: [],
  },
  rewind: {
    word: "Rewind",
    meaning: "Moves the offset back. The stream returns the changes after that version again.",
    fields: [["version", "Version", (text) => (/^\d+$/.test(text) ? Number(text) : null)]],
  },
  abort: {
    word: "Abort",
    meaning: "Ends the open consumption. What it applied is undone, except in the targets that you keep.",
    fields: [["keep", "Targets to keep, one a line (may be empty)", lines]],
    areas: ["keep"],
  },
  recover: {
    word: "Recover",
    meaning: "Makes a target equal to the source, and moves the offset to the end of the source. Only rows that differ are written.",
    fields: [["target", "Target", (text) => text.trim() || null], ["key", "Columns of its key, one a line", (text) => (lines(text).length ? lines(text) : null)]],
    areas: ["key"],
  },
  maintain: {
    word: "Maintain all streams",
    meaning: "Lets the sources of this connection keep what their streams need.",
    fields: [],
  },
};

export function actionsView(actions, line, connection) {
  if (actions.length === 0) return null;
  const place = element("div");
  return element("section", { class: "actions", "aria-label": "Actions" },
    element("h2", {}, "Actions"),
    actions.map((action) => element("button", {
      type: "button",
      onclick: () => ask(action, line, connection, place),
    }, ACTIONS[action].word)),
    place);
}

function ask(action, line, connection, place) {
  const { word, meaning, fields, areas = [] } = ACTIONS[action];
  const inputs = fields.map(([name, label]) => {
    const id = `field-${name}`;
    const input = areas.includes(name) ? element("textarea", { id, rows: 3 }) : element("input", { id, type: "text" });
    return element("p", {}, element("label", { for: id }, label), element("br"), input);
  });
  const problem = element("p", { class: "late", role: "alert" });
  const dialog = element("dialog", { "aria-label": word },
    element("h2", {}, `${word}: ${action === "maintain" ? connection : line.name}`),
    element("p", {}, meaning),
    inputs,
    problem,
    element("button", { type: "button", onclick: confirm }, "Start the run"),
    " ",
    element("button", { type: "button", onclick: () => dialog.close() }, "Cancel"));

  async function confirm(event) {
    const body = { stream: line.name };
    for (const [name, label, parse] of fields) {
      const value = parse(dialog.querySelector(`#field-${name}`).value);
      if (value === null) {
        problem.textContent = `${label}: enter a value.`;
        return;
      }
      body[name] = value;
    }
    const button = event.currentTarget;
    button.disabled = true;
    const found = await api.act(connection, action, body);
    button.disabled = false;
    if (found.problem) {
      problem.textContent = `${found.problem} ${found.fix}`;
      return;
    }
    dialog.close();
    replaceContent(place, element("p", { role: "status" }, "Started: ",
      element("a", { href: api.runAddress(found.dag_id, found.run_id), onclick: api.openInAirflow }, `${found.dag_id}, ${found.run_id}`),
      ". The next check shows its effect."));
  }

  replaceContent(place, dialog);
  dialog.showModal();
}

function lines(text) {
  return text.split("\n").map((each) => each.trim()).filter(Boolean);
}
