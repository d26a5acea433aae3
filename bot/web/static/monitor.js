// @ts-check
/**
 * One monitor for each pending request: it polls at growing intervals until the request is no longer pending.
 *
 * The same algorithm as `queue_engine/core/timing/backoff.py`; a test compares their schedules. The page has the
 * numbers, which are those of `MONITOR` in `queue_engine/core/timing/backoff.py`.
 */

/**
 * @typedef {object} PollingConfig
 * @property {number} intervalMs the first interval
 * @property {number} multiplier by which each interval is longer than the one before
 * @property {number} minMs
 * @property {number} maxMs
 * @property {number} jitter the share by which an interval varies to either side
 * @property {number} maxErrors errors in a row that end a monitor
 */

/**
 * @typedef {object} Timers
 * @property {(callback: () => void, ms: number) => number} set
 * @property {(id: number) => void} clear
 * @property {() => number} random numbers from 0 up to 1
 */

/** @type {Timers} */
export const browserTimers = {
  set: (callback, ms) => window.setTimeout(callback, ms),
  clear: (id) => window.clearTimeout(id),
  random: () => Math.random(),
};

/**
 * Read the numbers that the server put into the page.
 * @returns {PollingConfig}
 */
export function pollingConfig() {
  return JSON.parse(document.querySelector("main")?.dataset.monitor ?? "");
}

/** The monitor of one request. */
export class MonitorEntry {
  /** @type {number | null} */
  pollingId = null;
  /** The last interval before jitter; 0 until the first. */
  lastInterval = 0;
  consecutiveErrors = 0;
}

/**
 * Compute the next interval before jitter.
 * @param {number} lastInterval
 * @param {PollingConfig} config
 */
export function computeNextInterval(lastInterval, config) {
  const next = lastInterval ? lastInterval * config.multiplier : config.intervalMs;
  return Math.min(next, config.maxMs);
}

/**
 * Vary an interval by the jitter, within the bounds.
 * @param {number} interval
 * @param {PollingConfig} config
 * @param {number} random
 */
export function withJitter(interval, config, random) {
  const varied = Math.min(interval * (1 + config.jitter * (2 * random - 1)), config.maxMs);
  return Math.max(varied, config.minMs);
}

/** Polls each pending request by itself. */
export class RequestMonitors {
  /** @type {Map<string, MonitorEntry>} */
  entries = new Map();
  paused = false;

  /**
   * @param {PollingConfig} config
   * @param {object} calls
   * @param {(id: string) => boolean} calls.isPending whether the request is known as pending
   * @param {(id: string) => Promise<void>} calls.fetchStatus gets the status into the store, and throws on an error
   * @param {(id: string) => void} [calls.givenUp] is called with a request whose errors ended its monitor
   * @param {Timers} [timers]
   */
  constructor(config, calls, timers = browserTimers) {
    this.config = config;
    this.calls = calls;
    this.timers = timers;
  }

  /**
   * Watch a request from now on: poll at once, unless it is not pending or is watched already.
   * @param {string} id
   */
  startAutoMonitor(id) {
    if (!this.calls.isPending(id)) {
      this.stopAutoMonitor(id);
    } else if (!this.entries.has(id)) {
      const entry = new MonitorEntry();
      this.entries.set(id, entry);
      this.schedule(id, entry, 0);
    }
  }

  /**
   * Begin again at the shortest interval, after a status that came otherwise. Starts to watch, if need be.
   * @param {string} id
   */
  resetMonitorForRequest(id) {
    this.stopAutoMonitor(id);
    if (this.calls.isPending(id)) {
      const entry = new MonitorEntry();
      this.entries.set(id, entry);
      this.scheduleNext(id, entry);
    }
  }

  /**
   * Watch a request no longer. A poll under way changes nothing any more.
   * @param {string} id
   */
  stopAutoMonitor(id) {
    const entry = this.entries.get(id);
    if (entry?.pollingId != null) this.timers.clear(entry.pollingId);
    this.entries.delete(id);
  }

  stopAll() {
    for (const id of [...this.entries.keys()]) this.stopAutoMonitor(id);
  }

  /** Keep the entries, and poll nothing: statuses come by a stream, or nobody looks. */
  pause() {
    this.paused = true;
    for (const entry of this.entries.values()) {
      if (entry.pollingId != null) this.timers.clear(entry.pollingId);
      entry.pollingId = null;
    }
  }

  /** Poll all at once, and then from the shortest interval on. */
  resume() {
    this.paused = false;
    for (const id of [...this.entries.keys()]) {
      this.stopAutoMonitor(id);
      this.startAutoMonitor(id);
    }
  }

  /**
   * @param {string} id
   * @param {MonitorEntry} entry
   */
  async runPoll(id, entry) {
    if (!this.calls.isPending(id)) {
      this.stopAutoMonitor(id);
      return;
    }
    let failed = false;
    try {
      await this.calls.fetchStatus(id);
    } catch {
      failed = true;
    }
    // Reset or stopped meanwhile: that counts, and not the result of this poll.
    if (this.entries.get(id) !== entry) return;
    if (!this.calls.isPending(id)) {
      this.stopAutoMonitor(id);
      return;
    }
    entry.consecutiveErrors = failed ? entry.consecutiveErrors + 1 : 0;
    if (entry.consecutiveErrors >= this.config.maxErrors) {
      this.stopAutoMonitor(id);
      this.calls.givenUp?.(id);
    } else {
      this.scheduleNext(id, entry);
    }
  }

  /**
   * @param {string} id
   * @param {MonitorEntry} entry
   */
  scheduleNext(id, entry) {
    entry.lastInterval = computeNextInterval(entry.lastInterval, this.config);
    this.schedule(id, entry, withJitter(entry.lastInterval, this.config, this.timers.random()));
  }

  /**
   * @param {string} id
   * @param {MonitorEntry} entry
   * @param {number} ms
   */
  schedule(id, entry, ms) {
    if (!this.paused) entry.pollingId = this.timers.set(() => void this.runPoll(id, entry), ms);
  }
}
