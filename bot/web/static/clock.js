// @ts-check
/**
 * Show instants in the reader's zone, with UTC as their title. The server writes them in UTC, as they stay without scripts.
 *
 * `<time data-form="exact">` has date and time; `data-form="clock"` is 15:42 today, Mon 08:00 within a week, else
 * 4 Dec 08:00, as counted from the page's own time in the footer.
 */

const DAYS_NAMED = 6;
const DAY_MS = 86400000;

/** @param {Date} at @param {Intl.DateTimeFormatOptions} options */
function words(at, options) {
  return new Intl.DateTimeFormat("en-GB", { hourCycle: "h23", ...options }).format(at);
}

/** @param {Date} at */
function exact(at) {
  const day = [at.getFullYear(), at.getMonth() + 1, at.getDate()].map((each) => `${each}`.padStart(2, "0")).join("-");
  return `${day} ${words(at, { hour: "2-digit", minute: "2-digit" })}`;
}

/** @param {Date} at @param {Date} now */
function clock(at, now) {
  const time = words(at, { hour: "2-digit", minute: "2-digit" });
  const days = Math.round((new Date(at).setHours(0, 0, 0, 0) - new Date(now).setHours(0, 0, 0, 0)) / DAY_MS);
  if (days === 0) return time;
  const day = Math.abs(days) < DAYS_NAMED ? { weekday: /** @type {const} */ ("short") } : { day: /** @type {const} */ ("numeric"), month: /** @type {const} */ ("short") };
  return `${words(at, day)} ${time}`;
}

function showInZone() {
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  if (zone === "UTC") return;
  const page = document.querySelector("footer time");
  const now = new Date(page?.getAttribute("datetime") ?? Date.now());
  for (const each of document.querySelectorAll("time[data-form]")) {
    const at = new Date(each.getAttribute("datetime") ?? "");
    if (Number.isNaN(at.getTime())) continue;
    const isClock = each.getAttribute("data-form") === "clock";
    if (!isClock && !each.hasAttribute("title")) each.setAttribute("title", each.textContent ?? "");
    each.textContent = isClock ? clock(at, now) : exact(at);
  }
  for (const each of document.querySelectorAll("[data-zone]")) each.textContent = `your zone, ${zone}`;
}

showInZone();
document.addEventListener("imq:replaced", showInZone);
