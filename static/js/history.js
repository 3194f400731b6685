// What is asked for again where the page is already there, as Enter does after a search that had begun by itself, is no
// new place to come back from: "back" leads to the page before.

document.addEventListener("htmx:beforeHistoryUpdate", ({ detail: { history } }) => {
  if (history.type === "push" && new URL(history.path, window.location.href).href === window.location.href) {
    history.type = "replace";
  }
});
