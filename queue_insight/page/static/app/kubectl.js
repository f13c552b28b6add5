// Commands to copy. Everything from the cluster is quoted for a POSIX shell.

const SAFE = /^[A-Za-z0-9_./:=,@%+-]+$/;

/** Return a word as a shell reads it as one. */
export function quoted(word) {
  return SAFE.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

/** Return `kind.version.group` where a group is known: a kind alone may mean another one. */
function resourceOf({ apiVersion, kind }) {
  const [group, version] = (apiVersion ?? "").includes("/") ? apiVersion.split("/") : ["", apiVersion];
  return group ? `${kind.toLowerCase()}.${version}.${group}` : kind.toLowerCase();
}

/** Return the command that makes a change: a patch of one object. */
export function patchCommand(patch) {
  const words = ["kubectl", "patch", resourceOf(patch), patch.name];
  if (patch.namespace) words.push("--namespace", patch.namespace);
  const isJson = patch.operations?.length > 0;
  words.push("--type", isJson ? "json" : "merge", "--patch", JSON.stringify(isJson ? patch.operations : patch.patch));
  return words.map(quoted).join(" ");
}

/** Return the command that answers the same in a terminal. */
export function explainCommand(namespace, name) {
  return ["kubectl", "koord-queue", "explain", `unit/${name}`, "--namespace", namespace].map(quoted).join(" ");
}

/** Names in a command: with more of them it is too long to read. */
const MOST_NAMES = 20;

function kubectl(namespace, ...words) {
  return ["kubectl", ...words, "--namespace", namespace].map(quoted).join(" ");
}

/** Return the command that shows pods: these, or all of the namespace if they are many or none. */
export function podsCommand(namespace, names) {
  const named = names.length <= MOST_NAMES ? names : [];
  return kubectl(namespace, "get", "pods", ...named, "--output", "wide");
}

/** Return the command that shows the events of the object with a uid. */
export function eventsCommand(namespace, uid) {
  return kubectl(namespace, "get", "events", "--field-selector", `involvedObject.uid=${uid}`);
}

/** Return the command that describes the first of these pods, with their events. */
export function describeCommand(namespace, names) {
  return kubectl(namespace, "describe", "pods", ...names.slice(0, MOST_NAMES));
}

/** Of a kind, a version and a name. What begins with a dash would be an option of kubectl. */
const WORD = /^[A-Za-z0-9][A-Za-z0-9.-]*$/;

/** Return the command that shows an object as YAML; "" if nothing can be called as it is. */
export function yamlCommand(namespace, { apiVersion, kind, name }) {
  // A unit names as its job whatever its creator wrote.
  if (![...(apiVersion ?? "").split("/").filter(Boolean), kind, name].every((each) => WORD.test(each))) return "";
  return kubectl(namespace, "get", resourceOf({ apiVersion, kind }), name, "--output", "yaml");
}
