// @ts-check
/** The overlay that lists the keys of this page. */
import { html, useEffect, useRef } from "../html.js";
import { bound, helpOpen } from "../keys.js";

export function Help() {
  const dialog = useRef(/** @type {HTMLDialogElement|null} */ (null));
  const open = helpOpen.value;
  useEffect(() => {
    if (open && !dialog.current?.open) dialog.current?.showModal();
    if (!open && dialog.current?.open) dialog.current.close();
  }, [open]);
  const close = () => {
    helpOpen.value = false;
  };
  return html`<dialog class="help" ref=${dialog} aria-labelledby="help-title" onClose=${close}
    onClick=${(/** @type {MouseEvent} */ event) => event.target === dialog.current && close()}>
    ${open && html`
      <div class="help-head"><h2 id="help-title">Keyboard shortcuts</h2><button type="button" class="quiet" onClick=${close}>Close</button></div>
      <div class="help-body">
        ${[...bound.value].reverse().map((entry) => html`<section key=${entry.title}>
          <h3>${entry.title}</h3>
          <dl>${entry.bindings.map((binding) => html`
            <dt>${binding.keys.split(" ").map((key) => html`<kbd>${key}</kbd> `)}</dt><dd>${binding.text}</dd>`)}</dl>
        </section>`)}
      </div>`}
  </dialog>`;
}
