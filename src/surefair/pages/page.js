"use strict";
// Shows the value of a mark under the pointer or the keyboard focus, and opens folded tables for printing.
(() => {
  const tip = document.getElementById("tip");
  const find = (event) => event.target instanceof Element && event.target.closest("[data-tip]");
  let shown = null;
  const place = () => {
    const shapes = shown.querySelectorAll(".dot, .reach");
    const at = (shapes[shapes.length - 1] || shown).getBoundingClientRect();
    const box = tip.getBoundingClientRect();
    const room = document.documentElement.clientWidth - box.width - 8;
    const above = at.top - box.height - 8;
    tip.style.left = Math.max(8, Math.min(at.left + at.width / 2 - box.width / 2, room)) + "px";
    tip.style.top = (above > 4 ? above : at.bottom + 8) + "px";
  };
  const hide = () => { shown = null; tip.hidden = true; };
  const show = (mark) => {
    shown = mark;
    tip.textContent = mark.getAttribute("data-tip");
    tip.hidden = false;
    place();
  };
  for (const title of document.querySelectorAll("[data-tip] > title")) title.remove(); // otherwise browsers would show two tips
  for (const kind of ["pointerover", "focusin"]) {
    document.addEventListener(kind, (event) => {
      const mark = find(event);
      if (mark) show(mark); else hide();
    });
  }
  document.addEventListener("focusout", hide);
  for (const kind of ["scroll", "resize"]) {
    window.addEventListener(kind, () => { if (shown) place(); }, { passive: true, capture: true });
  }
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") hide(); });
  let opened = [];
  window.addEventListener("beforeprint", () => {
    hide();
    opened = [...document.querySelectorAll("details:not([open])")];
    for (const one of opened) one.open = true;
  });
  window.addEventListener("afterprint", () => { for (const one of opened) one.open = false; });
})();
