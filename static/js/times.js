// Puts every <time> of the page into the reader's own zone, written year first. UTC stays in its title.

function two(number) {
  return String(number).padStart(2, "0");
}

function local(moment) {
  const day = `${moment.getFullYear()}-${two(moment.getMonth() + 1)}-${two(moment.getDate())}`;
  return `${day} ${two(moment.getHours())}:${two(moment.getMinutes())}:${two(moment.getSeconds())}`;
}

function localise(root) {
  for (const time of root.querySelectorAll("time[datetime]:not([data-local], [data-ago])")) {
    const moment = new Date(time.dateTime);
    if (!Number.isNaN(moment.valueOf())) {
      time.textContent = local(moment);
      time.dataset.local = "";
    }
  }
}

// "3 min ago" goes on counting.
const UNITS = [
  ["second", 1, 60],
  ["minute", 60, 3600],
  ["hour", 3600, 48 * 3600],
  ["day", 86400, Infinity],
];
const words = new Intl.RelativeTimeFormat(document.documentElement.lang, { numeric: "always", style: "short" });

function count() {
  for (const time of document.querySelectorAll("time[data-ago]")) {
    const seconds = Math.max(0, (Date.now() - new Date(time.dateTime).valueOf()) / 1000);
    if (!Number.isNaN(seconds)) {
      const [unit, size] = UNITS.find(([, , below]) => seconds < below);
      time.textContent = words.format(-Math.floor(seconds / size), unit);
    }
  }
}

localise(document);
document.addEventListener("htmx:load", (event) => localise(event.target.parentNode ?? event.target));
if (document.querySelector("time[data-ago]")) {
  setInterval(count, 15_000);
}
