// The cards of the anchors: picked, renamed, compared and switched off here.
import { badge, el, fill, meter, named, percent, plural, tone } from './dom.js';
import { highest, lines } from './lines.js';
import { relevantWords } from './words.js';

const FEW = 3; // rows; fewer are a warning
const VERDICTS = { firm: 'firm', loose: 'moves in other data', noise: 'not found again in other data' };

export function renderCards(place, state, act) {
  const { model, step, fit } = state, top = model.lines ? highest(model, step.anchors) : 1;
  fill(place, step.anchors.map((j, number) => card(state, act, j, number, fit.ids.indexOf(j), top)));
}

function card(state, act, j, number, at, top) {
  const off = at < 0;
  const kind = `${off ? 'off ' : ''}${state.picked === j ? 'picked ' : ''}${state.compared === j ? 'compared' : ''}`;
  return el('li', { class: kind.trim(), style: tone(number) },
    state.renaming === j ? renameField(state, act, j) : heading(state, act, j, number),
    el('p', { class: 'share' }, off ? 'turned off' : shareOf(state, at)),
    meter(off ? 0 : state.model.counts ? state.fit.leads[at] : state.shares[at]),
    facts(state, j, number),
    el('div', { class: 'content' }, content(state, j, top)),
    el('div', { class: 'tools' },
      tool(`rename-${j}`, 'Rename', () => act({ renaming: j })),
      tool(`compare-${j}`, 'Compare', () => act(compared(state, j)), state.compared === j),
      tool(`off-${j}`, off ? 'Turn on' : 'Turn off', () => act({ toggle: j }), off)));
}

/** What an anchor explains, and how many rows it has the largest share of; of topics only the latter means much. */
function shareOf({ model, shares, fit }, at) {
  const leads = percent(fit.leads[at]);
  return model.counts ? `leads ${leads} of the ${model.data.rowNoun}s` : `explains ${percent(shares[at])} · leads ${leads}`;
}

/** Which row an anchor is, how far it moves in other data, and how many rows are copies of it. */
function facts(state, j, number) {
  const { stability } = state.step, verdict = stability?.verdicts[number], support = stability?.support?.[number];
  return el('ul', { class: 'verdict' },
    rowOf(state, j) ? el('li', {}, rowOf(state, j)) : null,
    verdict ? el('li', { class: verdict }, VERDICTS[verdict] ?? verdict) : null,
    support === undefined ? null : el('li', { class: support < FEW && stability.warnings.length ? 'few' : null }, `supported by ${plural(support, state.model.data.rowNoun)}`));
}

/** Which row an anchor is, or is near to, where its name does not say so. */
function rowOf(state, j) {
  const anchor = state.model.anchors[j], row = anchor.place ?? `row ${anchor.row.toLocaleString('en')}`;
  if (state.nameOf(j) === row) return anchor.point ? 'a mean of rows near it' : '';
  if (anchor.point) return `nearest: ${row}`;
  return state.nameOf(j) !== anchor.name || state.model.data.named ? row : '';
}

/** The second anchor of a comparison; the first is the one picked. */
function compared(state, j) {
  if (state.compared === j) return { compared: null };
  if (state.picked === null || state.picked === j) {
    const other = state.step.anchors.find(each => each !== j);
    return { picked: j, compared: other ?? null };
  }
  return { compared: j };
}

function heading(state, act, j, number) {
  return el('h3', {}, el('button', {
    class: 'pick', 'data-key': `pick-${j}`, 'aria-pressed': String(state.picked === j),
    click: () => act({ picked: state.picked === j ? null : j }),
  }, badge(number), named(state.nameOf(j))));
}

function renameField(state, act, j) {
  const input = el('input', {
    type: 'text', value: state.nameOf(j), maxlength: '80', dir: 'auto', 'data-key': `name-${j}`,
    'aria-label': `New name of ${state.model.data.noun} ${state.numberOf(j) + 1}`,
    keydown: event => {
      if (event.key === 'Escape') act({ renaming: null });
    },
  });
  requestAnimationFrame(() => { input.focus(); input.select(); });
  return el('form', { class: 'rename', submit: event => {
    event.preventDefault();
    act({ rename: [j, input.value] });
  } }, input, el('button', { type: 'submit' }, 'Save'));
}

function tool(key, label, click, pressed = false) {
  return el('button', { class: pressed ? 'tool pressed' : 'tool', 'data-key': key, 'aria-pressed': String(pressed), click }, label);
}

/** What an anchor looks like: a line over the columns, or its heaviest columns or words. */
function content(state, j, top) {
  const { data, lines: drawn } = state.model;
  if (drawn) return lines(state, [j], top, 280, 140);
  const features = data.overall ? relevantWords(data, j, state.relevance, 10) : data.features[j].slice(0, 8);
  const most = Math.max(...features.map(([, share]) => share)) || 1;
  return el('table', {},
    el('caption', {}, data.overall ? 'Relevant words' : data.kind === 'cells' ? 'Heaviest genes' : 'Heaviest columns'),
    el('tbody', {}, features.map(([column, share]) => el('tr', {},
      el('th', { scope: 'row', title: data.columns[column] }, named(data.columns[column])),
      el('td', { class: 'n' }, percent(share)),
      el('td', { class: 'meter', 'aria-hidden': 'true' },
        el('span', { style: `width:${((100 * share) / most).toFixed(1)}%` }))))));
}
