// @ts-check
/** Replace a page's `<main>` and its time by the server's present ones, and keep what the reader was doing. */

import { morph } from "./morph.js";

/** @type {Promise<boolean> | null} */
let underWay = null;
let again = false;
/** What the server last gave. What moves by the clock alone is no change. */
let shownText = comparable(document.querySelector("main"));

/**
 * Fetch this page again and replace its `<main>`. Calls during a fetch share the next one.
 * @returns {Promise<boolean>} whether anything changed. Rejects if the server does not answer with the page.
 */
export function refreshMain() {
  if (underWay) {
    again = true;
    return underWay;
  }
  underWay = replace().finally(() => {
    underWay = null;
    if (again) {
      again = false;
      refreshMain().catch(() => undefined);
    }
  });
  return underWay;
}

async function replace() {
  const answer = await fetch(location.href, { headers: { Accept: "text/html" }, credentials: "same-origin" });
  if (!answer.ok || new URL(answer.url).pathname !== location.pathname) throw new Error(`status ${answer.status}`);
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const present = page.querySelector("main");
  const shown = document.querySelector("main");
  if (!present || !shown) throw new Error("the page has no main");
  const text = comparable(present);
  const changed = text !== shownText;
  shownText = text;
  morph(shown, present);
  document.title = page.title;
  const time = page.querySelector("footer time");
  if (time) document.querySelector("footer time")?.replaceWith(document.importNode(time, true));
  document.dispatchEvent(new CustomEvent("imq:replaced"));
  return changed;
}

/**
 * @param {Element | null} main
 * @returns {string} the content without times and durations
 */
function comparable(main) {
  const copy = /** @type {Element | undefined} */ (main?.cloneNode(true));
  for (const each of copy?.querySelectorAll("time, progress, meter") ?? []) each.remove();
  return (copy?.innerHTML ?? "").replace(/\d+ (?:s|min|h|d)\b/g, "");
}
