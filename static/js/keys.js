// Single keys: j and k move along the rows, x ticks the row's run for comparing, Escape closes the details, / goes to the search, ? lists the keys.
// They can be switched off on this device (WCAG 2.1.4), and never act while somebody types.

const SWITCH = "superbiz-single-keys";
const dialog = document.getElementById("keys");
const opener = document.querySelector("[data-keys-open]");
const toggle = document.querySelector("[data-keys-switch]");

function inUse() {
  return localStorage.getItem(SWITCH) !== "off";
}

function isTyping(element) {
  return element.closest("input:not([type='checkbox']), select, textarea, [contenteditable]") !== null;
}

// The row that has the focus, or the box in it.
function rowInFocus() {
  const focused = document.activeElement;
  return focused.matches("[data-row]") ? focused : focused.closest("tr")?.querySelector("[data-row]") ?? null;
}

function tick() {
  rowInFocus()?.closest("tr")?.querySelector("input[form='compare']")?.click();
}

function move(step) {
  const rows = [...document.querySelectorAll("[data-row]")];
  if (rows.length === 0) {
    return;
  }
  const current = rows.findIndex((row) => row === rowInFocus());
  const selected = rows.findIndex((row) => row.getAttribute("aria-current") === "true");
  const from = current >= 0 ? current : selected;
  const next = from < 0 ? 0 : Math.min(rows.length - 1, Math.max(0, from + step));
  rows[next].focus();
  rows[next].scrollIntoView({ block: "nearest" });
}

const actions = {
  j: () => move(1),
  k: () => move(-1),
  x: tick,
  "/": () => document.querySelector("[data-search]")?.focus(),
  "?": () => dialog?.showModal(),
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || dialog?.open) {
    return;
  }
  if (event.key === "Escape") {
    if (isTyping(event.target)) {
      event.target.blur();
    } else {
      document.querySelector("[data-close]")?.click();
    }
    return;
  }
  if (!inUse() || isTyping(event.target) || !(event.key in actions)) {
    return;
  }
  event.preventDefault();
  actions[event.key]();
});

if (dialog && opener && toggle) {
  opener.hidden = false;
  opener.addEventListener("click", () => dialog.showModal());
  toggle.checked = inUse();
  toggle.addEventListener("change", () => localStorage.setItem(SWITCH, toggle.checked ? "on" : "off"));
}
