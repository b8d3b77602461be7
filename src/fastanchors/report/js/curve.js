// The unexplained share for every number of anchors, and whether all anchors are firm.
import { draw, el, fill, percent, text } from './dom.js';

const WIDTH = 360, HEIGHT = 130, LEFT = 44, TOP = 12, BASE = HEIGHT - 40, LABELS = 12;

/** Whether all anchors of a step are firm ('firm') or not ('loose'); '' if that is not known. */
export function firmness({ stability, k }) {
  if (!stability) return '';
  return stability.verdicts.filter(verdict => verdict === 'firm').length === k ? 'firm' : 'loose';
}

/** One point per k; a click selects it. */
export function renderCurve(place, state, act) {
  const { steps, data, counts } = state.model, most = counts ? 1 : Math.max(...steps.map(step => step.left), 1e-9);
  const x = at => LEFT + 8 + (steps.length > 1 ? (at / (steps.length - 1)) * (WIDTH - LEFT - 20) : 0);
  const y = step => TOP + (BASE - TOP) * (1 - step.left / most);
  const path = steps.map((step, at) => `${x(at).toFixed(1)} ${y(step).toFixed(1)}`).join('L');
  const every = Math.ceil(steps.length / LABELS), known = steps.some(step => step.stability);
  const stable = step => ({ firm: ', all firm', loose: `, ${step.stability?.verdicts.filter(verdict => verdict === 'firm').length} firm` })[firmness(step)] ?? '';
  fill(place, draw('svg', { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: 'img', 'aria-label': `Share of the data that is not explained, for every number of ${data.noun}s` },
    draw('path', { class: 'grid', d: `M${LEFT} ${BASE}H${WIDTH - 6}M${LEFT} ${TOP}H${WIDTH - 6}` }),
    text(LEFT - 5, TOP + 4, percent(most), 'end'), text(LEFT - 5, BASE + 4, '0', 'end'),
    draw('path', { class: 'line', d: `M${path}` }),
    steps.map((step, at) => draw('g', { class: 'stop', click: () => act({ k: step.k }) },
      draw('title', {}, `${step.k} ${data.noun}s: ${percent(step.left)} not explained${stable(step)}`),
      step === state.step ? draw('circle', { class: 'halo', cx: x(at).toFixed(1), cy: y(step).toFixed(1), r: 8.5 }) : null,
      draw('circle', { class: `dot ${firmness(step)}`, cx: x(at).toFixed(1), cy: y(step).toFixed(1), r: steps.length > 25 ? 2.6 : 3.6 }))),
    steps.map((step, at) => (at % every && step !== state.step ? null : text(x(at).toFixed(1), BASE + 21, step.k, 'middle', step === state.step ? 'strong' : ''))).filter(Boolean),
    text((LEFT + WIDTH) / 2, HEIGHT - 3, `number of ${data.noun}s`, 'middle', 'soft')),
  el('p', { class: 'axis key' }, 'not explained', ...(known ? [' · ', el('span', { class: 'key-firm' }), ' all firm ', el('span', { class: 'key-loose' }), ' some move in other data'] : [])));
}
