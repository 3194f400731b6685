// The list of runs: the views' links follow what is filtered, and a chosen span clears the exact times.

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
