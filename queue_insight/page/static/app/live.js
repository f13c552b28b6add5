// News by server-sent events, one stream for all tabs of a browser.
//
// The visible tab that holds a lock has the stream, and passes its news on to the others by a
// BroadcastChannel. A hidden tab gives both up: it asks anew for what it shows when it is seen
// again.
import { signal } from "./html.js";

/** The newest news: {number, stateAt, queues, quotas, units}, or {reset: true} after a gap. */
export const news = signal(null);
/** Whether news come: "live", or "waiting" for a connection. */
export const liveness = signal("waiting");

const RETRY_MILLISECONDS = 5000;
const NAME = "koord-queue-news";

const channel = "BroadcastChannel" in window ? new BroadcastChannel(NAME) : null;
let abort = null;
let isWanted = false;
let onRefused = null;
// Whether news may have been missed before the next stream opens.
let hasGap = false;

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
        onRefused();
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
  liveness.value = state;
  if (latest) news.value = latest;
}

function takeFromOther(message) {
  take(message);
  // If this tab has the stream next, there was a moment without one.
  hasGap = true;
}
