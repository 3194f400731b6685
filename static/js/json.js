// Searching in a JSON tree: what matches is marked and unfolded, the rest is hidden.

function search(tree, words, found) {
  const wanted = words.trim().toLowerCase();
  let matches = 0;
  for (const leaf of tree.querySelectorAll(".json-leaf")) {
    const hit = wanted !== "" && leaf.textContent.toLowerCase().includes(wanted);
    leaf.classList.toggle("json-hit", hit);
    leaf.classList.toggle("json-miss", wanted !== "" && !hit);
    matches += hit ? 1 : 0;
  }
  // A key of an object or array that matches shows all of it.
  for (const node of tree.querySelectorAll(".json-node")) {
    const key = node.querySelector(":scope > summary > .json-key");
    const hit = wanted !== "" && key !== null && key.textContent.toLowerCase().includes(wanted);
    node.classList.toggle("json-hit", hit);
    if (hit) {
      matches += 1;
      for (const leaf of node.querySelectorAll(".json-miss")) {
        leaf.classList.remove("json-miss");
      }
    }
  }
  for (const node of tree.querySelectorAll(".json-node")) {
    const within = node.classList.contains("json-hit") || node.querySelector(".json-hit") !== null;
    const inside = node.parentElement.closest(".json-node.json-hit") !== null;
    node.classList.toggle("json-miss", wanted !== "" && !within && !inside);
    if (wanted !== "" && within) {
      node.open = true;
    }
  }
  found.textContent = wanted === "" ? "" : matches === 0 ? found.dataset.none : String(matches);
}

document.addEventListener("input", (event) => {
  if (event.target.matches("[data-json-search]")) {
    const json = event.target.closest("[data-json]");
    search(json.querySelector(".json-tree"), event.target.value, json.querySelector("[data-json-found]"));
  }
});

function reveal(root) {
  for (const element of root.querySelectorAll("[data-needs-script]")) {
    element.hidden = false;
  }
}

reveal(document);
document.addEventListener("htmx:load", (event) => reveal(event.target));
