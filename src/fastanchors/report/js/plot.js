// The rows among the anchors: in a polygon whose corners are the anchors, or where an embedding puts them.
import { draw, el, fill, percent, shorten, text, tone } from './dom.js';

const HEIGHT = 320, RADIUS = 112, NAMED = 8, MOST = 1500;

/** Narrow windows have a narrow plot, so that its letters stay readable: names are then above and below the corners. */
const plotWidth = () => (window.innerWidth < 500 ? 300 : 440);

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

function corners(fit, width) {
  const k = fit.ids.length, order = ordered(fit), places = [], middle = HEIGHT / 2 + (k === 3 ? 24 : 0);
  order.forEach((j, at) => {
    const angle = k === 2 ? Math.PI * at : -Math.PI / 2 + (2 * Math.PI * at) / k;
    places[j] = k === 1 ? [width / 2, middle] : [width / 2 + RADIUS * Math.cos(angle), middle + RADIUS * Math.sin(angle)];
  });
  return { order, places, middle };
}

/** Where rows are drawn: a function of a mixture and of the row's number in the sample (or null). */
function layout(state, width) {
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
    const size = [width, HEIGHT];
    const put = (mixture, at) => (at === null ? null : [0, 1].map(axis => {
      const share = (model.places[2 * at + axis] - ends[axis][0]) / ends[axis][1];
      return 14 + (axis ? 1 - share : share) * (size[axis] - 28);
    }));
    return { put, backdrop: [] };
  }
  const { order, places, middle } = corners(fit, width);
  const put = mixture => [0, 1].map(axis => mixture.weights.reduce((sum, w, j) => sum + w * places[j][axis], 0));
  const outline = order.concat(order[0]).map(j => places[j].map(v => v.toFixed(1)).join(' ')).join('L');
  const backdrop = fit.ids.length > 1 ? [draw('path', { class: 'hull', d: `M${outline}` })] : [];
  return { put, backdrop, corners: order.map(j => corner(state, j, places[j], middle, width)) };
}

function corner(state, j, [x, y], middle, width) {
  const id = state.fit.ids[j], number = state.numberOf(id), name = state.nameOf(id);
  const parts = [
    draw('title', {}, `${number + 1}. ${name}`),
    draw('circle', { cx: x.toFixed(1), cy: y.toFixed(1), r: 9.5 }),
    text(x.toFixed(1), (y + 4).toFixed(1), number + 1, 'middle'),
  ];
  const group = draw('g', {
    class: `corner${state.picked === id ? ' picked' : ''}`, style: tone(number),
    click: event => { event.stopPropagation(); state.act({ picked: state.picked === id ? null : id }); },
  }, parts);
  if (state.fit.ids.length > NAMED) return group;
  const beside = width > 400 && Math.abs(x - width / 2) > RADIUS * 0.8; // left or right of the rows: the name goes outwards
  const label = shorten(name, beside ? 15 : 32), half = Math.min(width / 2, 3.3 * label.length + 2);
  const outwards = x > width / 2 ? 14 : -14;
  const [left, top, anchor] = beside
    ? [x + outwards, y + 4, outwards > 0 ? 'start' : 'end']
    : [Math.min(Math.max(x, half), width - half), y + (y > middle + 5 ? 24 : -15), 'middle'];
  return draw('g', {}, group, text(left.toFixed(1), top.toFixed(1), label, anchor, 'name'));
}

/** A row has the colour of its largest anchor, grey where little is explained; or it stands out by the picked one. */
function look(state, mixture) {
  const { fit, picked } = state, at = fit.ids.indexOf(picked);
  if (at < 0) return mixture.explained >= 0.5 || state.model.data.kind === 'words' ? { class: 'p', style: tone(state.numberOf(fit.ids[mixture.most])) } : { class: 'q' };
  const share = mixture.weights[at];
  return { class: 'p', style: `${tone(state.numberOf(picked))};fill-opacity:${(0.06 + 0.84 * share).toFixed(2)}`, r: share > 0.5 ? 4 : 3 };
}

/** A row in a line: its name, its largest anchor, what is explained. */
function described(state, at) {
  const { fit, model } = state, mixture = fit.mixtures[at], name = shorten(model.rowName(at), 40);
  const most = mixture.empty ? '' : ` · ${percent(mixture.weights[mixture.most])} ${shorten(state.nameOf(fit.ids[mixture.most]), 30)}`;
  return `${name}${most} · ${percent(mixture.explained)} explained`;
}

export function renderPlot(place, state, act) {
  const width = plotWidth(), { model, fit } = state, step = Math.ceil(model.even / MOST), { put, backdrop, corners: marks } = layout(state, width);
  const drawn = [];
  for (let at = 0; at < model.even; at += step) {
    const mixture = fit.mixtures[at];
    if (mixture.empty && state.plot !== 'embedding') continue;
    drawn.push({ at, where: put(mixture, at), mixture });
  }
  const circles = drawn.map(({ where: [x, y], mixture }) =>
    draw('circle', { cx: x.toFixed(1), cy: y.toFixed(1), r: 3, ...look(state, mixture) }));
  const ring = state.row ? put(state.rowMixture, state.row.at ?? null) : null;
  const pick = at => act({ row: model.row(at) });
  const picture = draw('svg', {
    viewBox: `0 0 ${width} ${HEIGHT}`, role: 'img', tabindex: '0', 'data-key': 'plot',
    'aria-label': `${drawn.length} ${model.data.rowNoun}s among ${fit.ids.length} ${model.data.noun}s; arrow keys go from one to the next`,
    pointerdown: event => {
      const at = nearest(picture, event, drawn);
      if (at !== null) pick(at);
    },
    pointermove: event => {
      const at = nearest(picture, event, drawn), box = place.getBoundingClientRect();
      tip.hidden = at === null;
      if (at === null) return;
      tip.textContent = described(state, at);
      tip.style.top = `${event.clientY - box.top + 14}px`;
      tip.style.left = `${Math.max(0, Math.min(event.clientX - box.left, box.width - tip.offsetWidth))}px`;
    },
    pointerleave: () => { tip.hidden = true; },
    keydown: event => {
      const move = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (!move || !drawn.length) return;
      event.preventDefault();
      const now = drawn.findIndex(({ at }) => at === state.row?.at);
      pick(drawn[(now + move + drawn.length) % drawn.length].at);
    },
  }, backdrop, draw('g', {}, circles), marks ?? [],
  ring ? draw('circle', { class: 'ring', cx: ring[0].toFixed(1), cy: ring[1].toFixed(1), r: 6.5 }) : null);
  const tip = el('div', { class: 'tip', dir: 'auto', 'aria-hidden': 'true', hidden: true });
  fill(place, picture, tip);
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
  const { model, fit } = state, { rowNoun: row, noun } = model.data;
  const shade = fit.ids.includes(state.picked)
    ? `A ${row} stands out by its share of the ${noun} that is picked.`
    : `Its colour is that of its largest ${noun}${model.data.kind === 'words' ? '' : ', grey where less than half is explained'}.`;
  if (state.plot === 'embedding') return `A ${row} lies where the embedding puts it. ${shade}`;
  const shared = fit.ids.length > 3 ? ` With more than three ${noun}s different mixtures can share a place.` : '';
  return `A ${row} lies nearer to the ${noun}s that weigh more in it. ${shade}${shared}`;
}
