// A page that is served: other numbers of anchors, other rules and other rows are asked for; changes are followed.

/** Ask the server; the answer is an object, or an error with the server's words. */
export async function ask(what, values = {}) {
  const answer = await fetch(`${what}?${new URLSearchParams(values)}`, { cache: 'no-store', credentials: 'omit' });
  const found = await answer.json();
  if (!answer.ok) throw new Error(found.error ?? `the server answered ${answer.status}`);
  return found;
}

/** Call `changed` within a second after rows were committed, again until it succeeds; tell `status` of failures. */
export function follow(revision, changed, status, pause = 500) {
  let known = revision, lost = false;
  const look = async () => {
    try {
      const now = (await ask('state')).revision;
      if (lost) status('');
      lost = false;
      if (now !== known) {
        await changed();
        known = now;
      }
    } catch (error) {
      if (!lost) status(`No answer from the server: ${error.message}`);
      lost = true;
    }
    setTimeout(look, lost ? 4 * pause : pause);
  };
  setTimeout(look, pause);
}
