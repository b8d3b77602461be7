// The explorer: one state, changed by `act`, and drawn anew after every change.
import { renderCards } from './cards.js';
import { renderCompare } from './compare.js';
import { renderCurve } from './curve.js';
import { el, fill, percent, plural } from './dom.js';
import { ask, follow } from './live.js';
import { renderMaps } from './maps.js';
import { recall, remember } from './memory.js';
import { Model } from './model.js';
import { plotNote, renderPlot } from './plot.js';
import { findRows, renderFound, renderRow, renderTypical, renderWorst } from './rows.js';
import { renderTopicMap } from './words.js';

const at = id => document.getElementById(id);

export class Explorer {
  constructor(data) {
    this.names = new Map(); // by row, so that a name holds for every k
    this.off = new Set(); // rows of the anchors that are switched off
    this.picked = this.compared = this.renaming = this.row = null;
    this.relevance = Number(at('relevance').value);
    this.plot = data.rows.place ? 'embedding' : 'mixtures';
    this.act = this.act.bind(this);
    this.model = new Model(data);
    this.k = data.steps.at(-1).k;
  }

  get step() { return this.model.steps.find(step => step.k === this.k); }

  get ids() { return this.step.anchors.filter(j => !this.off.has(this.model.anchors[j].row)); }

  nameOf(j) {
    const anchor = this.model.anchors[j];
    return this.names.get(anchor.row) ?? anchor.name;
  }

  /** The number of an anchor among those shown, from 0 on. */
  numberOf(j) { return this.step.anchors.indexOf(j); }

  /** Other data or another k: what was picked stays picked where the same row is an anchor still. */
  move(model, k) {
    const rowOf = j => (j === null ? null : this.model.anchors[j].row);
    const rows = [this.picked, this.compared].map(rowOf);
    const same = model === this.model;
    this.model = model;
    this.k = k;
    [this.picked, this.compared] = rows.map(row => this.step.anchors.find(j => model.anchors[j].row === row) ?? null);
    this.renaming = null;
    const place = this.row === null ? -1 : model.data.rows.index.indexOf(this.row.index);
    if (place >= 0) this.row = model.row(place);
    else if (!same) this.row = null; // a row that the server sent has coordinates among other anchors
  }

  act(change) {
    if ('model' in change) this.move(change.model, change.model.steps.at(-1).k);
    if ('k' in change && this.model.steps.some(step => step.k === change.k)) this.move(this.model, change.k);
    if ('toggle' in change) this.toggle(this.model.anchors[change.toggle].row);
    if ('rename' in change) this.rename(...change.rename);
    if (['k', 'toggle', 'rename', 'model'].some(key => key in change)) remember(this);
    for (const key of ['picked', 'compared', 'renaming', 'row', 'relevance', 'plot']) if (key in change) this[key] = change[key];
    this.render(Object.keys(change));
  }

  toggle(row) {
    if (this.off.has(row)) this.off.delete(row);
    else if (this.ids.length > 1) this.off.add(row);
  }

  rename(j, name) {
    const { row } = this.model.anchors[j], text = name.trim();
    if (text) this.names.set(row, text);
    else this.names.delete(row);
    this.renaming = null;
  }

  /** What the anchors that are on explain: of all rows, or where some are off, of the kept rows. */
  compute() {
    if (!this.ids.length) this.off.clear();
    this.fit = this.model.fit(this.ids);
    const whole = this.ids.length === this.step.anchors.length;
    this.shares = whole ? this.step.shares : this.fit.shares;
    this.left = whole ? this.step.left : this.fit.left;
    this.rowMixture = this.row ? this.model.mixture(this.row, this.fit.ids) : null;
  }

