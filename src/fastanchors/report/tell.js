/* Rows of the picture tell their names to those who tap, point or use the arrow keys. All else needs no script. */
(() => {
  const picture = document.querySelector('#simplex svg'), told = document.getElementById('told');
  const points = picture ? [...picture.querySelectorAll('circle')] : [];
  if (!points.length) return;
  const ring = document.createElementNS(picture.namespaceURI, 'circle');
  const places = points.map(p => [p.cx.baseVal.value, p.cy.baseVal.value]);
  let at = -1;
  const show = i => {
    at = i;
    ring.setAttribute('cx', places[i][0]);
    ring.setAttribute('cy', places[i][1]);
    ring.setAttribute('r', points[i].r.baseVal.value + 3);
    told.textContent = (points[i].querySelector('title') || points[i].parentNode.querySelector('title')).textContent;
  };
  const near = event => {
    const p = new DOMPoint(event.clientX, event.clientY).matrixTransform(picture.getScreenCTM().inverse());
    let best = -1, least = 14;
    places.forEach(([x, y], i) => {
      const d = Math.hypot(x - p.x, y - p.y) - (points[i].closest('.corner') ? 6 : 0);
      if (d < least) [best, least] = [i, d];
    });
    if (best >= 0 && best !== at) show(best);
  };
  ring.setAttribute('class', 'ring');
  picture.append(ring);
  picture.setAttribute('tabindex', '0');
  picture.addEventListener('pointermove', near);
  picture.addEventListener('pointerdown', near);
  picture.addEventListener('keydown', event => {
    const step = {ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1}[event.key];
    if (!step) return;
    event.preventDefault();
    show((at + step + points.length) % points.length);
  });
  told.textContent = 'Point at a row, tap it, or use the arrow keys.';
  told.hidden = false;
})();
