// The rows among the anchors: in a polygon whose corners are the anchors, or where an embedding puts them.
import { draw, el, fill, percent, shorten, text } from './dom.js';

const WIDTH = 360, HEIGHT = 320, NAMED = 8, MOST = 1500;

/** Anchors around the polygon so that those that mix with each other are neighbours. */
export function ordered(fit) {
  const k = fit.ids.length, together = Array.from({ length: k }, () => new Float64Array(k));
  for (const { weights } of fit.mixtures) {
    for (let i = 0; i < k; i++) if (weights[i] > 0) for (let j = 0; j < k; j++) together[i][j] += weights[i] * weights[j];
  }
  const left = new Set(fit.ids.keys()), order = [];
  let next = [...left].reduce((best, i) => (together[i][i] > together[best][best] ? i : best), 0);
  while (left.size) {
    order.push(next);
    left.delete(next);
    if (left.size) next = [...left].reduce((best, j) => (together[order.at(-1)][j] > together[order.at(-1)][best] ? j : best));
  }
  return order;
}

function corners(fit) {
  const k = fit.ids.length, order = ordered(fit), places = [], middle = HEIGHT / 2 + (k === 3 ? 24 : 0);
  order.forEach((j, at) => {
    const angle = k === 2 ? Math.PI * at : -Math.PI / 2 + (2 * Math.PI * at) / k;
    places[j] = k === 1 ? [WIDTH / 2, middle] : [WIDTH / 2 + 112 * Math.cos(angle), middle + 112 * Math.sin(angle)];
  });
  return { order, places, middle };
}

/** Where rows are drawn: a function of a mixture and of the row's number in the sample (or null). */
function layout(state) {
  const { model, fit } = state;
  if (state.plot === 'embedding' && model.places) {
    const ends = [0, 1].map(axis => {
      let low = Infinity, high = -Infinity;
      for (let at = axis; at < model.places.length; at += 2) {
        low = Math.min(low, model.places[at]);
        high = Math.max(high, model.places[at]);
      }
      return [low, high - low || 1];
    });
    const size = [WIDTH, HEIGHT];
    const put = (mixture, at) => (at === null ? null : [0, 1].map(axis => {
      const share = (model.places[2 * at + axis] - ends[axis][0]) / ends[axis][1];
      return 14 + (axis ? 1 - share : share) * (size[axis] - 28);
    }));
    return { put, backdrop: [] };
  }
  const { order, places, middle } = corners(fit);
  const put = mixture => [0, 1].map(axis => mixture.weights.reduce((sum, w, j) => sum + w * places[j][axis], 0));
  const outline = order.concat(order[0]).map(j => places[j].map(v => v.toFixed(1)).join(' ')).join('L');
  const backdrop = fit.ids.length > 1 ? [draw('path', { class: 'hull', d: `M${outline}` })] : [];
  return { put, backdrop, corners: order.map(j => corner(state, j, places[j], middle)) };
}

function corner(state, j, [x, y], middle) {
  const id = state.fit.ids[j], number = state.step.anchors.indexOf(id) + 1, name = state.nameOf(id);
  const parts = [
    draw('title', {}, `${number}. ${name}`),
    draw('circle', { cx: x.toFixed(1), cy: y.toFixed(1), r: 9.5 }),
    text(x.toFixed(1), (y + 4).toFixed(1), number, 'middle'),
  ];
  const group = draw('g', {
    class: `corner${state.picked === id ? ' picked' : ''}`,
    click: event => { event.stopPropagation(); state.act({ picked: state.picked === id ? null : id }); },
  }, parts);
  if (state.fit.ids.length > NAMED) return group;
  const label = shorten(name, 24), half = Math.min(WIDTH / 2, 3.3 * label.length + 2);
  const at = Math.min(Math.max(x, half), WIDTH - half);
  return draw('g', {}, group, text(at.toFixed(1), (y + (y > middle + 5 ? 24 : -15)).toFixed(1), label, 'middle', 'name'));
}

/** How strongly a row is marked: by the share of the picked anchor, or by what is explained of it. */
function look(state, mixture) {
  if (state.picked === null || !state.fit.ids.includes(state.picked)) {
    return mixture.explained >= 0.5 ? { class: 'p' } : { class: 'q' };
  }
  const share = mixture.weights[state.fit.ids.indexOf(state.picked)];
  return { class: 'p', style: `fill-opacity:${(0.06 + 0.84 * share).toFixed(2)}`, r: share > 0.5 ? 4 : 3 };
}

