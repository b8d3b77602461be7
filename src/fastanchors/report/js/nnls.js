// Non-negative least squares from products alone: minimise ½·fᵀGf − bᵀf over f ≥ 0 (Lawson and Hanson's active set).
// G holds the products of the anchors among themselves, b those of a row with the anchors.

/** Solve G[set, set]·z = b[set] by Cholesky; null where the matrix is not positive definite to working precision. */
export function solveSubset(G, b, set) {
  const n = set.length, L = [], z = new Float64Array(n);
  for (let i = 0; i < n; i++) {
    L.push(new Float64Array(i + 1));
    for (let j = 0; j <= i; j++) {
      let sum = G[set[i]][set[j]];
      for (let t = 0; t < j; t++) sum -= L[i][t] * L[j][t];
      if (i !== j) L[i][j] = sum / L[j][j];
      else if (sum > 1e-13 * G[set[i]][set[i]]) L[i][i] = Math.sqrt(sum);
      else return null;
    }
  }
  for (let i = 0; i < n; i++) {
    let sum = b[set[i]];
    for (let t = 0; t < i; t++) sum -= L[i][t] * z[t];
    z[i] = sum / L[i][i];
  }
  for (let i = n - 1; i >= 0; i--) {
    for (let t = i + 1; t < n; t++) z[i] -= L[t][i] * z[t];
    z[i] /= L[i][i];
  }
  return z;
}

/** The weights f ≥ 0 of a row. Anchors that depend on those already in use are left out. */
export function nnls(G, b) {
  const k = b.length, f = new Float64Array(k), passive = [], barred = new Set();
  const scale = Math.max(...b.map(Math.abs), 0);
  for (let round = 0; round < 3 * k + 3; round++) {
    let best = -1, steepest = 1e-9 * scale;
    for (let j = 0; j < k; j++) {
      if (passive.includes(j) || barred.has(j)) continue;
      let slope = b[j];
      for (const i of passive) slope -= G[j][i] * f[i];
      if (slope > steepest) [best, steepest] = [j, slope];
    }
    if (best < 0) break;
    passive.push(best);
    if (!improve(G, b, f, passive)) {
      passive.splice(passive.indexOf(best), 1);
      f[best] = 0;
      barred.add(best);
    }
  }
  return f;
}

/** Move f to the solution on the passive set, dropping anchors whose weight would fall below zero on the way. */
function improve(G, b, f, passive) {
  for (;;) {
    const z = solveSubset(G, b, passive);
    if (!z) return false;
    if (z.every(value => value > 0)) {
      passive.forEach((j, at) => { f[j] = z[at]; });
      return true;
    }
    let step = 1;
    passive.forEach((j, at) => { if (z[at] <= 0) step = Math.min(step, f[j] / (f[j] - z[at] || 1)); });
    passive.forEach((j, at) => { f[j] += step * (z[at] - f[j]); });
    for (let at = passive.length - 1; at >= 0; at--) {
      if (z[at] <= 0 && f[passive[at]] <= 1e-14) {
        f[passive[at]] = 0;
        passive.splice(at, 1);
      }
    }
    if (!passive.length) return true;
  }
}
