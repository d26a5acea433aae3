// @ts-check
/**
 * Make one element like another, and keep every node that stays the same.
 *
 * Nodes that stay keep focus, selection, scroll position and what a person typed. Open details stay open, and a field
 * that a person changed keeps its value.
 */

/**
 * @param {Element} shown
 * @param {Element} wanted
 */
export function morph(shown, wanted) {
  attributes(shown, wanted);
  children(shown, wanted);
}

/**
 * @param {Element} shown
 * @param {Element} wanted
 */
function attributes(shown, wanted) {
  const kept = shown.matches("details") ? ["open"] : isChanged(shown) ? ["value", "checked", "selected"] : [];
  for (const { name } of [...shown.attributes]) {
    if (!wanted.hasAttribute(name) && !kept.includes(name)) shown.removeAttribute(name);
  }
  for (const { name, value } of [...wanted.attributes]) {
    if (shown.getAttribute(name) !== value && !kept.includes(name)) shown.setAttribute(name, value);
  }
}

/**
 * Whether a person changed a field, or is about to.
 * @param {Element} element
 */
function isChanged(element) {
  if (element === document.activeElement) return true;
  if (element instanceof HTMLInputElement) {
    return element.value !== element.defaultValue || element.checked !== element.defaultChecked;
  }
  if (element instanceof HTMLTextAreaElement) return element.value !== element.defaultValue;
  return element instanceof HTMLOptionElement && element.selected !== element.defaultSelected;
}

/**
 * @param {Element} shown
 * @param {Element} wanted
 */
function children(shown, wanted) {
  if (shown instanceof HTMLTextAreaElement && isChanged(shown)) return;
  const named = new Map([...shown.children].filter((each) => key(each)).map((each) => [key(each), each]));
  /** @type {ChildNode | null} */
  let next = shown.firstChild;
  for (const child of [...wanted.childNodes]) {
    const known = child instanceof Element && key(child) ? named.get(key(child)) : undefined;
    if (known && known.tagName === /** @type {Element} */ (child).tagName) {
      if (known !== next) shown.insertBefore(known, next);
      next = known.nextSibling;
      morph(known, /** @type {Element} */ (child));
    } else if (next && isLike(next, child)) {
      const following = next.nextSibling;
      if (next instanceof Element) morph(next, /** @type {Element} */ (child));
      else if (next.nodeValue !== child.nodeValue) next.nodeValue = child.nodeValue;
      next = following;
    } else {
      shown.insertBefore(document.importNode(child, true), next);
    }
  }
  while (next) {
    const following = next.nextSibling;
    next.remove();
    next = following;
  }
}

/**
 * What distinguishes an element from its siblings over time.
 * @param {Element} element
 */
function key(element) {
  return element.id || element.getAttribute("data-key") || "";
}

/**
 * @param {ChildNode} one
 * @param {ChildNode} other
 */
function isLike(one, other) {
  if (one.nodeType !== other.nodeType || one.nodeName !== other.nodeName) return false;
  return !(one instanceof Element) || (!key(one) && !key(/** @type {Element} */ (other)));
}
