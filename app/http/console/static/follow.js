// The event stream of the run that the page shows. Each event is a reason to look again.

const TERMINAL = ["run.succeeded", "run.failed", "run.cancelled", "run.dead_letter"];
const TOGETHER_MS = 120;
const RETRY_MS = 5000;

let source = null;
let refresh = () => {};
let pending = 0;
let isNews = false;
let pause = 0;

export function setRefresh(act) {
  refresh = act;
}

// Open while the run is not at its end and somebody looks: a browser has few connections.
export function ensureFollowing(main) {
  const isWanted =
    main?.dataset.run && !("ended" in main.dataset) && document.visibilityState === "visible";
  if (!isWanted) close();
  else if (!source && Date.now() >= pause) open(main);
}

function open(main) {
  const { run, seq, types } = main.dataset;
  source = new EventSource(`/v1/runs/${encodeURIComponent(run)}/events?after=${seq}&deltas=1`);
  source.onopen = () => tellState("live");
  source.onerror = () => {
    tellState("reconnecting");
    if (source?.readyState !== EventSource.CLOSED) return;
    close();
    pause = Date.now() + RETRY_MS;
  };
  for (const type of types.split(" ")) source.addEventListener(type, () => happened(type));
  source.addEventListener("model.delta", hear);
}

function close() {
  source?.close();
  source = null;
  tellState("");
}

function happened(type) {
  if (TERMINAL.includes(type)) close();
  isNews = true;
  pending ||= setTimeout(look, TOGETHER_MS);
}

// What comes without a pause is shown nevertheless, but no more than half the time goes into it.
async function look() {
  const begun = Date.now();
  isNews = false;
  await refresh();
  pending = isNews ? setTimeout(look, Math.max(TOGETHER_MS, Date.now() - begun)) : 0;
}

// What the model is saying; the stored answer takes its place.
function hear(event) {
  const { turn, attempt, offset, text } = JSON.parse(event.data);
  const place = document.querySelector(`.streaming[data-turn="${Number(turn)}"]`);
  if (!place) return happened("model.delta");
  if (place.dataset.attempt !== String(attempt)) place.textContent = "";
  place.dataset.attempt = String(attempt);
  place.textContent = [...place.textContent].slice(0, offset).join("") + text;
}

function tellState(text) {
  const live = document.querySelector("#live");
  if (!live) return;
  live.textContent = text;
  live.hidden = !text;
}
