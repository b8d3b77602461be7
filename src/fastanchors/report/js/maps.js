// A scene as pictures: natural colours, what is not explained, and a map of each anchor, with one legend.
import { el, fill, named } from './dom.js';

// Dark to light, told apart by those who see few colours and in grey print.
const STOPS = [[20, 16, 48], [60, 40, 120], [40, 105, 142], [38, 160, 128], [130, 205, 80], [250, 230, 60]];

export function colour(share) {
  const at = Math.min(Math.max(share, 0), 1) * (STOPS.length - 1), low = Math.min(Math.floor(at), STOPS.length - 2);
  return STOPS[low].map((value, channel) => Math.round(value + (at - low) * (STOPS[low + 1][channel] - value)));
}

export function renderMaps(place, state, act) {
  const { model, fit, step } = state, grid = model.data.rows.grid;
  if (!grid) return;
  const worst = Math.max(...fit.mixtures.map(mixture => 1 - mixture.explained), 1e-9);
  const pictures = [
    picture(model.data.rows.colours, null, state, act, at => [...model.composite.subarray(3 * at, 3 * at + 3)]),
    picture(`Not explained (light: ${(100 * worst).toPrecision(2)} %)`, null, state, act, at => colour((1 - fit.mixtures[at].explained) / worst)),
    ...fit.ids.map((j, at) => picture(state.nameOf(j), step.anchors.indexOf(j) + 1, state, act, row => colour(fit.mixtures[row].weights[at]))),
  ];
  const bar = STOPS.map((stop, at) => `rgb(${stop}) ${(100 * at) / (STOPS.length - 1)}%`).join(',');
  fill(place, el('div', { class: 'maps' }, pictures),
    el('p', { class: 'scale' }, el('span', {}, '0'), el('span', { class: 'bar', style: `background:linear-gradient(90deg,${bar})` }), el('span', {}, '1, share in a pixel')));
}

function picture(name, number, state, act, shade) {
  const { model } = state, [height, width] = model.data.rows.grid;
  const canvas = el('canvas', { width, height, role: 'img', 'aria-label': `Map: ${name}`, pointerdown: event => {
    const box = canvas.getBoundingClientRect();
    const x = Math.min(width - 1, Math.max(0, Math.floor(((event.clientX - box.left) / box.width) * width)));
    const y = Math.min(height - 1, Math.max(0, Math.floor(((event.clientY - box.top) / box.height) * height)));
    act({ row: model.row(y * width + x) });
  } });
  const paint = canvas.getContext('2d'), pixels = paint.createImageData(width, height);
  for (let at = 0; at < width * height; at++) pixels.data.set([...shade(at), 255], 4 * at);
  paint.putImageData(pixels, 0, 0);
  const picked = number && state.step.anchors[number - 1] === state.picked;
  const mark = state.row?.at === undefined || state.row.at === null ? null : el('span', {
    class: 'here',
    style: `left:${(100 * ((state.row.at % width) + 0.5)) / width}%;top:${(100 * (Math.floor(state.row.at / width) + 0.5)) / height}%`,
  });
  return el('figure', { class: picked ? 'map picked' : 'map' }, el('div', {}, canvas, mark),
    el('figcaption', {}, number ? el('span', { class: 'number' }, String(number)) : '', named(name)));
}
