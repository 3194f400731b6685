// Words that were typed and not sent, kept in this browser for the person who typed them and for nobody else:
// signing out removes them all, and so does somebody else's signing in.

const PREFIX = "superbiz-draft:";
const signOut = document.querySelector("form[data-person]");

// A browser that is told to keep nothing, or is full, throws: then there are no drafts, and all else works.
function kept(use) {
  try {
    return use(localStorage);
  } catch {
    return null;
  }
}

function remove(wanted) {
  kept((storage) => {
    for (const key of Object.keys(storage)) {
      if (key.startsWith(PREFIX) && wanted(key)) {
        storage.removeItem(key);
      }
    }
  });
}

export function draftOf(person, place) {
  const key = `${PREFIX}${person}:${place}`;
  return {
    read: () => kept((storage) => storage.getItem(key)) ?? "",
    keep: (words) => kept((storage) => (words ? storage.setItem(key, words) : storage.removeItem(key))),
  };
}

if (signOut) {
  const own = `${PREFIX}${signOut.dataset.person}:`;
  remove((key) => !key.startsWith(own));
  signOut.addEventListener("submit", () => remove(() => true));
}
