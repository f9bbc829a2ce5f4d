// Keeps the fleet page up to date. Without it the page shows the same when it is loaded again.
"use strict";

(() => {
  const AGAIN = 5000; // milliseconds, after a connection that was refused or a page that could not be fetched
  const AFTER_RELOAD = 500; // after the word that the list is another one
  const live = document.getElementById("live");
  let source = null;

  // Not all browsers at once, when all were told the same.
  const soon = (milliseconds) => milliseconds * (1 + 2 * Math.random());

  const fleet = () => document.getElementById("fleet");

  function say(mood, words) {
    live.className = "pill " + mood;
    live.lastElementChild.textContent = words;
  }

  // A new element in the place of an old one; what had the focus has it again.
  function put(old, markup) {
    if (!old) return;
    const holder = document.createElement("template");
    holder.innerHTML = markup.trim();
    const fresh = holder.content.firstElementChild;
    const held = old.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
    old.replaceWith(fresh);
    if (held) fresh.querySelector(`[href="${CSS.escape(held)}"]`)?.focus();
  }

  function take(event) {
    const told = JSON.parse(event.data);
    for (const [name, markup] of Object.entries(told.rows || {})) put(document.getElementById("agent-" + name), markup);
    for (const [name, markup] of Object.entries(told.parts || {})) put(document.getElementById("part-" + name), markup);
    fleet().dataset.stamp = told.stamp;
    say("good", "live");
  }

  // Agents have come or gone: the lists are fetched anew, what somebody is typing stays.
  async function reload() {
    source.close();
    try {
      const answer = await fetch(location.href, { cache: "no-store" });
      if (!answer.ok) throw new Error(answer.status);
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
      for (const id of ["part-summary", "part-regions", "part-stuck", "part-travelled", "rows"]) {
        const found = fresh.getElementById(id), old = document.getElementById(id);
        if (found && old) old.replaceWith(document.adoptNode(found));
        else if (Boolean(found) !== Boolean(old)) return location.reload();
      }
      fleet().dataset.stamp = fresh.getElementById("fleet").dataset.stamp;
      listen();
    } catch {
      say("bad", "the principal does not answer");
      setTimeout(reload, soon(AGAIN));
    }
  }

  function listen() {
    const query = new URLSearchParams(location.search);
    query.set("since", fleet().dataset.stamp);
    source = new EventSource("events?" + query);
    source.addEventListener("fleet", take);
    source.addEventListener("reload", () => setTimeout(reload, soon(AFTER_RELOAD)));
    source.onerror = () => {
      say("warn", "not live: trying again");
      source.close();
      setTimeout(reload, soon(AGAIN));
    };
  }

  listen();
  addEventListener("pagehide", () => source.close());
  addEventListener("pageshow", (event) => { if (event.persisted) reload(); });
})();
