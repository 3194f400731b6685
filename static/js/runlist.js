// The list of runs: a chosen span clears the exact times, and the bar says how many runs are ticked to be compared.

const form = document.getElementById("filters");

function clear(...names) {
  for (const name of names) {
    form.elements[name].value = "";
  }
}

form?.addEventListener(
  "change",
  (event) => {
    if (event.target.name === "last" && event.target.value) {
      clear("since", "until");
    }
    if ((event.target.name === "since" || event.target.name === "until") && event.target.value) {
      clear("last");
    }
  },
  // Before htmx reads the form.
  true,
);

// Without a script the bar stands below the list; with one it is there when a run is ticked.
function countTicked() {
  const bar = document.getElementById("compare");
  if (!bar) {
    return;
  }
  const ticked = document.querySelectorAll("input[form='compare']:checked").length;
  const words = bar.querySelector("[data-ticked]");
  bar.hidden = ticked === 0;
  bar.querySelector("button").disabled = ticked !== 2;
  words.textContent = ticked === 1 ? words.dataset.one : ticked === 2 ? words.dataset.two : words.dataset.more;
}

countTicked();
document.addEventListener("change", (event) => {
  if (event.target.matches("input[form='compare']")) {
    countTicked();
  }
});
document.addEventListener("htmx:afterSettle", countTicked);
// Back from the comparison, the browser has kept the ticks.
window.addEventListener("pageshow", countTicked);
