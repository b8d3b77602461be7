// The cards of the anchors: picked, renamed, compared and switched off here.
import { draw, el, fill, meter, named, percent, text } from './dom.js';
import { relevantWords } from './words.js';

const VERDICTS = { firm: 'firm', loose: 'moves in other data', noise: 'not found again in other data' };

export function renderCards(place, state, act) {
  const { model, step, fit } = state;
  const top = Math.max(...step.anchors.flatMap(j => model.data.lines?.[j] ?? [0])) || 1;
  fill(place, step.anchors.map((j, at) => card(state, act, j, at, fit.ids.indexOf(j), top)));
}

function card(state, act, j, number, at, top) {
  const { model, step } = state, off = at < 0, anchor = model.anchors[j];
  const verdict = step.stability?.verdicts[number];
  const kind = `${off ? 'off ' : ''}${state.picked === j ? 'picked ' : ''}${state.compared === j ? 'compared' : ''}`;
  return el('li', { class: kind.trim() },
    state.renaming === j ? renameField(state, act, j) : heading(state, act, j, number),
    el('p', { class: 'share' }, off ? 'turned off' : shareOf(state, at)),
    off ? null : meter(model.counts ? state.fit.leads[at] : state.shares[at]),
    el('p', { class: 'verdict' }, rowOf(state, j, anchor)),
    verdict ? el('p', { class: `verdict ${verdict}` }, verdictOf(step.stability, number)) : null,
    el('div', { class: 'content' }, content(state, j, top)),
    el('div', { class: 'tools' },
      tool(`rename-${j}`, 'Rename', () => act({ renaming: j })),
      tool(`compare-${j}`, 'Compare', () => act(compared(state, j)), state.compared === j),
      tool(`off-${j}`, off ? 'Turn on' : 'Turn off', () => act({ toggle: j }), off)));
}

/** What an anchor explains, and how many rows it has the largest share of; of topics only the latter means much. */
function shareOf({ model, shares, fit }, at) {
  const leads = percent(fit.leads[at]);
  return model.counts ? `leads ${leads} of the documents` : `explains ${percent(shares[at])} · leads ${leads}`;
}

/** How far an anchor moves in other data, and how many rows are copies of it. */
function verdictOf({ verdicts, support }, number) {
  const rows = support[number] === 1 ? '1 row' : `${support[number].toLocaleString('en')} rows`;
  return `${VERDICTS[verdicts[number]] ?? verdicts[number]}, supported by ${rows}`;
}

/** Which row an anchor is, or is near to, where its name does not say so. */
function rowOf(state, j, anchor) {
  const row = `row ${anchor.row.toLocaleString('en')}`;
  if (anchor.point) return `nearest ${row}`;
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
  }, el('span', { class: 'number' }, String(number + 1)), named(state.nameOf(j))));
}

function renameField(state, act, j) {
  const input = el('input', {
    type: 'text', value: state.nameOf(j), maxlength: '80', dir: 'auto', 'data-key': `name-${j}`,
    'aria-label': `New name of anchor ${state.step.anchors.indexOf(j) + 1}`,
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
  const { data } = state.model;
  if (data.lines) return lines(state, [j], top, 130);
  const features = data.overall ? relevantWords(data, j, state.relevance, 10) : data.features[j].slice(0, 8);
  const most = Math.max(...features.map(([, share]) => share)) || 1;
  return el('table', {},
    el('caption', {}, data.overall ? 'Relevant words' : data.kind === 'cells' ? 'Heaviest genes' : 'Heaviest columns'),
    el('tbody', {}, features.map(([column, share]) => el('tr', {},
      el('th', { scope: 'row' }, named(data.columns[column])),
      el('td', { class: 'n' }, percent(share)),
      el('td', { class: 'meter', 'aria-hidden': 'true' },
        el('span', { style: `width:${((100 * share) / most).toFixed(1)}%` }))))));
}

/** The places 0, 1, … without those that are dead, in pieces that hang together. */
function segments(count, dead) {
  const pieces = [[]];
  for (let at = 0; at < count; at++) {
    if (!dead.includes(at)) pieces.at(-1).push(at);
    else if (pieces.at(-1).length) pieces.push([]);
  }
  return pieces.filter(piece => piece.length);
}

/** Anchors as lines over the columns, the first with its band of spread. */
export function lines(state, ids, top, height) {
  const { axis, dead, lines: values, spread } = state.model.data, width = 360, left = 44, base = height - 20;
  const last = axis.at[axis.at.length - 1] || 1;
  const x = at => left + ((width - left - 6) * axis.at[at]) / last;
  const y = value => 10 + (base - 10) * (1 - Math.min(value, top * 1.05) / top);
  const pieces = segments(axis.at.length, dead);
  const points = (row, piece) => piece.map(at => `${x(at).toFixed(1)} ${y(row[at]).toFixed(1)}`);
  const path = row => pieces.map(piece => `M${points(row, piece).join('L')}`).join('');
  const area = ([low, high]) => pieces.map(piece => `M${[...points(high, piece), ...points(low, piece).reverse()].join('L')}Z`).join('');
  const label = at => (axis.labels ? axis.labels[at] : String(axis.at[at]));
  const band = spread[ids[0]];
  const name = ids.map(j => state.nameOf(j)).join(' and ');
  return draw('svg', { viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': `Values of ${name} over the columns` },
    draw('path', { class: 'grid', d: `M${left} ${base}H${width - 6}M${left} 10H${width - 6}` }),
    band ? draw('path', { class: 'band', d: area(band) }) : null,
    ids.map((j, at) => draw('path', { class: at ? 'line second' : 'line', d: path(values[j]) })),
    text(left - 5, 14, Number(top.toPrecision(2)), 'end'), text(left - 5, base + 4, '0', 'end'),
    text(left, height - 5, label(0)), text(width - 6, height - 5, label(axis.at.length - 1), 'end'));
}
