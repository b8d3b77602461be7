// One row and its mixture, the rows that show an anchor, the rows that fit worst, and the search for a row by name.
import { badge, el, fill, meter, named, percent, plural, tone } from './dom.js';

const SHOWN = 10;

function rowButton(row, act, key) {
  return el('button', { class: 'link', 'data-key': key, click: () => act({ row }) }, named(row.name));
}

/** The picked row as a mixture. */
export function renderRow(place, state) {
  const { row, rowMixture: mixture, fit } = state, noun = state.model.data.rowNoun;
  if (!row) {
    fill(place, el('p', { class: 'told' }, `Pick a ${noun} in the plot or find one by name to see its mixture.`));
    return;
  }
  const order = [...fit.ids.keys()].sort((a, b) => mixture.weights[b] - mixture.weights[a]).filter(j => mixture.weights[j] > 0.005);
  const number = j => state.numberOf(fit.ids[j]), index = `row ${row.index.toLocaleString('en')}`;
  fill(place,
    el('h4', {}, named(row.name)),
    el('p', { class: 'share' }, `${row.name === index ? '' : `${index} · `}${percent(mixture.explained)} explained`),
    el('div', { class: 'stack', 'aria-hidden': 'true' }, order.map(j => el('span', { style: `${tone(number(j))};flex-grow:${mixture.weights[j].toFixed(4)}` }))),
    mixture.empty ? el('p', { class: 'told' }, `None of the ${state.model.data.noun}s is in it.`) : null,
    el('ul', { class: 'mixture' }, order.slice(0, 12).map(j => el('li', {},
      badge(number(j)), named(state.nameOf(fit.ids[j]), 'what'), el('span', { class: 'n' }, percent(mixture.weights[j]))))),
    row.text ? el('p', { class: 'text', dir: 'auto' }, row.text) : null);
}

/** The rows in which the picked anchor has the largest share. */
export function renderTypical(place, state, act) {
  const { model, fit, picked } = state, j = fit.ids.indexOf(picked);
  if (j < 0) {
    renderPurest(place, state, act);
    return;
  }
  const best = [...fit.mixtures.keys()].sort((a, b) => fit.mixtures[b].weights[j] - fit.mixtures[a].weights[j]).slice(0, 5);
  fill(place, el('h4', {}, `${model.data.rowNoun[0].toUpperCase()}${model.data.rowNoun.slice(1)}s that show `, named(state.nameOf(picked))), el('ol', { class: 'found' }, best.map(at => {
    const row = model.row(at);
    return el('li', {}, el('span', { class: 'pair-of' }, rowButton(row, act, `typical-${at}`), el('span', { class: 'n' }, percent(fit.mixtures[at].weights[j]))),
      row.text ? el('p', { class: 'text', dir: 'auto' }, row.text) : null);
  })));
}

/** While nothing is picked: for each anchor the row that shows it most. */
function renderPurest(place, state, act) {
  const { model, fit } = state, { noun, rowNoun } = model.data;
  const purest = fit.ids.map((_, j) => fit.mixtures.reduce((best, mixture, at) => (mixture.weights[j] > fit.mixtures[best].weights[j] ? at : best), 0));
  fill(place, state.row ? null : [el('h4', {}, `The ${rowNoun} that shows each ${noun} most`), el('ul', { class: 'found' }, purest.slice(0, SHOWN).map((at, j) =>
    el('li', { class: 'pair-of' }, badge(state.numberOf(fit.ids[j])), rowButton(model.row(at), act, `purest-${j}`), el('span', { class: 'n' }, percent(fit.mixtures[at].weights[j])))))]);
}

/** Where the worst rows were sought. */
function searched({ model }) {
  const { rows, shape, rowNoun, steps } = model.data, [all] = shape;
  if (model.count >= all) return `Of all ${plural(all, rowNoun)}`;
  const more = rows.searched ? `; among them are the worst of ${rows.searched < all ? plural(rows.searched, rowNoun) : 'all'} for ${plural(steps.at(-1).k, model.data.noun)}` : '';
  return `Of the ${plural(model.count, rowNoun)} in this page, out of ${all.toLocaleString('en')}${more}`;
}

/** The kept rows of which least is explained. */
export function renderWorst(place, state, act) {
  const { model, fit } = state;
  const worst = [...fit.mixtures.keys()].sort((a, b) => fit.mixtures[a].explained - fit.mixtures[b].explained).slice(0, SHOWN);
  const most = worst.length ? 1 - fit.mixtures[worst[0]].explained || 1 : 1;
  fill(place, el('table', { class: 'worst' },
    el('caption', {}, searched(state)),
    el('thead', {}, el('tr', {}, el('th', { scope: 'col' }, model.data.rowNoun), el('th', { scope: 'col', class: 'n' }, 'not explained'),
      el('td', {}), el('th', { scope: 'col' }, 'mostly'))),
    el('tbody', {}, worst.map(at => {
      const { explained, empty, most: j } = fit.mixtures[at], row = model.row(at), id = fit.ids[j];
      return el('tr', {}, el('th', { scope: 'row' }, rowButton(row, act, `worst-${at}`)),
        el('td', { class: 'n' }, percent(1 - explained)), el('td', { class: 'bar', 'aria-hidden': 'true' }, meter((1 - explained) / most)),
        el('td', {}, ...(empty ? ['nothing'] : [badge(state.numberOf(id)), named(state.nameOf(id))])));
    }))));
}

/** Rows of the page whose name contains the words, in upper or lower case; exact matches come first. */
export function findRows(model, words) {
  const sought = words.trim().toLocaleLowerCase(), same = [], found = [];
  if (!sought) return found;
  for (let at = 0; at < model.count; at++) {
    const name = model.rowName(at).toLocaleLowerCase();
    if (name === sought || String(model.data.rows.index[at]) === sought) same.push(at);
    else if (name.includes(sought)) found.push(at);
  }
  return [...same, ...found].map(at => model.row(at));
}

/** The rows that were found and their number; `searched` is the number of names searched, if not all. */
export function renderFound(place, { rows, count, searched }, words, act, noun) {
  if (!words.trim()) {
    fill(place);
    return;
  }
  const among = searched ? ` among the first ${searched.toLocaleString('en')}` : '';
  const found = `${plural(count, noun)}${among}${count > SHOWN ? `; the first ${SHOWN} are` : ''}:`;
  fill(place, el('p', { class: 'axis' }, count ? found : `No ${noun} of this name or number${among}.`),
    el('ul', { class: 'found' }, rows.slice(0, SHOWN).map(row => el('li', {}, rowButton(row, act, `found-${row.index}`)))));
}
