// Two anchors side by side.
import { badge, el, fill, named, percent } from './dom.js';
import { highest, lines } from './lines.js';

export function renderCompare(place, state, act) {
  const { model, picked, compared } = state;
  place.hidden = picked === null || compared === null || picked === compared;
  if (place.hidden) return;
  const pair = [picked, compared], title = pair.map(j => [badge(state.numberOf(j)), named(state.nameOf(j))]);
  fill(place,
    el('h3', {}, ...title[0], ' and ', ...title[1]),
    el('p', {}, `They are ${model.angle(...pair).toFixed(1)}° apart; 0° would be the same direction, 90° nothing in common.`),
    model.lines ? drawn(state, pair) : table(model.data, pair, state),
    el('button', { class: 'tool', 'data-key': 'end-compare', click: () => act({ compared: null }) }, 'End comparison'));
}

function drawn(state, pair) {
  const band = state.model.bands.has(pair[0]) ? ' The band holds 80 % of the rows that are mostly the first.' : '';
  return [lines(state, pair, highest(state.model, pair), window.innerWidth < 500 ? 280 : 560, 240), el('p', { class: 'axis' }, `The second is dashed.${band}`)];
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
      ...[one, other].map(j => el('th', { scope: 'col', class: 'n' }, badge(state.numberOf(j)), named(state.nameOf(j)))))),
    el('tbody', {}, columns.slice(0, 12).map(column => el('tr', {}, el('th', { scope: 'row' }, named(data.columns[column])),
      el('td', { class: 'n' }, shown(a, column)), el('td', { class: 'n' }, shown(b, column)))))));
}
