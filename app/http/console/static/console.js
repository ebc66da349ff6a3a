// Follows what the server shows: sends forms as JSON, and brings the page up to date by fetching it
// anew and taking over what differs. Nothing is rendered here.
import { ensureFollowing, setRefresh } from "./follow.js";
import { morph, isTouched } from "./morph.js";
import { send } from "./send.js";
import { setClock, tell } from "./times.js";

const main = document.querySelector("#main");
const said = document.querySelector("#said");
let refreshing = null;
let again = false;
const kept = {};

export function announce(text) {
  if (!said) return;
  said.textContent = text;
  said.hidden = !text;
}

function prepare(root = document) {
  for (const fieldset of root.querySelectorAll("form[data-send]:not([data-busy]) > fieldset")) {
    fieldset.disabled = false;
  }
  keep(root);
  tell(root);
}

// For whom somebody decides is written once; it ends with the page.
function keep(root) {
  for (const field of root.querySelectorAll("[data-kept]")) {
    if (field.value === field.defaultValue) field.defaultValue = kept[field.name] ?? "";
  }
}

async function read(path) {
  const response = await fetch(path, { headers: { Accept: "text/html" }, cache: "no-store" });
  if (response.status === 401) location.reload();
  if (!response.ok) throw new Error(`status ${response.status}`);
  setClock(response.headers.get("date"));
  return new DOMParser().parseFromString(await response.text(), "text/html");
}

async function refreshOnce() {
  try {
    const fresh = await read(location.href);
    document.title = fresh.title;
    for (const id of ["nav", "main"]) {
      morph(document.getElementById(id), fresh.getElementById(id), { gone });
    }
    prepare();
    ensureFollowing(main);
    if (said?.dataset.trouble) {
      delete said.dataset.trouble;
      announce("");
    }
  } catch {
    if (said) said.dataset.trouble = "yes";
    announce("The service does not answer. Trying again.");
  }
}

// One at a time; what happens meanwhile is looked at afterwards.
export async function refresh() {
  if (refreshing) {
    again = true;
    return refreshing;
  }
  refreshing = (async () => {
    do {
      again = false;
      await refreshOnce();
    } while (again);
  })();
  await refreshing;
  refreshing = null;
}

// What the fresh page no longer shows: a question that somebody is at stays, with its answer.
function gone(element) {
  if (!element.matches?.("[data-ask]")) return false;
  const isHere = element.contains(document.activeElement);
  if (element.dataset.settled) return isHere || location.pathname === "/inbox";
  if (!isHere && !isTouched(element)) return false;
  // If that fails, the next look tries again.
  settle(element, "This was answered or closed elsewhere.").catch(() => {});
  return true;
}

export async function settle(card, note = "") {
  card.dataset.settled = "yes";
  let shown = card;
  if (card.dataset.ask) {
    const fresh = await readCard(card);
    fresh.dataset.settled = "yes";
    card.replaceWith(fresh);
    shown = fresh;
  } else {
    card.querySelector("form")?.remove();
  }
  if (note) {
    const line = document.createElement("p");
    line.className = "answer wrong";
    line.textContent = note;
    shown.append(line);
  }
  prepare(shown);
  shown.focus();
  announce(note || shown.querySelector(".settled")?.textContent || "Settled.");
}

async function readCard(card) {
  try {
    return (await read(card.dataset.ask)).querySelector("[data-ask]");
  } catch (error) {
    delete card.dataset.settled;
    throw error;
  }
}

function every(seconds, act) {
  setInterval(() => document.visibilityState === "visible" && act(), 1000 * seconds);
}

document.addEventListener("submit", (event) => {
  if (!event.target.dataset.send) return;
  event.preventDefault();
  for (const field of event.target.querySelectorAll("[data-kept]")) kept[field.name] = field.value;
  send(event.target, event.submitter, { settle, refresh });
});
document.addEventListener("input", (event) => {
  const answer = event.target.form?.querySelector(":scope > .answer");
  if (answer) answer.hidden = true;
});
document.addEventListener("visibilitychange", () => {
  ensureFollowing(main);
  if (document.visibilityState === "visible" && main?.dataset.refresh) refresh();
});

if (main?.dataset.refresh) {
  const narrow = matchMedia("(max-width: 44rem)");
  narrow.addEventListener("change", fold);
  fold(narrow);
  setRefresh(refresh);
  prepare();
  ensureFollowing(main);
  every(Number(main.dataset.refresh), refresh);
  every(1, () => tell(document));
  openTarget();
  addEventListener("hashchange", openTarget);
}

// Open where there is room; on a narrow screen (as in the style sheet) the reader opens it.
function fold(screen) {
  for (const each of document.querySelectorAll("[data-fold]")) each.open = !screen.matches;
}

// A link to a call shows it also where it is folded.
function openTarget() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (target?.matches("details")) target.open = true;
}

if (main?.dataset.door) {
  // A link from elsewhere comes without the cookie, which one from here does not.
  const { status } = await fetch("/inbox", { method: "HEAD" }).catch(() => ({ status: 0 }));
  if (status === 200) location.replace(main.dataset.door);
}
if (main?.dataset.retry) setTimeout(() => location.reload(), 1000 * Number(main.dataset.retry));
