// @ts-check
/** Starts the page: reads carried answers if there are any, then draws the shell around the address's page. */
import { html, render } from "./html.js";
import { startKeys } from "./keys.js";
import { findPage } from "./pages/index.js";
import { route, startAt } from "./route.js";
import { openAnswers } from "./source.js";
import { Shell } from "./shell.js";
import "./theme.js";

const start = await openAnswers();
if (start !== null) startAt(start);
// The page's module loads while the shell is drawn; the shell says if it cannot be loaded.
findPage(route.value.parts)?.page.load().catch(() => {});
startKeys();
render(html`<${Shell} />`, /** @type {Element} */ (document.getElementById("app")));
