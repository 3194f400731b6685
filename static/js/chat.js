// A conversation as it goes: questions are sent to the API, and each turn that runs is watched on the stream of its
// run's events. What is shown of a turn always comes from the server, so a reload shows the same.

import { draftOf } from "./drafts.js";

const MOST_WATCHED = 3;
const form = document.getElementById("composer");
const turns = document.getElementById("turns");
const told = document.getElementById("chat-said");
const watched = new Map();

function say(words) {
  if (told) {
    told.textContent = words;
  }
}

// ---- turns that run --------------------------------------------------------------------------------------------

// Puts what the server says of a turn, or of its progress, in place. Each asks in its own name: htmx lets only the last
// of one element's requests wait for the one that is under way.
function fetchInto(watch, place, swap) {
  return window.htmx.ajax("GET", watch.turn, { source: `#${watch.place}`, target: `#${place}`, swap });
}

function lose(watch) {
  const words = document.querySelector(`#${watch.place} [data-lost-words]`);
  if (words) {
    words.textContent = watch.lost;
  }
}

// Asks for the part again as long as events came in meanwhile: never two requests for one turn at a time.
async function renew(watch) {
  watch.stale = true;
  if (watch.busy) {
    return;
  }
  watch.busy = true;
  try {
    while (watch.stale && !watch.ended && document.getElementById(watch.place)) {
      watch.stale = false;
      await fetchInto(watch, watch.place, "innerHTML");
    }
  } catch {
    // The next event asks again.
  } finally {
    watch.busy = false;
  }
  if (watch.ended) {
    await end(watch);
  }
}

async function end(watch) {
  const turn = document.getElementById(`turn-${watch.run}`);
  if (turn?.querySelector("[data-watch]")) {
    const near = turn.getBoundingClientRect().bottom <= window.innerHeight + 200;
    try {
      await fetchInto(watch, turn.id, "outerHTML");
    } catch {
      // What is left to do is the same as where the server answered with an error.
    }
    const left = document.querySelector(`#${watch.place}[data-watch]`);
    if (left) {
      delete left.dataset.watch;
      lose(watch);
    } else {
      say(watch.done);
    }
    if (near) {
      document.getElementById(turn.id)?.scrollIntoView({ block: "nearest" });
    }
  }
  watched.delete(watch.run);
  begin();
}

function start(element) {
  const run = element.id.replace("progress-", "");
  const { watch: events, turn, done, lost } = element.dataset;
  const after = element.querySelector("[data-after]").dataset.after;
  const source = new EventSource(`${events}?after=${after}`);
  const watch = { run, source, turn, done, lost, place: element.id, busy: false, stale: false, ended: false };
  watched.set(run, watch);
  source.addEventListener("event", () => renew(watch));
  source.addEventListener("done", () => {
    source.close();
    watch.ended = true;
    if (!watch.busy) {
      end(watch);
    }
  });
  source.addEventListener("error", () => {
    // While it only reconnects there is nothing to say; closed, it was refused: signed out, or the run is gone.
    if (source.readyState === EventSource.CLOSED) {
      lose(watch);
    }
  });
}

// The newest first, and only a few at a time: a browser opens but six connections to a server.
function begin() {
  for (const element of [...document.querySelectorAll("[data-watch]")].reverse()) {
    if (watched.size >= MOST_WATCHED) {
      return;
    }
    if (!watched.has(element.id.replace("progress-", ""))) {
      start(element);
    }
  }
}

// What had the focus may be gone from the turn that takes the place of the old one, as its button to cancel is: then the
// turn itself has it, so that a keyboard goes on from there.
let focusedTurn = "";

function keepFocus() {
  document.addEventListener("htmx:beforeSwap", (event) => {
    const { target } = event.detail;
    focusedTurn = target.matches(".turn") && target.contains(document.activeElement) ? target.id : "";
  });
  document.addEventListener("htmx:afterSettle", () => {
    if (focusedTurn && document.activeElement === document.body) {
      document.getElementById(focusedTurn)?.focus({ preventScroll: true });
    }
    focusedTurn = "";
  });
}

// ---- asking ----------------------------------------------------------------------------------------------------

// As the server makes them (`runs/ids.py`): 48 bits of milliseconds, then 32 random bits.
function newRunId() {
  const [random] = window.crypto.getRandomValues(new Uint32Array(1));
  const digits = ((BigInt(Date.now()) << 32n) | BigInt(random)).toString(32).padStart(16, "0");
  return `run_${[...digits].map((digit) => "0123456789abcdefghjkmnpqrstvwxyz"[parseInt(digit, 32)]).join("")}`;
}

