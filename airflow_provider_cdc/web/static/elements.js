// Elements of the page. Text is always set as text, so no name can become markup.

export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  apply(made, attributes, children);
  return made;
}

export function drawing(tag, attributes = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  apply(made, attributes, children);
  return made;
}

export function replaceContent(parent, ...children) {
  parent.replaceChildren(...children.filter(isShown));
}

function apply(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) made.setAttribute(name, value);
  }
  made.append(...children.flat().filter(isShown));
}

function isShown(child) {
  return child !== null && child !== undefined && child !== false;
}