  summary() {
    const { step, model } = this, off = step.k - this.ids.length;
    const count = this.ids.length, about = model.data.sampled ? 'about ' : '';
    const { noun, rowNoun } = model.data;
    const on = off ? `${count} of ${plural(step.k, noun)}` : plural(count, noun);
    if (model.counts) return `${on}. Every document is a mixture of them. (Of the squares of its counts, most of which is chance, they make up ${about}${percent(1 - this.left)}.)`;
    const sample = off && model.data.sampled ? ` of ${plural(model.even, rowNoun)} in this page` : ' of the data';
    return `${on} ${count === 1 ? 'explains' : 'explain'} ${about}${percent(1 - this.left)}${sample}; ${percent(this.left)} is left over.`;
  }

  /** Whether other data would give the same anchors. */
  sure() {
    const { stability } = this.step, { data } = this.model;
    if (stability) return `Other data from the same source: ${stability.statement}.`;
    if (data.live) return this.waiting ? `Computing the stability of the ${data.noun}s …` : '';
    return `The stability of these ${data.noun}s is not known.`;
  }

  /** Which anchors are noise, have few rows, or are too many. */
  doubts() {
    const { noun } = this.model.data, warnings = this.step.stability?.warnings ?? [];
    return warnings.map(words => `${words[0].toUpperCase()}${words.slice(1)}.`.replace(/anchor/gi, each => (each[0] === 'A' ? noun[0].toUpperCase() + noun.slice(1) : noun)));
  }

  render(changed = []) {
    this.compute();
    at('k-shown').textContent = this.step.k;
    at('relevance-shown').textContent = this.relevance.toFixed(2);
    at('summary').textContent = this.summary();
    fill(at('sure'), el('p', {}, this.sure()), el('ul', {}, this.doubts().map(doubt => el('li', {}, doubt))));
    at('curve').hidden = this.model.steps.length < 2;
    renderCurve(at('curve'), this, this.act);
    renderCards(at('cards'), this, this.act);
    renderCompare(at('compare'), this, this.act);
    if (changed.join() === 'relevance') return;
    renderPlot(at('plot'), this, this.act);
    at('plot-note').textContent = plotNote(this);
    renderMaps(at('maps'), this, this.act);
    renderTopicMap(at('topic-map'), this, this.act);
    renderRow(at('row'), this);
    renderTypical(at('typical'), this, this.act);
    renderWorst(at('worst'), this, this.act);
  }
}

/** The parts that this kind of data has. */
function showFor(data) {
  at('relevance-control').hidden = !data.overall;
  at('topic-map-part').hidden = !data.steps.some(step => step.map);
  at('maps-part').hidden = !data.rows.grid;
  at('plot-control').hidden = !data.rows.place;
  const { noun, rowNoun: row } = data, rows = `${row[0].toUpperCase()}${row.slice(1)}s`;
  at('how-many').textContent = `How many ${noun}s: `;
  at('plot-heading').textContent = `${rows} among the ${noun}s`;
  at('worst-heading').textContent = `${rows} that fit worst`;
  at('find-label').textContent = `Find a ${row} by name or number`;
  at('how').textContent = `Move the slider for fewer or more ${noun}s. Pick one to see its ${row}s, or pick a ${row} to see its mixture. Every ${noun} can be renamed, compared with another and turned off; the shares are then recomputed.`;
}

/** Connect the controls; returns what puts the slider where the explorer is. */
function listen(explorer, ks, seek, find) {
  const slider = at('k');
  slider.max = ks.length - 1;
  [at('k-least').textContent, at('k-most').textContent] = [ks[0], ks.at(-1)];
  const place = () => {
    slider.value = ks.indexOf(explorer.k);
    slider.setAttribute('aria-valuetext', plural(explorer.k, explorer.model.data.noun));
  };
  place();
  at('curve').addEventListener('click', place);
  slider.addEventListener('input', () => {
    const k = ks[Number(slider.value)];
    slider.setAttribute('aria-valuetext', plural(k, explorer.model.data.noun));
    at('k-shown').textContent = k;
    if (explorer.model.steps.some(step => step.k === k)) explorer.act({ k });
    else seek(k);
  });
  at('relevance').addEventListener('input', () => explorer.act({ relevance: Number(at('relevance').value) }));
  at('plot-kind').addEventListener('change', () => explorer.act({ plot: at('plot-kind').value }));
  at('find').addEventListener('input', () => find(at('find').value));
  at('find-form').addEventListener('submit', event => {
    event.preventDefault();
    at('found').querySelector('button')?.click();
  });
  return place;
}

