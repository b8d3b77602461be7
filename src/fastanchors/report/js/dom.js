// Elements, and numbers as people read them. Text enters the page as text only, never as markup.

const SVG = new DOMParser().parseFromString('<svg></svg>', 'text/html').querySelector('svg').namespaceURI;

function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === 'function') node.addEventListener(name, value);
    else if (value === true) node.setAttribute(name, '');
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(name, value);
  }
  node.append(...children.flat().filter(child => child !== null && child !== undefined && child !== ''));
  return node;
}

/** An HTML element; an attribute that is a function listens to the event of that name. */
export function el(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

/** An element of a drawing. */
export function draw(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

/** Words in a drawing. */
export function text(x, y, words, anchor = 'start', kind = '') {
  return draw('text', { x, y, 'text-anchor': anchor, class: kind || null }, String(words));
}

/** A name in its own direction of writing, which does not turn the text around it. */
export function named(text, kind = '') {
  return el('bdi', kind ? { class: kind } : {}, text);
}

/** Replace the content of an element; what had the focus has it again (elements are known by their data-key). */
export function fill(node, ...children) {
  const key = node.contains(document.activeElement) ? document.activeElement.dataset.key : undefined;
  node.replaceChildren(...children.flat().filter(child => child !== null && child !== undefined && child !== ''));
  if (key) [...node.querySelectorAll('[data-key]')].find(each => each.dataset.key === key)?.focus({ preventScroll: true });
}

/** "73 %", "4.2 %", "0.03 %"; never rounded up to all or down to nothing. The space does not break. */
export function percent(share) {
  const value = 100 * share;
  let shown;
  if (value === 0 || value === 100 || (value >= 10 && value < 99.5)) shown = value.toFixed(0);
  else if (value < 10) shown = value >= 1 ? value.toFixed(1) : value >= 0.01 ? value.toFixed(2) : '<\u00a00.01';
  else shown = value < 99.95 ? value.toFixed(1) : value < 99.995 ? value.toFixed(2) : '>\u00a099.99';
  return `${shown}\u00a0%`;
}

export function shorten(text, width) {
  return text.length <= width ? text : `${text.slice(0, width - 1).trimEnd()}…`;
}

/** A bar for a share; it is only for the eye. */
export function meter(share, style = '') {
  const width = `width:${(100 * Math.min(Math.max(share, 0), 1)).toFixed(2)}%`;
  return el('span', { class: 'meter', 'aria-hidden': 'true' }, el('span', { style: `${width};${style}` }));
}

const TONES = 8;

/** The colour of an anchor by its number from 0 on, as a style; the number itself is always written beside it. */
export const tone = number => `--tone:var(--tone-${number % TONES})`;

/** The number of an anchor in its colour. */
export const badge = number => el('span', { class: 'badge', style: tone(number) }, String(number + 1));

/** "1 row", "1,234 rows". */
export const plural = (count, noun) => `${count.toLocaleString('en')} ${noun}${count === 1 ? '' : 's'}`;
