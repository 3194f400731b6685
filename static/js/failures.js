// When a part of the page could not be loaded, says so; the link itself still works as a page.

const notice = document.getElementById("load-failed");

if (notice) {
  for (const name of ["htmx:responseError", "htmx:sendError", "htmx:timeout"]) {
    document.addEventListener(name, () => {
      notice.hidden = false;
    });
  }
  document.addEventListener("htmx:afterSwap", () => {
    notice.hidden = true;
  });
}
