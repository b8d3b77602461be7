// The data of the page: anchors for every k, and a sample of rows as products with them.
import { nnls } from './nnls.js';

/** Base64 text as numbers of a typed array. */
export function unpack(text, Kind) {
  const bytes = Uint8Array.from(atob(text), letter => letter.charCodeAt(0));
  return new Kind(bytes.buffer);
}

export class Model {
  constructor(data) {
    this.data = data;
    this.anchors = data.anchors;
    this.steps = data.steps;
    this.counts = data.noun === 'topic'; // rows are counts: most of their squares is chance, not to be explained
    const all = this.anchors.length, gram = unpack(data.gram, Float64Array);
    this.gram = this.anchors.map((_, i) => gram.subarray(i * all, (i + 1) * all));
    this.sizes = unpack(data.sizes, Float64Array);
    const rows = data.rows;
    this.count = rows.index.length;
    this.squares = unpack(rows.squares, Float32Array);
    this.products = unpack(rows.products, Float32Array);
    this.places = rows.place ? unpack(rows.place, Float32Array) : null;
    this.composite = rows.composite ? unpack(rows.composite, Uint8Array) : null;
    this.fits = new Map();
  }

  /** A kept row by its number in the sample, in the form in which the server sends others. */
  row(at) {
    const all = this.anchors.length, { index, name, text } = this.data.rows;
    return {
      at, index: index[at], name: this.rowName(at), text: text ? text[at] : null,
      square: this.squares[at], products: this.products.subarray(at * all, (at + 1) * all),
    };
  }

  rowName(at) {
    const { index, name } = this.data.rows;
    return name ? name[at] : `row ${index[at].toLocaleString('en')}`;
  }

  /** Shares of the anchors `ids` in the mixture of a row (they sum to one), and what is explained of its square. */
  mixture(row, ids) {
    const products = ids.map(j => row.products[j]);
    const f = nnls(ids.map(i => ids.map(j => this.gram[i][j])), products);
    return this.split(f, products, row.square, ids);
  }

  split(f, products, square, ids) {
    const all = ids.map((j, at) => f[at] * this.sizes[j]), least = 1e-5 * Math.max(...all);
    const mass = all.map(x => (x > least ? x : 0)); // products are in single precision: less is rounding
    const total = mass.reduce((sum, x) => sum + x, 0);
    const parts = ids.map((_, at) => Math.max(f[at] * products[at], 0));
    const part = parts.reduce((sum, x) => sum + x, 0);
    return {
      weights: mass.map(x => (total > 0 ? x / total : 0)),
      parts,
      explained: square > 0 ? Math.min(part / square, 1) : 1,
      empty: !(total > 0),
    };
  }

  /** The mixtures of all kept rows in the anchors `ids`, and the share of their squares that each anchor explains. */
  fit(ids) {
    const key = ids.join();
    if (this.fits.has(key)) return this.fits.get(key);
    const G = ids.map(i => ids.map(j => this.gram[i][j]));
    const mixtures = [], sums = new Float64Array(ids.length);
    let total = 0;
    for (let at = 0; at < this.count; at++) {
      const row = this.row(at), products = ids.map(j => row.products[j]);
      const mixture = this.split(nnls(G, products), products, row.square, ids);
      mixture.parts.forEach((part, j) => { sums[j] += part; });
      total += row.square;
      mixtures.push(mixture);
    }
    const shares = [...sums].map(sum => (total > 0 ? sum / total : 0));
    const left = Math.max(0, 1 - shares.reduce((sum, x) => sum + x, 0));
    const leads = ids.map(() => 0), full = mixtures.filter(mixture => !mixture.empty);
    for (const { weights } of full) leads[weights.indexOf(Math.max(...weights))] += 1 / full.length;
    const found = { ids, mixtures, shares, left, leads };
    if (this.fits.size > 20) this.fits.clear();
    this.fits.set(key, found);
    return found;
  }

  /** The angle between two anchors, in degrees. */
  angle(i, j) {
    const cosine = this.gram[i][j] / Math.sqrt(this.gram[i][i] * this.gram[j][j]);
    return (180 / Math.PI) * Math.acos(Math.max(-1, Math.min(1, cosine)));
  }
}
