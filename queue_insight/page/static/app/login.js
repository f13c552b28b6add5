// Login with a Kubernetes token. It is sent once, in a body, and kept nowhere in the browser.
import { ask, askSession } from "./api.js";
import { html, useEffect, useRef, useState } from "./html.js";
import { Problem, Snippet } from "./parts.js";

const COMMAND = "kubectl create token --duration 8h YOUR-SERVICE-ACCOUNT";

export function Login() {
  const [{ error, isAsking }, setState] = useState({});
  const field = useRef(null);
  useEffect(() => field.current.focus(), []);
  async function logIn(event) {
    event.preventDefault();
    const token = field.current.value.trim();
    setState({ isAsking: true });
    try {
      await ask("/page/session", { method: "POST", body: { token } });
      field.current.value = "";
      await askSession();
    } catch (failure) {
      setState({ error: failure });
      field.current?.focus();
    }
  }
  return html`
    <h1>Log in</h1>
    ${error && html`<${Problem} error=${error} />`}
    <form onSubmit=${logIn} class="login">
      <label class="field">
        Kubernetes token
        <input ref=${field} type="password" name="token" autocomplete="off" spellcheck="false" required />
      </label>
      <p><button type="submit" class="main" disabled=${isAsking}>${isAsking ? "Logging in…" : "Log in"}</button></p>
    </form>
    <p class="hint">
      The token is checked by the API server and kept in the memory of the server only, until it
      expires, for 8 hours at most. You see what it may read.
    </p>
    <${Snippet} text=${COMMAND} label="the command for a token" />
  `;
}
