// Puts every <time> of the page into the reader's own zone, written year first. UTC stays in its title.

function two(number) {
  return String(number).padStart(2, "0");
}

function local(moment) {
  const day = `${moment.getFullYear()}-${two(moment.getMonth() + 1)}-${two(moment.getDate())}`;
  return `${day} ${two(moment.getHours())}:${two(moment.getMinutes())}:${two(moment.getSeconds())}`;
}

function localise(root) {
  for (const time of root.querySelectorAll("time[datetime]:not([data-local])")) {
    const moment = new Date(time.dateTime);
    if (!Number.isNaN(moment.valueOf())) {
      time.textContent = local(moment);
      time.dataset.local = "";
    }
  }
}

localise(document);
document.addEventListener("htmx:load", (event) => localise(event.target.parentNode ?? event.target));
