// The secret of a new API token: marked as a whole when entered, and copied by a button where the browser can.
const secret = document.getElementById("secret");
const copy = document.getElementById("copy-secret");
const told = document.getElementById("copy-told");

secret.addEventListener("focus", () => secret.select());
if (navigator.clipboard) {
  copy.hidden = false;
  copy.addEventListener("click", async () => {
    await navigator.clipboard.writeText(secret.value);
    told.textContent = copy.dataset.done;
  });
}
