// Words of topics by relevance, and the map of the topics.
import { badge, draw, el, fill, named, percent, text, tone } from './dom.js';

/** λ·log P(w | t) + (1 − λ)·log(P(w | t)/P(w)), the relevance of Sievert and Shirley (LDAvis, 2014); best first. */
export function relevantWords(data, j, relevance, count) {
  const score = ([column, share]) => Math.log(share) - (1 - relevance) * Math.log(data.overall[column] + data.rare);
  return [...data.features[j]].sort((a, b) => score(b) - score(a)).slice(0, count);
}

/** Places moved a little, as far as it takes to read the numbers on them. */
function apart(places, width, height, least = 20, margin = 34) {
  const moved = places.map(place => [...place]), within = (value, size) => Math.min(Math.max(value, margin), size - margin);
  for (let round = 0; round < 60; round++) {
    for (let i = 0; i < moved.length; i++) {
      for (let j = 0; j < i; j++) {
        const [dx, dy] = [moved[i][0] - moved[j][0], moved[i][1] - moved[j][1]], distance = Math.hypot(dx, dy);
        if (distance >= least) continue;
        const angle = distance > 0.01 ? Math.atan2(dy, dx) : i * 2.4, step = (least - distance) / 2;
        for (const [at, sign] of [[i, 1], [j, -1]]) {
          moved[at] = [within(moved[at][0] + sign * step * Math.cos(angle), width), within(moved[at][1] + sign * step * Math.sin(angle), height)];
        }
      }
    }
  }
  return moved;
}

/** Topics in a plane, near where their words are alike; areas show of how many rows they are the largest part. */
export function renderTopicMap(place, state, act) {
  const { step } = state, width = 360, height = 260, margin = 46;
  if (!step.map) return;
  const xs = step.map.map(p => p[0]), ys = step.map.map(p => p[1]);
  const scale = (value, values, size) => {
    const low = Math.min(...values), span = Math.max(...values) - low;
    return margin + (span > 0 ? (value - low) / span : 0.5) * (size - 2 * margin);
  };
  const { leads } = state.fit, most = Math.max(...leads, 1e-9);
  const shown = step.anchors.map((j, number) => ({ j, number, at: state.fit.ids.indexOf(j) })).filter(({ at }) => at >= 0);
  const places = apart(step.map.map((_, number) => [scale(xs[number], xs, width), scale(ys[number], ys, height)]), width, height);
  const topics = shown.map(({ j, number, at }) => {
    const [x, y] = places[number], radius = 10 + 22 * Math.sqrt(leads[at] / most);
    return draw('g', {
      class: `topic${state.picked === j ? ' picked' : ''}`, style: tone(number), click: () => act({ picked: state.picked === j ? null : j }),
    }, draw('title', {}, `${number + 1}. ${state.nameOf(j)}: leads ${percent(leads[at])}`),
    draw('circle', { cx: x.toFixed(1), cy: y.toFixed(1), r: radius.toFixed(1) }));
  });
  const numbers = shown.map(({ number }) => text(places[number][0].toFixed(1), (places[number][1] + 4).toFixed(1), number + 1, 'middle', 'topic-number'));
  fill(place, draw('svg', { viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': 'Map of the topics: alike ones are near each other' }, topics, numbers),
  el('ol', { class: 'topics' }, shown.map(({ j, number, at }) => el('li', {}, badge(number), named(state.nameOf(j), 'what'), el('span', { class: 'n' }, percent(leads[at]))))));
}
