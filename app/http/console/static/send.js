// A form as JSON, to the same interface that programs use.

// JSON as it was written: read and written again, a long number would be another.
class Written {
  constructor(text) {
    this.text = text;
  }
}

class Unfit extends Error {
  constructor(field, message) {
    super(message);
    this.field = field;
  }
}

export async function send(form, button, { settle, refresh }) {
  const answer = form.querySelector(":scope > .answer");
  let body;
  try {
    body = gather(form, button);
  } catch (unfit) {
    unfit.field?.focus();
    return show(answer, unfit.message, true);
  }
  const fieldset = form.querySelector("fieldset");
  form.dataset.busy = "yes";
  fieldset.disabled = true;
  const result = await post(form, body);
  delete form.dataset.busy;
  fieldset.disabled = false;
  if (result.status === 401) return location.reload();
  const card = form.closest("[data-ask]");
  if (card && (result.ok || isOver(result, card))) {
    await settle(card, result.ok ? "" : result.body.detail).catch(() => {});
    return refresh();
  }
  if (!result.ok) {
    button?.focus();
    return show(answer, result.body.detail ?? "The service refused this.", true);
  }
  delete form.dataset.key;
  if (button && "go" in button.dataset) return location.assign(button.dataset.go + result.body.id);
  if (button && "clear" in button.dataset) form.reset();
  show(answer, "Done.", false);
  return refresh();
}

function isOver(result, card) {
  return Boolean(card.dataset.ask) && ["/problems/already-resolved", "/problems/wait-closed"].includes(result.body.type);
}

async function post(form, body) {
  const query = [...form.querySelectorAll("[data-query]")].filter((field) => field.checked);
  const parameters = new URLSearchParams(query.map((field) => [field.dataset.query, "true"]));
  const path = form.dataset.send + (query.length ? `?${parameters}` : "");
  const text = write(body);
  // Sent again after a failure, it is still the same; changed, it is another.
  if (form.dataset.sent !== text) delete form.dataset.key;
  form.dataset.sent = text;
  form.dataset.key ??= newKey();
  const isEmpty = form.dataset.method === "DELETE";
  try {
    const response = await fetch(path, {
      method: form.dataset.method,
      headers: { "Content-Type": "application/json", "Idempotency-Key": form.dataset.key },
      body: isEmpty ? undefined : text,
    });
    return { ok: response.ok, status: response.status, body: await response.json() };
  } catch {
    const detail = "No answer came, so it is not known whether this was stored. Send it again.";
    return { ok: false, status: 0, body: { detail } };
  }
}

function write(value) {
  if (value instanceof Written) return value.text;
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  return `{${Object.entries(value).map(([name, each]) => `${JSON.stringify(name)}:${write(each)}`).join(",")}}`;
}

function newKey() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

function show(answer, text, isWrong) {
  answer.textContent = text;
  answer.classList.toggle("wrong", isWrong);
  answer.hidden = false;
}

function gather(form, button) {
  const body = named();
  for (const field of form.querySelectorAll("[name]")) {
    if (field.matches("button")) continue;
    if (field.dataset.only && field.dataset.only !== button?.value) continue;
    const value = read(field);
    if (value !== undefined) put(body, field.name, value);
  }
  if (button?.name) body[button.name] = button.value;
  const group = form.querySelector("[data-group]");
  if (group?.querySelector("[data-rule-on]").checked && button?.dataset.without !== "rule") {
    body.rule = rule(group);
  }
  return body;
}

function put(body, name, value) {
  const [first, second] = name.split(".");
  if (second) (body[first] ??= named())[second] = value;
  else body[first] = value;
}

function read(field) {
  if (field.dataset.type === "flag") return field.checked || undefined;
  if (!field.value.trim()) {
    if (field.required) throw new Unfit(field, "Fill this in first.");
    return undefined;
  }
  if (field.dataset.type === "number") return number(field);
  if (field.dataset.type === "json") return json(field);
  return field.value;
}

function number(field) {
  const value = Number(field.value);
  if (!Number.isFinite(value)) throw new Unfit(field, "This must be a number.");
  return value;
}

function json(field) {
  try {
    JSON.parse(field.value);
  } catch {
    throw new Unfit(field, 'This must be JSON, such as {"id": 7}, "text" or null.');
  }
  return new Written(field.value);
}

// Without a prototype every name is one, `__proto__` too.
function named() {
  return Object.create(null);
}

function rule(group) {
  const made = { scope: group.querySelector("[data-rule=scope]").value, when: named() };
  const until = group.querySelector("[data-rule=expires_at]").value;
  if (until) made.expires_at = new Date(until).toISOString();
  for (const condition of group.querySelectorAll("[data-condition]")) {
    const operator = condition.querySelector("[data-operator]").value;
    if (!operator) continue;
    made.when[condition.dataset.condition] = { [operator]: json(condition.querySelector("[data-bound]")) };
  }
  return made;
}
