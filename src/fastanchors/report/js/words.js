// Words of topics by relevance, and the map of the topics.
import { draw, fill, percent, text } from './dom.js';

/** λ·log P(w | t) + (1 − λ)·log(P(w | t)/P(w)), the relevance of Sievert and Shirley (LDAvis, 2014); best first. */
export function relevantWords(data, j, relevance, count) {
  const score = ([column, share]) => Math.log(share) - (1 - relevance) * Math.log(data.overall[column] + data.rare);
  return [...data.features[j]].sort((a, b) => score(b) - score(a)).slice(0, count);
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
  const where = number => [scale(xs[number], xs, width).toFixed(1), scale(ys[number], ys, height)];
  const topics = shown.map(({ j, number, at }) => {
    const [x, y] = where(number), radius = 10 + 22 * Math.sqrt(leads[at] / most);
    return draw('g', {
      class: `topic${state.picked === j ? ' picked' : ''}`, click: () => act({ picked: state.picked === j ? null : j }),
    }, draw('title', {}, `${number + 1}. ${state.nameOf(j)}: leads ${percent(leads[at])}`),
    draw('circle', { cx: x, cy: y.toFixed(1), r: radius.toFixed(1) }));
  });
  const numbers = shown.map(({ number }) => text(where(number)[0], (where(number)[1] + 4).toFixed(1), number + 1, 'middle', 'topic-number'));
  fill(place, draw('svg', { viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': 'Map of the topics: alike ones are near each other' }, topics, numbers));
}
