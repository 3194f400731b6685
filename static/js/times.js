// Puts every <time> of the page into the reader's own zone. UTC stays in its title.

const format = new Intl.DateTimeFormat(document.documentElement.lang, {
  year: "numeric",
  month: "2-digit",
  day: "2-digit",
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
  hour12: false,
});

function localise(root) {
  for (const time of root.querySelectorAll("time[datetime]:not([data-local])")) {
    const moment = new Date(time.dateTime);
    if (!Number.isNaN(moment.valueOf())) {
      time.textContent = format.format(moment);
      time.dataset.local = "";
    }
  }
}

localise(document);
document.addEventListener("htmx:load", (event) => localise(event.target.parentNode ?? event.target));
