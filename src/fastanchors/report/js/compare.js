// Two anchors side by side.
import { lines } from './cards.js';
import { el, fill, named, percent } from './dom.js';

export function renderCompare(place, state, act) {
  const { model, picked, compared, step } = state;
  place.hidden = picked === null || compared === null || picked === compared;
  if (place.hidden) return;
  const pair = [picked, compared], { data } = model;
  const title = pair.map(j => [el('span', { class: 'number' }, String(step.anchors.indexOf(j) + 1)), named(state.nameOf(j))]);
  fill(place,
    el('h3', {}, ...title[0], ' and ', ...title[1]),
    el('p', {}, `They are ${model.angle(...pair).toFixed(1)}° apart; 0° would be the same direction, 90° nothing in common.`),
    data.lines ? lines(state, pair, Math.max(...pair.flatMap(j => data.lines[j])) || 1, 200) : table(data, pair, state),
    el('button', { class: 'tool', 'data-key': 'end-compare', click: () => act({ compared: null }) }, 'End comparison'));
}

function table(data, [one, other], state) {
  const shares = pair => new Map(data.features[pair]), a = shares(one), b = shares(other);
  const columns = [...new Set([...a.keys(), ...b.keys()])];
  const gap = column => (a.get(column) ?? 0) - (b.get(column) ?? 0);
  columns.sort((x, y) => Math.abs(gap(y)) - Math.abs(gap(x)));
  const shown = (map, column) => (map.has(column) ? percent(map.get(column)) : '–');
  return el('div', { class: 'scroll' }, el('table', {},
    el('caption', {}, 'Where they differ most; – is less than the columns listed of that anchor'),
    el('thead', {}, el('tr', {}, el('th', { scope: 'col' }, ''),
      ...[one, other].map(j => el('th', { scope: 'col', class: 'n' }, named(state.nameOf(j)))))),
    el('tbody', {}, columns.slice(0, 12).map(column => el('tr', {}, el('th', { scope: 'row' }, named(data.columns[column])),
      el('td', { class: 'n' }, shown(a, column)), el('td', { class: 'n' }, shown(b, column)))))));
}
