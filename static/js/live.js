// A run as it goes: new rows come as HTML over server-sent events. At its end the page asks for the run anew.

let source = null;

function atBottom() {
  return window.innerHeight + window.scrollY >= document.documentElement.scrollHeight - 80;
}

// A row that the page has already is the same row come again.
function append(html) {
  const timeline = document.getElementById("timeline");
  const template = document.createElement("template");
  template.innerHTML = html;
  const row = template.content.querySelector("li");
  if (!timeline || !row || document.getElementById(row.id)) {
    return;
  }
  const follow = atBottom() && !timeline.contains(document.activeElement);
  timeline.append(row);
  window.htmx.process(row);
  document.querySelector("[data-timeline-empty]")?.remove();
  if (follow) {
    row.scrollIntoView({ block: "nearest" });
  }
}

// The whole of the run but the open details: focus, selection, what was opened and the scroll stay where they are.
async function renew(page) {
  const timeline = document.getElementById("timeline");
  const selected = timeline?.querySelector('[aria-current="true"]')?.closest("li")?.id;
  const focused = document.activeElement?.closest("#timeline li")?.id;
  const panel = document.getElementById("panel");
  const kept = [...panel.childNodes];
  const before = timeline?.getBoundingClientRect().top;
  await window.htmx.ajax("GET", page, { target: "#run", swap: "innerHTML" });
  if (selected) {
    document.querySelector(`#${selected} > a`)?.setAttribute("aria-current", "true");
    document.getElementById("panel")?.replaceChildren(...kept);
  }
  if (focused) {
    document.querySelector(`#${focused} > a`)?.focus({ preventScroll: true });
  }
  const now = document.getElementById("timeline")?.getBoundingClientRect().top;
  if (now !== undefined && before !== undefined && window.scrollY > 0) {
    // The answer came in above: what the reader looked at stays under the reader's eyes.
    window.scrollBy(0, now - before);
  }
}

function watch(line) {
  source?.close();
  const { live, query, after, page } = line.dataset;
  source = new EventSource(`${live}?after=${after}${query ? `&${query}` : ""}`);
  source.addEventListener("row", (event) => append(event.data));
  source.addEventListener("done", () => {
    source.close();
    renew(`${page}${query ? `?${query}` : ""}`);
  });
  source.addEventListener("error", () => {
    // While it only reconnects there is nothing to say; closed, it was refused: signed out, or the run is gone.
    if (source.readyState === EventSource.CLOSED) {
      const words = line.querySelector("[data-live-words]");
      words.textContent = words.dataset.liveLost;
    }
  });
}

function begin() {
  const line = document.getElementById("live");
  if (!line) {
    source?.close();
  } else if (!line.dataset.watched) {
    line.dataset.watched = "";
    watch(line);
  }
}

begin();
document.addEventListener("htmx:afterSettle", begin);
window.addEventListener("pagehide", () => source?.close());
