// Words that were typed and not sent, kept in this browser for the person who typed them and for nobody else:
// signing out removes them all, and so does somebody else's signing in.

const PREFIX = "superbiz-draft:";
const signOut = document.querySelector("form[data-person]");

function remove(wanted) {
  for (const key of Object.keys(localStorage)) {
    if (key.startsWith(PREFIX) && wanted(key)) {
      localStorage.removeItem(key);
    }
  }
}

export function draftOf(person, place) {
  const key = `${PREFIX}${person}:${place}`;
  return {
    read: () => localStorage.getItem(key) ?? "",
    keep: (words) => (words ? localStorage.setItem(key, words) : localStorage.removeItem(key)),
  };
}

if (signOut) {
  const own = `${PREFIX}${signOut.dataset.person}:`;
  remove((key) => !key.startsWith(own));
  signOut.addEventListener("submit", () => remove(() => true));
}
