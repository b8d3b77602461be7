// One row and its mixture, the rows that show an anchor, the rows that fit worst, and the search for a row by name.
import { el, fill, meter, named, percent } from './dom.js';

const SHOWN = 10;

function rowButton(row, act, key) {
  return el('button', { class: 'link', 'data-key': key, click: () => act({ row }) }, named(row.name));
}

/** The picked row as a mixture. */
export function renderRow(place, state) {
  const { row, rowMixture: mixture, fit } = state;
  if (!row) {
    fill(place, el('p', { class: 'told' }, 'Pick a row in the plot or find one by name to see its mixture.'));
    return;
  }
  const order = [...fit.ids.keys()].sort((a, b) => mixture.weights[b] - mixture.weights[a]).filter(j => mixture.weights[j] > 0.005);
  fill(place,
    el('h4', {}, named(row.name)),
    el('p', { class: 'share' }, `row ${row.index.toLocaleString('en')} · ${percent(mixture.explained)} explained`),
    el('ul', { class: 'mixture' }, order.slice(0, 12).map(j => el('li', {},
      el('span', { class: 'number' }, String(state.step.anchors.indexOf(fit.ids[j]) + 1)),
      named(state.nameOf(fit.ids[j])), ' ', el('span', { class: 'n' }, percent(mixture.weights[j])), meter(mixture.weights[j])))),
    row.text ? el('p', { class: 'text', dir: 'auto' }, row.text) : null);
}

/** The rows in which the picked anchor has the largest share. */
export function renderTypical(place, state, act) {
  const { model, fit, picked } = state, j = fit.ids.indexOf(picked);
  if (j < 0) {
    fill(place);
    return;
  }
  const best = [...fit.mixtures.keys()].sort((a, b) => fit.mixtures[b].weights[j] - fit.mixtures[a].weights[j]).slice(0, 5);
  fill(place, el('h4', {}, 'Rows that show ', named(state.nameOf(picked))), el('ol', { class: 'found' }, best.map(at => {
    const row = model.row(at);
    return el('li', {}, rowButton(row, act, `typical-${at}`), ' ', el('span', { class: 'n' }, percent(fit.mixtures[at].weights[j])),
      row.text ? el('p', { class: 'text', dir: 'auto' }, row.text) : null);
  })));
}

/** The kept rows of which least is explained. */
export function renderWorst(place, state, act) {
  const { model, fit } = state;
  const worst = [...fit.mixtures.keys()].sort((a, b) => fit.mixtures[a].explained - fit.mixtures[b].explained).slice(0, SHOWN);
  fill(place, el('table', {},
    el('caption', {}, `Of ${model.count.toLocaleString('en')} rows in this page`),
    el('thead', {}, el('tr', {}, el('th', { scope: 'col' }, 'row'), el('th', { scope: 'col', class: 'n' }, 'explained'), el('th', { scope: 'col' }, 'mostly'))),
    el('tbody', {}, worst.map(at => {
      const { weights, explained, empty } = fit.mixtures[at], row = model.row(at);
      const most = empty ? null : fit.ids[weights.indexOf(Math.max(...weights))];
      return el('tr', {}, el('th', { scope: 'row' }, rowButton(row, act, `worst-${at}`)),
        el('td', { class: 'n' }, percent(explained)), el('td', {}, most === null ? '' : named(state.nameOf(most))));
    }))));
}

/** Rows of the sample whose name holds the words, whatever the case. */
export function findRows(model, words, most = SHOWN) {
  const sought = words.trim().toLocaleLowerCase(), found = [];
  if (!sought) return found;
  for (let at = 0; at < model.count && found.length < most; at++) {
    if (model.rowName(at).toLocaleLowerCase().includes(sought) || String(model.data.rows.index[at]) === sought) found.push(model.row(at));
  }
  return found;
}

/** The rows that were found; `where` says what was searched, if that is not all rows. */
export function renderFound(place, found, words, act, where = '') {
  if (!words.trim()) fill(place);
  else if (!found.length) fill(place, el('p', { class: 'told' }, `No row of this name${where}.`));
  else fill(place, el('ul', { class: 'found' }, found.map(row => el('li', {}, rowButton(row, act, `found-${row.index}`)))));
}