export function renderPlot(place, state, act) {
  const { model, fit } = state, step = Math.ceil(model.count / MOST), { put, backdrop, corners: marks } = layout(state);
  const drawn = [];
  for (let at = 0; at < model.count; at += step) {
    const mixture = fit.mixtures[at];
    if (mixture.empty && state.plot !== 'embedding') continue;
    drawn.push({ at, where: put(mixture, at), mixture });
  }
  const circles = drawn.map(({ where: [x, y], mixture }) =>
    draw('circle', { cx: x.toFixed(1), cy: y.toFixed(1), r: 3, ...look(state, mixture) }));
  const ring = state.row ? put(state.rowMixture, state.row.at ?? null) : null;
  const pick = at => act({ row: model.row(at) });
  const picture = draw('svg', {
    viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: 'img', tabindex: '0', 'data-key': 'plot',
    'aria-label': `${drawn.length} rows among ${fit.ids.length} anchors; arrow keys go from row to row`,
    pointerdown: event => {
      const at = nearest(picture, event, drawn);
      if (at !== null) pick(at);
    },
    keydown: event => {
      const move = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (!move || !drawn.length) return;
      event.preventDefault();
      const now = drawn.findIndex(({ at }) => at === state.row?.at);
      pick(drawn[(now + move + drawn.length) % drawn.length].at);
    },
  }, backdrop, draw('g', {}, circles), marks ?? [],
  ring ? draw('circle', { class: 'ring', cx: ring[0].toFixed(1), cy: ring[1].toFixed(1), r: 6.5 }) : null);
  fill(place, picture);
}

function nearest(picture, event, drawn) {
  const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(picture.getScreenCTM().inverse());
  let best = null, least = 14;
  for (const { at, where: [x, y] } of drawn) {
    const distance = Math.hypot(x - point.x, y - point.y);
    if (distance < least) [best, least] = [at, distance];
  }
  return best;
}

/** What the places of the rows mean. */
export function plotNote(state) {
  const shade = state.picked === null ? 'Grey rows are explained by less than half.' : 'Rows stand out by the share of the anchor that is picked.';
  if (state.plot === 'embedding') return `Rows lie where the embedding puts them. ${shade}`;
  const shared = state.fit.ids.length > 3 ? ' With more than three anchors different mixtures can share a place.' : '';
  return `A row lies nearer to the anchors that weigh more in it. ${shade}${shared}`;
}

/** The share of the data that is not explained, for every k; a point is picked to go there. */
export function renderCurve(place, state, act) {
  const { steps } = state.model, width = 360, height = 110, left = 44, base = height - 22;
  const most = Math.max(...steps.map(step => step.left), 1e-9);
  const x = at => left + 6 + (steps.length > 1 ? (at / (steps.length - 1)) * (width - left - 18) : 0);
  const y = step => 10 + (base - 10) * (1 - step.left / most);
  const path = steps.map((step, at) => `${x(at).toFixed(1)} ${y(step).toFixed(1)}`).join('L');
  fill(place, draw('svg', { viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': 'Share of the data that the anchors leave unexplained, for every number of anchors' },
    draw('path', { class: 'grid', d: `M${left} ${base}H${width - 6}M${left} 10H${width - 6}` }),
    text(left - 5, 14, percent(most), 'end'), text(left - 5, base + 4, '0', 'end'),
    draw('path', { class: 'line', d: `M${path}` }),
    steps.map((step, at) => draw('circle', {
      class: step === state.step ? 'mark' : 'dot', cx: x(at).toFixed(1), cy: y(step).toFixed(1), r: step === state.step ? 5 : 3,
      click: () => act({ k: step.k }),
    }, draw('title', {}, `${step.k} anchors: ${percent(step.left)} not explained`))),
    text(x(0), height - 5, steps[0].k, 'middle'),
    steps.length > 1 ? text(x(steps.length - 1), height - 5, steps.at(-1).k, 'middle') : null),
  el('p', { class: 'axis' }, `not explained, by number of ${state.model.data.noun}s`));
}
