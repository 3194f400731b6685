// A page that the browser has put aside whole is shown again by "back" without asking the server. After its person
// signed out, or somebody else signed in, it asks first: what it shows is no longer for who sits there.

const KEY = "superbiz-person";
const signOut = document.querySelector("form[data-person]");

// Where nothing can be kept nothing is known: then it asks each time.
function kept(use) {
  try {
    return use(localStorage);
  } catch {
    return null;
  }
}

if (signOut) {
  const { person } = signOut.dataset;
  kept((storage) => storage.setItem(KEY, person));
  signOut.addEventListener("submit", () => kept((storage) => storage.removeItem(KEY)));
  window.addEventListener("pageshow", (event) => {
    if (event.persisted && kept((storage) => storage.getItem(KEY)) !== person) {
      document.documentElement.hidden = true;
      window.location.reload();
    }
  });
}
