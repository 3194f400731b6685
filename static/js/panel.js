// The details beside the timeline: which row they belong to, and where the focus goes.

let opener = null;

function mark(sequenceNo) {
  for (const link of document.querySelectorAll("#timeline [aria-current]")) {
    link.removeAttribute("aria-current");
  }
  document.querySelector(`#event-${sequenceNo} > a`)?.setAttribute("aria-current", "true");
}

document.addEventListener("htmx:beforeRequest", (event) => {
  if (event.detail.target.id === "panel" && !event.detail.elt.matches("[data-close]")) {
    opener = event.detail.elt;
  }
});

// After settling, not after swapping: only then do the links inside the details speak to htmx.
document.addEventListener("htmx:afterSettle", (event) => {
  if (event.detail.target.id !== "panel") {
    return;
  }
  const panel = document.querySelector("#panel [data-panel]");
  mark(panel ? panel.dataset.panel : "none");
  if (!panel) {
    (opener?.isConnected ? opener : document.querySelector("#timeline [data-row]"))?.focus();
    return;
  }
  const wanted = event.detail.requestConfig?.elt?.dataset.then;
  const place = wanted ? document.getElementById(wanted) : null;
  panel.querySelector("[data-panel-title]").focus({ preventScroll: true });
  (place ?? panel).scrollIntoView({ block: "nearest" });
});
