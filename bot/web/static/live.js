// @ts-check
/**
 * Keep a page up to date: its `<main data-live="/events?…">` names the stream of events that concern it.
 *
 * Each event has the page fetched again. Where no stream can be had, the page is polled by the monitor of requests, and the
 * stream is asked for again each minute. A hidden tab has no stream and polls nothing: browsers grant a site few
 * connections. The header tells the state in words.
 */

import { RequestMonitors, pollingConfig } from "./monitor.js";
import { refreshMain } from "./page.js";

const DEBOUNCE_MS = 250;
/** Until figures that no event announces are fetched, such as elapsed times, or a refused stream is asked for again. */
const STEADY_MS = 60000;
const WORDS = { live: "Live", reconnecting: "Reconnecting", stopped: "Stopped: reload the page" };
/** @typedef {keyof typeof WORDS} LiveState */

class LivePage {
  /** @type {EventSource | null} */
  source = null;
  address = "";
  lastId = "";
  /** @type {LiveState | ""} */
  state = "";
  /** @type {number | null} */
  debounce = null;
  /** @type {number | null} */
  steady = null;

  constructor() {
    this.polls = new RequestMonitors(pollingConfig(), {
      isPending: () => this.state === "reconnecting",
      fetchStatus: async () => {
        if (await refreshMain()) this.polls.resetMonitorForRequest("page");
      },
      givenUp: () => this.tell("stopped"),
    });
    document.addEventListener("visibilitychange", () => (document.hidden ? this.pause() : this.resume()));
    document.addEventListener("imq:replaced", () => {
      if (this.source && wantedAddress() !== this.address) this.begin();
    });
    document.addEventListener("click", (event) => this.refreshAsked(event));
    window.addEventListener("pagehide", () => this.pause());
    window.addEventListener("pageshow", (event) => event.persisted && this.resume());
    if (!document.hidden) this.begin();
  }

  /** Begin again for a person who came back, even after errors. */
  resume() {
    if (this.state === "stopped") this.tell("reconnecting");
    this.begin();
  }

  /** Open the stream; a page that was hidden may be outdated. */
  begin() {
    const outdated = this.state !== "";
    this.close();
    this.address = wantedAddress();
    if (!this.address) return;
    const address = new URL(this.address, location.href);
    if (this.lastId) address.searchParams.set("after", this.lastId);
    const source = (this.source = new EventSource(address));
    source.onopen = () => this.opened();
    source.onmessage = (event) => this.happened(event);
    source.addEventListener("mark", (event) => (this.lastId = event.lastEventId));
    source.addEventListener("missed", () => this.refreshSoon());
    source.addEventListener("request", (event) => {
      document.dispatchEvent(new CustomEvent("imq:request", { detail: JSON.parse(event.data) }));
    });
    source.addEventListener("end", () => this.ended());
    source.onerror = () => this.fallBack();
    this.steady = window.setInterval(() => this.beSteady(source), STEADY_MS);
    if (outdated) this.refreshSoon();
  }

  /** The stream begins now: what happened since the page was made is fetched. */
  opened() {
    const before = this.state;
    this.tell("live");
    this.polls.stopAll();
    if (before !== "live") this.refreshSoon();
  }

  /** @param {MessageEvent} event */
  happened(event) {
    this.lastId = event.lastEventId;
    this.refreshSoon();
  }

  /** The server ended the stream for good: the session ended, or the right to look. */
  ended() {
    this.close();
    this.tell("stopped");
    refreshMain().catch(() => location.reload());
  }

  /** Poll while there is no stream, unless errors ended that. The browser opens a broken stream again by itself. */
  fallBack() {
    if (this.state === "stopped") return;
    this.tell("reconnecting");
    this.polls.startAutoMonitor("page");
  }

  /**
   * Ask again for a stream that the server refused: the browser does not.
   * @param {EventSource} source
   */
  beSteady(source) {
    if (source.readyState === EventSource.CLOSED) this.begin();
    else if (this.state === "live") this.refreshSoon();
  }

  pause() {
    this.close();
    this.polls.stopAll();
    document.dispatchEvent(new CustomEvent("imq:live", { detail: "paused" }));
  }

  close() {
    this.source?.close();
    this.source = null;
    if (this.debounce != null) window.clearTimeout(this.debounce);
    if (this.steady != null) window.clearInterval(this.steady);
    this.debounce = null;
    this.steady = null;
  }

  /**
   * The refresh button fetches the page at once, and has it polled again from the shortest interval on.
   * @param {MouseEvent} event
   */
  refreshAsked(event) {
    const button = event.target instanceof Element ? event.target.closest("[data-refresh=page]") : null;
    if (!button || event.defaultPrevented) return;
    event.preventDefault();
    if (this.state === "stopped") this.resume();
    this.polls.resetMonitorForRequest("page");
    refreshMain().catch(() => location.reload());
  }

  refreshSoon() {
    this.debounce ??= window.setTimeout(() => {
      this.debounce = null;
      refreshMain().catch(() => undefined);
    }, DEBOUNCE_MS);
  }

  /** @param {LiveState} state */
  tell(state) {
    if (state !== this.state) {
      this.state = state;
      document.documentElement.dataset.live = state;
      const place = document.getElementById("live-status");
      if (place) {
        place.textContent = WORDS[state];
        place.dataset.state = state;
      }
    }
    document.dispatchEvent(new CustomEvent("imq:live", { detail: state }));
  }
}

function wantedAddress() {
  return document.querySelector("main")?.dataset.live ?? "";
}

if (wantedAddress()) new LivePage();
