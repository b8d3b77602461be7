// Anchors as lines over the columns, such as spectra, with a band of spread.
import { draw, text, tone } from './dom.js';

const LEFT = 44, RIGHT = 8;

/** The places 0, 1, … without those that are dead, in pieces that hang together. */
function segments(count, dead) {
  const pieces = [[]];
  for (let at = 0; at < count; at++) {
    if (!dead.includes(at)) pieces.at(-1).push(at);
    else if (pieces.at(-1).length) pieces.push([]);
  }
  return pieces.filter(piece => piece.length);
}

/** The largest value of some lines: lines drawn with the same one can be compared. */
export const highest = (model, ids) => Math.max(...ids.map(j => Math.max(...model.lines[j]))) || 1;

export function lines(state, ids, top, width, height) {
  const { model } = state, { axis, dead } = model.data, base = height - 34;
  const last = axis.at[axis.at.length - 1] || 1;
  const x = at => LEFT + ((width - LEFT - RIGHT) * axis.at[at]) / last;
  const y = value => 10 + (base - 10) * (1 - Math.min(value, top * 1.05) / top);
  const pieces = segments(axis.at.length, dead);
  const points = (row, piece) => piece.map(at => `${x(at).toFixed(1)} ${y(row[at]).toFixed(1)}`);
  const path = row => pieces.map(piece => `M${points(row, piece).join('L')}`).join('');
  const area = ([low, high]) => pieces.map(piece => `M${[...points(high, piece), ...points(low, piece).reverse()].join('L')}Z`).join('');
  const short = words => (words.trim() && Number.isFinite(Number(words)) ? String(Number(Number(words).toPrecision(4))) : words);
  const label = at => (axis.labels ? short(axis.labels[at]) : String(axis.at[at]));
  const middle = Math.floor(axis.at.length / 2), end = axis.at.length - 1, name = ids.map(j => state.nameOf(j)).join(' and ');
  const style = j => tone(state.numberOf(j)), band = model.bands.get(ids[0]);
  return draw('svg', { viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': `Values of ${name} over the columns` },
    draw('path', { class: 'grid', d: `M${LEFT} ${base}H${width - RIGHT}M${LEFT} 10H${width - RIGHT}` }),
    band ? draw('path', { class: 'band', style: style(ids[0]), d: area(band) }) : null,
    ids.map((j, at) => draw('path', { class: at ? 'line second' : 'line', style: style(j), d: path(model.lines[j]) })),
    text(LEFT - 5, 14, Number(top.toPrecision(2)), 'end'), text(LEFT - 5, base + 4, '0', 'end'),
    text(LEFT, base + 15, label(0)), text(x(middle), base + 15, label(middle), 'middle'), text(width - RIGHT, base + 15, label(end), 'end'),
    text((LEFT + width - RIGHT) / 2, base + 31, axis.unit || 'column', 'middle', 'soft'));
}