/** A page from disk: all there is to find is in it. */
function startAlone(explorer) {
  const { model } = explorer, { shape: [all], rowNoun } = model.data;
  if (model.count < all) {
    at('find-note').textContent = `Finds the ${plural(model.count, rowNoun)} kept in this page, out of ${all.toLocaleString('en')}; “fastanchors explore” finds every one.`;
  }
  const find = words => {
    const rows = findRows(explorer.model, words);
    renderFound(at('found'), { rows, count: rows.length }, words, explorer.act, rowNoun);
  };
  listen(explorer, explorer.model.steps.map(step => step.k), () => {}, find);
}

/** A page that is served: what it does not hold is asked for. */
function startLive(explorer, live, wanted) {
  const status = words => { at('live-status').textContent = words; };
  const rule = at('rule');
  let asked = 0, waiting, finding = 0;
  fill(rule, live.rules.map(([value, label]) => el('option', { value }, label)));
  rule.value = live.rule;
  at('live').hidden = false;
  const load = async k => {
    const number = ++asked;
    const data = await ask('seek', { k, rule: rule.value });
    if (number !== asked) return;
    status(data.note ?? '');
    const { row } = explorer;
    explorer.act({ model: new Model({ ...data, live }) });
    if (row && !explorer.row) pick({ row });
    place();
    steady();
  };
  const steady = async () => { // seconds of work: shown when it is there
    const { model } = explorer, number = asked;
    explorer.waiting = true;
    explorer.act({ steady: true });
    const found = await ask('stability', { k: model.steps.at(-1).k, rule: rule.value }).catch(() => ({}));
    if (number !== asked || explorer.model !== model) return;
    explorer.waiting = false;
    for (const step of model.steps) step.stability = found.steps?.[step.k];
    explorer.act({ steady: true });
  };
  const seek = k => {
    status(`Seeking ${plural(k, explorer.model.data.noun)} …`);
    return load(k).catch(error => status(error.message));
  };
  const soon = k => { clearTimeout(waiting); waiting = setTimeout(() => seek(k), 80); };
  const pick = async ({ row }) => {
    try {
      explorer.act({ row: await ask('row', { index: row.index, k: explorer.model.steps.at(-1).k, rule: rule.value }) });
    } catch (error) {
      status(error.message);
    }
  };
  const find = async words => {
    const number = ++finding;
    try {
      const found = words.trim() ? await ask('find', { q: words.slice(0, 200) }) : { rows: [], count: 0 };
      if (number === finding) renderFound(at('found'), found, words, pick, explorer.model.data.rowNoun);
    } catch (error) {
      status(error.message);
    }
  };
  const place = listen(explorer, Array.from({ length: live.most }, (_, i) => i + 1), soon, find);
  rule.addEventListener('change', () => seek(explorer.k));
  const changed = async () => {
    status(`The rows have changed: computing the ${explorer.model.data.noun}s …`);
    await load(explorer.k);
    status(`The rows have changed; updated at ${new Date().toLocaleTimeString()}.`);
  };
  follow(live.revision, changed, status);
  if (wanted !== null && wanted !== explorer.k && wanted >= 1 && wanted <= live.most) seek(wanted);
  else steady();
}

export function start() {
  const data = JSON.parse(at('data').textContent), explorer = new Explorer(data);
  showFor(data);
  for (const id of ['anchors', 'shares', 'simplex']) if (at(id)) at(id).hidden = true;
  at('explore').hidden = false;
  at('plot-kind').value = explorer.plot;
  const wanted = recall(explorer);
  if (data.live) startLive(explorer, data.live, wanted);
  else startAlone(explorer);
  explorer.render();
}
