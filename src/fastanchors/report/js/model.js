// The data of the page: anchors for every k, and a sample of rows, as coordinates in the span of the anchors.
import { nnls } from './nnls.js';

/** Base64 text as numbers of a typed array. */
export function unpack(text, Kind) {
  const bytes = Uint8Array.from(atob(text), letter => letter.charCodeAt(0));
  return new Kind(bytes.buffer);
}

const dot = (a, b) => {
  let sum = 0;
  for (let at = 0; at < a.length; at++) sum += a[at] * b[at];
  return sum;
};

export class Model {
  constructor(data) {
    this.data = data;
    this.anchors = data.anchors;
    this.steps = data.steps;
    this.counts = data.noun === 'topic'; // rows are counts: most of their squares is chance, not to be explained
    this.points = this.split(unpack(data.points, Float32Array), this.anchors.length);
    this.sizes = unpack(data.sizes, Float64Array);
    const rows = data.rows;
    this.count = rows.index.length; // rows in the page
    this.even = rows.even; // the first of them are drawn evenly and speak for all rows; the others are worth a look
    this.squares = unpack(rows.squares, Float64Array);
    this.coordinates = this.split(unpack(rows.coordinates, Float32Array), this.count);
    this.places = rows.place ? unpack(rows.place, Float32Array) : null;
    this.composite = rows.composite ? unpack(rows.composite, Uint8Array) : null;
    if (data.lines) this.unpackLines(data);
    this.fits = new Map();
  }

  split(numbers, count) {
    const width = numbers.length / count;
    return Array.from({ length: count }, (_, at) => numbers.subarray(at * width, (at + 1) * width));
  }

  /** Lines over the columns, and for some anchors the lower and the upper edge of their band of spread. */
  unpackLines({ lines, spread, top }) {
    const values = text => Float64Array.from(unpack(text, Int16Array), value => (value * top) / 32767);
    this.lines = this.split(values(lines), this.anchors.length);
    this.bands = new Map(Object.entries(spread).map(([j, edges]) => [Number(j), this.split(values(edges), 2)]));
  }

  /** A kept row by its number in the sample, in the form in which the server sends others. */
  row(at) {
    const { index, text } = this.data.rows;
    return {
      at, index: index[at], name: this.rowName(at), text: text ? text[at] : null,
      square: this.squares[at], coordinates: this.coordinates[at],
    };
  }

  rowName(at) {
    const { index, name } = this.data.rows;
    return name ? name[at] : `row ${index[at].toLocaleString('en')}`;
  }

  gram(ids) { return ids.map(i => ids.map(j => dot(this.points[i], this.points[j]))); }

  /** Shares of the anchors `ids` in the mixture of a row (they sum to one), and what is explained of its square. */
  mixture(row, ids, gram = this.gram(ids)) {
    const products = ids.map(j => dot(row.coordinates, this.points[j]));
    return this.shares(nnls(gram, products), products, row.square, ids);
  }

  shares(f, products, square, ids) {
    const all = ids.map((j, at) => f[at] * this.sizes[j]), least = 1e-5 * Math.max(...all);
    const mass = all.map(x => (x > least ? x : 0)); // numbers are in single precision: less is rounding
    const total = mass.reduce((sum, x) => sum + x, 0);
    const parts = ids.map((_, at) => Math.max(f[at] * products[at], 0));
    const part = parts.reduce((sum, x) => sum + x, 0);
    return {
      weights: mass.map(x => (total > 0 ? x / total : 0)),
      most: mass.indexOf(Math.max(...mass)), // the anchor with the largest share
      parts,
      explained: square > 0 ? Math.min(part / square, 1) : 1,
      empty: !(total > 0),
    };
  }

  /** The mixtures of all kept rows in the anchors `ids`; of those drawn evenly what each anchor explains and leads. */
  fit(ids) {
    const key = ids.join();
    if (this.fits.has(key)) return this.fits.get(key);
    const gram = this.gram(ids), mixtures = Array.from({ length: this.count }, (_, at) => this.mixture(this.row(at), ids, gram));
    const even = mixtures.slice(0, this.even), sums = new Float64Array(ids.length);
    const total = this.squares.subarray(0, this.even).reduce((sum, square) => sum + square, 0);
    for (const { parts } of even) parts.forEach((part, j) => { sums[j] += part; });
    const shares = [...sums].map(sum => (total > 0 ? sum / total : 0));
    const left = Math.max(0, 1 - shares.reduce((sum, x) => sum + x, 0));
    const leads = ids.map(() => 0), full = even.filter(mixture => !mixture.empty);
    for (const { most } of full) leads[most] += 1 / full.length;
    const found = { ids, mixtures, shares, left, leads };
    if (this.fits.size > 20) this.fits.clear();
    this.fits.set(key, found);
    return found;
  }

  /** The angle between two anchors, in degrees. */
  angle(i, j) {
    const [[a, b], [, c]] = this.gram([i, j]);
    return (180 / Math.PI) * Math.acos(Math.max(-1, Math.min(1, b / Math.sqrt(a * c))));
  }
}
