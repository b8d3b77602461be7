// The explorer: one state, changed by `act`, and drawn anew after every change.
import { renderCards } from './cards.js';
import { renderCompare } from './compare.js';
import { el, fill, percent } from './dom.js';
import { ask, follow } from './live.js';
import { renderMaps } from './maps.js';
import { recall, remember } from './memory.js';
import { Model } from './model.js';
import { plotNote, renderCurve, renderPlot } from './plot.js';
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

  /** Other data or another k: what was picked stays picked where the same row is an anchor still. */
  move(model, k) {
    const rowOf = j => (j === null ? null : this.model.anchors[j].row);
    const rows = [this.picked, this.compared].map(rowOf);
    this.model = model;
    this.k = k;
    [this.picked, this.compared] = rows.map(row => this.step.anchors.find(j => model.anchors[j].row === row) ?? null);
    this.renaming = null;
    const place = this.row === null ? -1 : model.data.rows.index.indexOf(this.row.index);
    this.row = place < 0 ? null : model.row(place); // a row that the server sent has products with other anchors
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
    const { noun } = model.data;
    const on = off ? `${count} of ${step.k} ${noun}s` : count === 1 ? `1 ${noun}` : `${count} ${noun}s`;
    if (model.counts) return `${on}. Every document is a mixture of them. (Of the squares of its counts, most of which is chance, they make up ${about}${percent(1 - this.left)}.)`;
    const sample = off && model.data.sampled ? ` of the ${model.count.toLocaleString('en')} rows in this page` : ' of the data';
    return `${on} ${count === 1 ? 'explains' : 'explain'} ${about}${percent(1 - this.left)}${sample}; ${percent(this.left)} is left over.`;
  }

  render(changed = []) {
    this.compute();
    at('k-shown').textContent = this.step.k;
    at('relevance-shown').textContent = this.relevance.toFixed(2);
    at('summary').textContent = this.summary();
    fill(at('sure'), this.step.stability ? el('p', {}, `Other data from the same source: ${this.step.stability.statement}.`) : '');
    at('curve').hidden = this.model.steps.length < 2 || this.model.counts;
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
}

/** Connect the controls; returns what puts the slider where the explorer is. */
function listen(explorer, ks, seek, find) {
  const slider = at('k');
  slider.max = ks.length - 1;
  const place = () => {
    slider.value = ks.indexOf(explorer.k);
    slider.setAttribute('aria-valuetext', `${explorer.k} ${explorer.model.data.noun}s`);
  };
  place();
  at('curve').addEventListener('click', place);
  slider.addEventListener('input', () => {
    const k = ks[Number(slider.value)];
    slider.setAttribute('aria-valuetext', `${k} anchors`);
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
  const { model } = explorer, kept = model.count.toLocaleString('en');
  const where = model.count < model.data.shape[0] ? ` among the ${kept} rows in this page; “fastanchors explore” finds every row` : '';
  const find = words => renderFound(at('found'), findRows(explorer.model, words), words, explorer.act, where);
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
    explorer.act({ model: new Model(data) });
    place();
    steady();
  };
  const steady = async () => { // seconds of work: shown when it is there
    const { model } = explorer, step = model.steps.at(-1);
    const found = await ask('stability', { k: step.k, rule: rule.value }).catch(() => ({}));
    if (explorer.model !== model || !found.stability) return;
    step.stability = found.stability;
    explorer.act({ steady: true });
  };
  const seek = k => {
    status(`Seeking ${k} anchors …`);
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
    const found = words.trim() ? (await ask('find', { q: words.slice(0, 200) })).rows : [];
    if (number === finding) renderFound(at('found'), found, words, pick);
  };
  const place = listen(explorer, Array.from({ length: live.most }, (_, i) => i + 1), soon, find);
  rule.addEventListener('change', () => seek(explorer.k));
  const changed = async () => {
    await load(explorer.k);
    status(`The rows have changed: this is how they are at ${new Date().toLocaleTimeString()}.`);
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
