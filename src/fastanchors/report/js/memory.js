// What was chosen is kept in the address of the page (after #), so that it survives a reload and can be sent on.

const LONGEST = 80; // characters of a name

/** Write the number of anchors, their names and which are off into the address. */
export function remember({ k, names, off }) {
  const chosen = JSON.stringify({ k, names: [...names], off: [...off] });
  history.replaceState(null, '', `#${encodeURIComponent(chosen)}`);
}

/** Take them from the address; what does not fit the data is left out. Returns the number of anchors, if there is one. */
export function recall(explorer) {
  let found;
  try {
    found = JSON.parse(decodeURIComponent(location.hash.slice(1)));
  } catch {
    return null; // no choice of ours
  }
  const list = value => (Array.isArray(value) ? value : []);
  for (const pair of list(found?.names)) {
    const [row, name] = list(pair);
    if (Number.isInteger(row) && typeof name === 'string' && name.trim()) explorer.names.set(row, name.trim().slice(0, LONGEST));
  }
  for (const row of list(found?.off)) if (Number.isInteger(row)) explorer.off.add(row);
  if (explorer.model.steps.some(step => step.k === found?.k)) explorer.k = found.k;
  return Number.isInteger(found?.k) ? found.k : null;
}
