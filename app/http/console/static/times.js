// Moments in the reader's words and zone. Until this runs, they stand there in UTC.

let ahead = 0;
const clock = new Intl.DateTimeFormat(undefined, { timeStyle: "medium" });
const day = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

// Ages are told by the server's clock.
export function setClock(date) {
  const told = Date.parse(date ?? "");
  if (Number.isFinite(told) && Math.abs(told - Date.now()) > 3000) ahead = told - Date.now();
}

export function tell(root) {
  for (const time of root.querySelectorAll("time[data-form]")) {
    const at = new Date(time.dateTime);
    const text = FORMS[time.dataset.form]?.(at) ?? day.format(at);
    if (time.textContent !== text) time.textContent = text;
  }
}

const FORMS = {
  clock: (at) => (isToday(at) ? clock.format(at) : day.format(at)),
  ago: (at) => (seconds(at) < 1 ? "just now" : `${lasting(seconds(at))} ago`),
  since: (at) => `for ${lasting(Math.max(seconds(at), 0))}`,
  left: (at) => (seconds(at) < 0 ? `${lasting(-seconds(at))} left` : "time is over"),
};

function seconds(at) {
  return (Date.now() + ahead - at) / 1000;
}

function isToday(at) {
  return at.toDateString() === new Date().toDateString();
}

function lasting(all) {
  const s = Math.floor(all);
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min`;
  if (s < 172800) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  return `${Math.floor(s / 86400)} d`;
}
