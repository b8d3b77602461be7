// A scene as pictures: natural colours, what is not explained, and a map of each anchor, with one legend.
import { badge, el, fill, named, percent, tone } from './dom.js';

// From dark to light: readable with colour blindness and in grey print.
const STOPS = [[20, 16, 48], [60, 40, 120], [40, 105, 142], [38, 160, 128], [130, 205, 80], [250, 230, 60]];

export function colour(share) {
  const at = Math.min(Math.max(share, 0), 1) * (STOPS.length - 1), low = Math.min(Math.floor(at), STOPS.length - 2);
  return STOPS[low].map((value, channel) => Math.round(value + (at - low) * (STOPS[low + 1][channel] - value)));
}

export function renderMaps(place, state, act) {
  const { model, fit } = state;
  if (!model.data.rows.grid) return;
  const worst = Math.max(...fit.mixtures.slice(0, model.even).map(mixture => 1 - mixture.explained), 1e-9);
  const pictures = [
    picture(model.data.rows.colours, null, state, act, at => [...model.composite.subarray(3 * at, 3 * at + 3)]),
    picture('Not explained', null, state, act, at => colour((1 - fit.mixtures[at].explained) / worst)),
    ...fit.ids.map((j, at) => picture(state.nameOf(j), j, state, act, row => colour(fit.mixtures[row].weights[at]))),
  ];
  fill(place, el('div', { class: 'maps' }, pictures), el('div', { class: 'scales' }, scale('share in a pixel', '1'), scale('not explained', percent(worst))));
}

function scale(name, most) {
  const stops = STOPS.map((stop, at) => `rgb(${stop}) ${(100 * at) / (STOPS.length - 1)}%`).join(',');
  return el('p', { class: 'scale' }, el('span', {}, `${name}: 0`), el('span', { class: 'bar', style: `background:linear-gradient(90deg,${stops})` }), el('span', {}, most));
}

/** Where a row lies in the image, as shares of its width and height; rows that the page does not hold lie there too. */
function position(index, { image: [height, width], order }) {
  const [line, column] = order === 'F' ? [index % height, Math.floor(index / height)] : [Math.floor(index / width), index % width];
  return [(column + 0.5) / width, (line + 0.5) / height];
}

function picture(name, j, state, act, shade) {
  const { model } = state, { rows } = model.data, [height, width] = rows.grid;
  const canvas = el('canvas', { width, height, role: 'img', 'aria-label': `Map: ${name}`, pointerdown: event => {
    const box = canvas.getBoundingClientRect();
    const x = Math.min(width - 1, Math.max(0, Math.floor(((event.clientX - box.left) / box.width) * width)));
    const y = Math.min(height - 1, Math.max(0, Math.floor(((event.clientY - box.top) / box.height) * height)));
    act({ row: model.row(y * width + x) });
  } });
  const paint = canvas.getContext('2d'), pixels = paint.createImageData(width, height);
  for (let at = 0; at < width * height; at++) pixels.data.set([...shade(at), 255], 4 * at);
  paint.putImageData(pixels, 0, 0);
  const [left, top] = state.row ? position(state.row.index, rows) : [];
  const mark = state.row ? el('span', { class: 'here', style: `left:${(100 * left).toFixed(2)}%;top:${(100 * top).toFixed(2)}%` }) : null;
  const number = j === null ? null : state.numberOf(j);
  return el('figure', { class: j !== null && j === state.picked ? 'map picked' : 'map', style: j === null ? null : tone(number) },
    el('div', {}, canvas, mark), el('figcaption', {}, j === null ? '' : badge(number), named(name)));
}