function compose() {
  const { session, chat, ask, limit, person, empty, tooLong, notText, unsent, signedOut, stale, sent } = form.dataset;
  const field = document.getElementById("question");
  const refusal = document.getElementById("question-refusal");
  const counter = document.getElementById("question-count");
  const button = form.querySelector("button[type=submit]");
  const draft = draftOf(person, session || "new");
  const numbers = new Intl.NumberFormat(document.documentElement.lang);
  // Enter on a phone's keyboard has no Shift beside it: there it breaks the line.
  const byTouch = window.matchMedia("(hover: none) and (pointer: coarse)").matches;
  let sending = false;

  function length() {
    return [...field.value].length;
  }

  function refuse(words) {
    refusal.textContent = words;
    field.setAttribute("aria-invalid", words ? "true" : "false");
  }

  function count() {
    const long = length();
    counter.textContent = `${numbers.format(long)} / ${numbers.format(Number(limit))}`;
    counter.classList.toggle("composer-over", long > Number(limit));
    if (refusal.textContent && long <= Number(limit)) {
      refuse("");
    }
  }

  function put(words) {
    field.value = words;
    draft.keep(words);
    count();
  }

  function wrong() {
    if (field.value.trim() === "") {
      return empty;
    }
    return length() > Number(limit) ? tooLong : "";
  }

  async function refusalOf(answer) {
    if (answer.status === 401) {
      return signedOut;
    }
    const error = await answer.json();
    const said = { QUERY_EMPTY: empty, QUERY_TOO_LONG: tooLong, QUERY_NOT_TEXT: notText, CSRF_FAILED: stale };
    return said[error.code] ?? error.message;
  }

  async function post() {
    // Under the same id until it is known to have arrived: where only the answer was lost, it is not asked twice.
    const body = { query: field.value, runId: form.elements.run.value, ...(session && { sessionId: session }) };
    const token = form.elements.csrfmiddlewaretoken.value;
    const headers = { "Content-Type": "application/json", "X-CSRFToken": token };
    const answer = await fetch(ask, { method: "POST", headers, body: JSON.stringify(body) });
    if (!answer.ok) {
      refuse(await refusalOf(answer));
      return;
    }
    const { runId, sessionId } = await answer.json();
    form.elements.run.value = newRunId();
    put("");
    await show(runId, sessionId);
  }

  async function show(runId, sessionId) {
    const page = `${chat}${sessionId}/`;
    if (!session) {
      window.location.assign(`${page}#turn-${runId}`);
      return;
    }
    try {
      // With those that were asked meanwhile in another window.
      const last = turns.querySelector(".turn:last-of-type")?.id.replace("turn-", "") ?? "";
      const asked = `${page}turns/${runId}/?after=${last}`;
      await window.htmx.ajax("GET", asked, { source: form, target: "#turns", swap: "beforeend" });
    } catch {
      window.location.reload();
    }
    say(sent);
    document.getElementById(`turn-${runId}`)?.scrollIntoView({ block: "nearest" });
    begin();
  }

  async function send() {
    const words = wrong();
    refuse(words);
    if (words || sending) {
      return;
    }
    sending = true;
    button.disabled = true;
    try {
      await post();
    } catch {
      refuse(unsent);
    } finally {
      sending = false;
      button.disabled = false;
    }
  }

  form.noValidate = true;
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    send();
  });
  field.addEventListener("keydown", (event) => {
    // While an input method composes, Enter takes its proposal; Safari tells the key that ended it by its number only.
    const composing = event.isComposing || event.keyCode === 229;
    if (event.key === "Enter" && !event.shiftKey && !event.altKey && !composing && !byTouch) {
      event.preventDefault();
      send();
    }
  });
  field.addEventListener("input", () => {
    draft.keep(field.value);
    count();
  });
  for (const link of document.querySelectorAll("[data-suggestion]")) {
    link.addEventListener("click", (event) => {
      if (!event.ctrlKey && !event.metaKey && !event.shiftKey) {
        event.preventDefault();
        put(link.textContent);
        field.focus();
      }
    });
  }
  for (const hint of form.querySelectorAll("[data-needs-chat]")) {
    hint.hidden = byTouch;
  }
  field.value ||= draft.read();
  count();
}

if (form) {
  compose();
}
if (turns) {
  begin();
  keepFocus();
  document.addEventListener("htmx:load", begin);
  window.addEventListener("pagehide", () => {
    watched.forEach((watch) => watch.source.close());
    watched.clear();
  });
  // A page that the browser had put aside goes on where it stood.
  window.addEventListener("pageshow", begin);
}
