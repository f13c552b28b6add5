// News by server-sent events, one stream for all tabs of a browser.
//
// The visible tab that holds a lock has the stream, and passes its news on to the others by a
// BroadcastChannel. A hidden tab gives both up: it asks anew for what it shows when it is seen
// again.
import { signal } from "./html.js";

/** The newest news: {number, stateAt, queues, quotas, units}, or {reset: true} after a gap. */
export const news = signal(null);
/**
 * Whether news come: "live"; "waiting" for a connection; "gone" if that has lasted, so the server
 * cannot be reached; "refused" if the server is there, and has no stream for this page.
 */
export const liveness = signal("waiting");
/** When the stream was last seen to be open; before that, when the page began to follow. */
export const lastHeard = signal(new Date());

export const RETRY_MILLISECONDS = 5000;
// A stream that ends is opened again after 2 s, as the server says.
const GONE_MILLISECONDS = 5000;
const NAME = "koord-queue-news";

const channel = "BroadcastChannel" in window ? new BroadcastChannel(NAME) : null;
let abort = null;
let isWanted = false;
let onRefused = null;
// Whether news may have been missed before the next stream opens.
let hasGap = false;
let goneTimer = 0;

document.addEventListener("visibilitychange", followIfSeen);
window.addEventListener("pagehide", letGo);
window.addEventListener("pageshow", followIfSeen);
if (channel) channel.onmessage = ({ data }) => data.state && takeFromOther(data);

/** Follow the news from now on, while the page is seen; `refused` is called if there may be none. */
export function startLive(refused) {
  isWanted = true;
  onRefused = refused;
  followIfSeen();
}

/** Follow no longer: nobody is logged in. */
export function stopLive() {
  isWanted = false;
  letGo();
}

function letGo() {
  if (abort) hasGap = true;
  stopTimer();
  abort?.abort();
  abort = null;
}

function followIfSeen() {
  if (document.hidden || !isWanted) {
    letGo();
    return;
  }
  if (abort) return;
  abort = new AbortController();
  const { signal: stopped } = abort;
  if (liveness.value !== "live") take({ state: "waiting" });
  // What was missed while hidden; a stream of another tab may go on, and would not say so.
  if (hasGap) take({ state: liveness.value, news: { reset: true } });
  if (!navigator.locks) {
    follow(stopped);
    return;
  }
  navigator.locks.request(NAME, { signal: stopped }, () => follow(stopped)).catch(() => {
    // Hidden before it was this tab's turn.
  });
  channel?.postMessage({ asks: true });
}

/** Hold the stream until `stopped`. */
function follow(stopped) {
  return new Promise((resolve) => {
    let source = null;
    let retry = 0;
    const tell = (message) => {
      take(message);
      channel?.postMessage(message);
    };
    const answer = ({ data }) => data.asks && channel.postMessage({ state: liveness.value });
    const open = () => {
      source = new EventSource("/page/events");
      source.onopen = () => {
        tell({ state: "live", news: hasGap ? { reset: true } : undefined });
        hasGap = false;
      };
      source.onmessage = (event) => tell({ state: "live", news: read(event) });
      source.onerror = () => {
        tell({ state: "waiting" });
        // A lost connection the browser renews itself, and says what it got last. After an answer
        // that is an error it gives up.
        if (source.readyState !== EventSource.CLOSED) return;
        hasGap = true;
        onRefused().then((isThere) => !stopped.aborted && isThere && tell({ state: "refused" }));
        retry = setTimeout(open, RETRY_MILLISECONDS);
      };
    };
    channel?.addEventListener("message", answer);
    stopped.addEventListener("abort", () => {
      clearTimeout(retry);
      source?.close();
      channel?.removeEventListener("message", answer);
      resolve();
    });
    open();
  });
}

function read(event) {
  try {
    return JSON.parse(event.data);
  } catch {
    return { reset: true };
  }
}

function take({ state, news: latest }) {
  const was = liveness.value;
  if (state === "waiting") {
    goneTimer ||= setTimeout(giveUp, GONE_MILLISECONDS);
    if (was === "live") lastHeard.value = new Date();
  } else {
    stopTimer();
  }
  // Whoever is tried again and again is no less gone for it.
  if (state !== "waiting" || was === "live") liveness.value = state;
  // What could not be reached is asked for anew, whatever the stream goes on with.
  if (state === "live" && was === "gone") news.value = { reset: true };
  else if (latest) news.value = latest;
}

function giveUp() {
  goneTimer = 0;
  liveness.value = "gone";
}

function stopTimer() {
  clearTimeout(goneTimer);
  goneTimer = 0;
}

function takeFromOther(message) {
  take(message);
  // If this tab has the stream next, there was a moment without one.
  hasGap = true;
}
