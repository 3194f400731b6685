// A run as it goes: new rows come as HTML over server-sent events. At its end the page asks for the run anew.

const line = document.getElementById("live");
const timeline = document.getElementById("timeline");

function atBottom() {
  return window.innerHeight + window.scrollY >= document.documentElement.scrollHeight - 80;
}

function append(html) {
  const template = document.createElement("template");
  template.innerHTML = html;
  const row = template.content.querySelector("li");
  if (!row || document.getElementById(row.id)) {
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

// The whole of the run but the open details: focus and selection stay where they are.
async function renew(page) {
  const selected = timeline.querySelector('[aria-current="true"]')?.closest("li")?.id;
  const focused = document.activeElement?.closest("#timeline li")?.id;
  const panel = document.getElementById("panel");
  const kept = [...panel.childNodes];
  await window.htmx.ajax("GET", page, { target: "#run", swap: "innerHTML" });
  if (selected) {
    document.querySelector(`#${selected} > a`)?.setAttribute("aria-current", "true");
    document.getElementById("panel").replaceChildren(...kept);
  }
  if (focused) {
    document.querySelector(`#${focused} > a`)?.focus({ preventScroll: true });
  }
}

if (line && timeline) {
  const { live, after, page } = line.dataset;
  const source = new EventSource(`${live}?after=${after}`);
  source.addEventListener("row", (event) => append(event.data));
  source.addEventListener("done", () => {
    source.close();
    renew(page);
  });
  source.addEventListener("error", () => {
    // While it only reconnects there is nothing to say; closed, it was refused: signed out, or the run is gone.
    if (source.readyState === EventSource.CLOSED) {
      const words = line.querySelector("[data-live-words]");
      words.textContent = words.dataset.liveLost;
    }
  });
  window.addEventListener("pagehide", () => source.close());
}
