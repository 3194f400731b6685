// Links to a text that a click copies instead of opening it; or links that are copied themselves. The text comes from the server as it is on record: no
// number passes through this browser's arithmetic.

async function put(text) {
  if (navigator.clipboard) {
    await navigator.clipboard.writeText(text);
    return;
  }
  // Outside of a secure context there is only the old way.
  const area = document.createElement("textarea");
  area.value = text;
  area.className = "visually-hidden";
  document.body.append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  if (!done) {
    throw new Error("not copied");
  }
}

async function textAt(address) {
  const answer = await fetch(address, { headers: { Accept: "*/*" } });
  if (!answer.ok || answer.redirected) {
    throw new Error(String(answer.status));
  }
  return answer.text();
}

async function copy(link) {
  const words = link.dataset.words ?? link.textContent;
  link.dataset.words = words;
  try {
    await put(link.dataset.copy === "address" ? link.href : await textAt(link.href));
    link.textContent = link.dataset.copied;
  } catch {
    link.textContent = link.dataset.notCopied;
  }
  setTimeout(() => {
    link.textContent = words;
  }, 2500);
}

document.addEventListener("click", (event) => {
  const link = event.target.closest("a[data-copy]");
  if (link && !event.ctrlKey && !event.metaKey && !event.shiftKey) {
    event.preventDefault();
    copy(link);
  }
});
