// @ts-check
/** A browser under LANG=C calls its language "en-US@posix", which Intl, and so uPlot at its import, refuses. Import this before uPlot. */

try {
  new Intl.NumberFormat(navigator.language);
} catch {
  Object.defineProperty(navigator, "language", { value: "en" });
}
