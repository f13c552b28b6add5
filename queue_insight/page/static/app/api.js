// Answers of the server, and whose session it is.
import { signal, useEffect, useRef, useState } from "./html.js";
import { news } from "./live.js";

/** {user, login, readsAll, whatIf} once it is known; null: a login is needed; undefined: not asked yet. */
export const session = signal(undefined);

/** An answer that is none: `status` is 0 where the server cannot be reached. */
export class AnswerError extends Error {
  constructor(status, message, retryAfter = null) {
    super(message);
    this.status = status;
    this.retryAfter = retryAfter;
  }
}

/** Statuses of no answer, or of a proxy that gets none: the server is not there. */
export const UNREACHABLE = [0, 502, 504];

const IN_WORDS = {
  401: "You are not logged in, or your token is no longer accepted.",
  403: "You may not see this.",
  404: "This does not exist.",
  429: "Too many questions at once.",
  502: "The proxy in front of the server cannot reach it.",
  503: "The answer is not ready yet.",
  504: "The server did not answer in time.",
};

/** Ask the server; the answer is decoded JSON, and null without a body. */
export async function ask(path, { method = "GET", body, signal: abort } = {}) {
  const headers = { Accept: "application/json" };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let response;
  try {
    response = await fetch(path, {
      method,
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      signal: abort,
      credentials: "same-origin",
      redirect: "error",
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new AnswerError(0, "The server cannot be reached. If you use a port-forward, is it still open?");
  }
  if (!response.ok) throw await refusalOf(response);
  if (response.status === 204) return null;
  return await response.json();
}

async function refusalOf(response) {
  if (response.status === 401 && session.value) session.value = null;
  let detail = "";
  try {
    detail = (await response.json()).detail;
  } catch {
    // A proxy in between answers with a page of its own.
  }
  const words = typeof detail === "string" && detail ? detail : IN_WORDS[response.status];
  return new AnswerError(
    response.status,
    words || `The server answered ${response.status}.`,
    response.headers.get("Retry-After"),
  );
}

/** Learn whose session it is. */
export async function askSession() {
  try {
    session.value = await ask("/page/session");
  } catch (error) {
    if (error.status !== 401) throw error;
    session.value = null;
  }
}

/**
 * Ask for a path, and again whenever `concerns(news)` says that the news are about it.
 *
 * The last answer stays while the next one is on its way, so that nothing flickers. News that come
 * meanwhile are asked about once it is there: an answer that takes longer than a second would
 * otherwise never come.
 * Returns {answer, error, again}: both null until the first answer.
 */
export function useAnswer(path, concerns = () => true) {
  const [state, setState] = useState({ path: null, answer: null, error: null });
  const asking = useRef(null);
  // The newest closure: what concerns a view may depend on its answer.
  const isConcerned = useRef(concerns);
  isConcerned.current = concerns;

  useEffect(() => {
    const abort = new AbortController();
    asking.current = inTurn(() =>
      ask(path, { signal: abort.signal }).then(
        (answer) => setState({ path, answer, error: null }),
        (error) => {
          if (error.name === "AbortError") return;
          setState((last) => ({ path, answer: last.path === path ? last.answer : null, error }));
        },
      ),
    );
    asking.current();
    const end = onNews((latest) => isConcerned.current(latest), asking.current);
    return () => {
      end();
      abort.abort();
    };
  }, [path]);

  const shown = state.path === path ? state : { answer: null, error: null };
  return { ...shown, again: () => asking.current() };
}

/** Ask for what no news tells of, and again after each of these times, unless nobody looks. */
export function useAnswerEach(milliseconds, path) {
  const asked = useAnswer(path, () => false);
  const { again } = asked;
  useEffect(() => {
    const timer = setInterval(() => document.hidden || again(), milliseconds);
    return () => clearInterval(timer);
  }, [path]);
  return asked;
}

/** Return a function that does `work` once more after it is done if called while it is being done. */
export function inTurn(work) {
  let isDoing = false;
  let isWanted = false;
  return async function next() {
    if (isDoing) {
      isWanted = true;
      return;
    }
    isDoing = true;
    do {
      isWanted = false;
      await work();
    } while (isWanted);
    isDoing = false;
  };
}

/** Call `act` when news come that concern a view; return what ends that. */
export function onNews(concerns, act) {
  // What was in force when the view opened is in the first answer already.
  let isFirst = true;
  return news.subscribe((latest) => {
    if (!isFirst && latest && (latest.reset || concerns(latest))) act();
    isFirst = false;
  });
}
