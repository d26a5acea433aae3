// @ts-check
/**
 * The page of requests: each pending request has a monitor, unless a stream of events brings its status.
 *
 * The refresh button asks for all statuses at once, and resets all monitors to the shortest interval.
 */

import { RequestMonitors, pollingConfig } from "./monitor.js";
import { refreshMain } from "./page.js";

/**
 * @typedef {object} RequestAnswer
 * @property {string} id
 * @property {string} status
 * @property {string} state
 * @property {number} attempts
 * @property {string | null} next_try_at
 * @property {string | null} error
 */

/** What is known of each request. @type {Map<string, {status: string, state: string}>} */
const store = new Map();

const monitors = new RequestMonitors(pollingConfig(), {
  isPending: (id) => store.get(id)?.status === "pending",
  fetchStatus: async (id) => put(await getJson(`/requests/${encodeURIComponent(id)}/status`)),
  givenUp: (id) => tell(`The status of request ${id} cannot be had. Press "Refresh" to try again.`),
});

/**
 * @param {string} address
 * @returns {Promise<any>}
 */
async function getJson(address) {
  const answer = await fetch(address, { headers: { Accept: "application/json" }, credentials: "same-origin" });
  if (answer.status === 404) return { id: address.split("/")[2], status: "unknown", state: "unknown" };
  if (!answer.ok) throw new Error(`status ${answer.status}`);
  return answer.json();
}

/**
 * Store a status, and show it. A request that ended is shown by the server, which knows who may retry it.
 * @param {RequestAnswer} request
 */
function put(request) {
  const before = store.get(request.id);
  store.set(request.id, { status: request.status, state: request.state });
  const row = document.querySelector(`tr[data-request="${CSS.escape(request.id)}"]`);
  if (before?.status === "pending" && request.status !== "pending") {
    monitors.stopAutoMonitor(request.id);
    refreshMain().catch(() => undefined);
  } else if (row && before && before.state !== request.state) {
    refreshMain().catch(() => undefined);
  }
}

/** Ask for all statuses at once, and begin each monitor again, those that were given up included. */
async function refreshStatuses() {
  const button = document.querySelector("[data-refresh=requests]");
  const address = `/requests/status${location.search}`;
  button?.setAttribute("aria-busy", "true");
  for (const id of store.keys()) monitors.resetMonitorForRequest(id);
  try {
    /** @type {{requests: RequestAnswer[]}} */
    const answer = await getJson(address);
    for (const request of answer.requests) {
      put(request);
      monitors.resetMonitorForRequest(request.id);
    }
    await refreshMain();
    tell("Refreshed.");
  } catch {
    tell("IMQ does not answer; the page shows what was last known.");
  } finally {
    button?.removeAttribute("aria-busy");
  }
}

/** Watch the pending requests that the page shows, but for those whose errors ended their monitors. */
function readPage() {
  for (const row of document.querySelectorAll("tr[data-request]")) {
    const { request, status, state } = /** @type {HTMLElement} */ (row).dataset;
    if (!request || !status || !state) continue;
    const known = store.get(request);
    store.set(request, { status, state });
    if (!known) monitors.startAutoMonitor(request);
    else if (known.state !== state) monitors.resetMonitorForRequest(request);
  }
}

/** @param {string} sentence */
function tell(sentence) {
  const place = document.getElementById("requests-status");
  if (place) place.textContent = sentence;
}

document.addEventListener("imq:replaced", readPage);
document.addEventListener("imq:request", (event) => put(/** @type {CustomEvent} */ (event).detail));
document.addEventListener("imq:live", (event) => {
  const state = /** @type {CustomEvent} */ (event).detail;
  if (state === "live" || state === "paused" || state === "stopped") monitors.pause();
  else if (monitors.paused) monitors.resume();
});
document.addEventListener("click", (event) => {
  const button = event.target instanceof Element ? event.target.closest("[data-refresh=requests]") : null;
  if (button && !event.defaultPrevented) {
    event.preventDefault();
    void refreshStatuses();
  }
});
readPage();
