// Makes an element like a fresh one, touching only what differs: what a reader has opened, typed or
// selected stays as it is.

export function isTouched(root) {
  return [...root.querySelectorAll("input, textarea, select")].some((field) => {
    if (field.type === "checkbox" || field.type === "radio") {
      return field.checked !== field.defaultChecked;
    }
    if (field.matches("select")) return field.selectedIndex !== initial(field);
    return field.value !== field.defaultValue;
  });
}

export function morph(old, fresh, rules) {
  if (!old || !fresh || old.isEqualNode(fresh) || "own" in (old.dataset ?? {})) return;
  if (old.dataset?.settled || (old.matches?.("form") && isBusy(old))) return;
  attributes(old, fresh);
  children(old, fresh, rules);
}

function initial(select) {
  const chosen = [...select.options].findIndex((option) => option.defaultSelected);
  return Math.max(chosen, 0);
}

function isBusy(form) {
  const answer = form.querySelector(":scope > .answer");
  return (
    "busy" in form.dataset ||
    form.contains(document.activeElement) ||
    (answer && !answer.hidden) ||
    isTouched(form)
  );
}

function attributes(old, fresh) {
  for (const { name, value } of fresh.attributes) {
    if (!isReaders(old, name) && old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  for (const { name } of [...old.attributes]) {
    if (!isReaders(old, name) && !fresh.hasAttribute(name)) old.removeAttribute(name);
  }
}

function isReaders(element, name) {
  return name === "open" && element.matches("details");
}

function children(old, fresh, rules) {
  const known = new Map([...old.children].filter((e) => e.id).map((e) => [e.id, e]));
  let place = old.firstChild;
  for (const wanted of [...fresh.childNodes]) {
    const same = wanted.id ? known.get(wanted.id) : isAlike(place, wanted) ? place : null;
    if (same) {
      if (same !== place) old.insertBefore(same, place);
      else place = place.nextSibling;
      if (same.nodeType === Node.ELEMENT_NODE) morph(same, wanted, rules);
      else if (same.data !== wanted.data) same.data = wanted.data;
    } else {
      old.insertBefore(document.importNode(wanted, true), place);
    }
  }
  while (place) {
    const next = place.nextSibling;
    if (place.nodeType !== Node.ELEMENT_NODE || !rules.gone(place)) place.remove();
    place = next;
  }
}

function isAlike(old, wanted) {
  return old && old.nodeName === wanted.nodeName && !old.id && !wanted.id;
}
