// What every view is written with: htm's templates for preact, hooks and signals.
//
// Text from the cluster reaches the page only as text nodes and attributes made by preact, which
// escapes both. Nothing here or in a view sets innerHTML.
import htm from "../vendor/htm.js";
import { createRef, h, render } from "../vendor/preact.js";

export const html = htm.bind(h);
export { createRef, render };
export { useEffect, useId, useLayoutEffect, useMemo, useRef, useState } from "../vendor/preact-hooks.js";
export { computed, effect, signal } from "../vendor/signals.js";
