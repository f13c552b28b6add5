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

/** Return the command that makes a change: a JSON merge patch of one object. */
export function patchCommand(patch) {
  const words = ["kubectl", "patch", resourceOf(patch), patch.name];
  if (patch.namespace) words.push("--namespace", patch.namespace);
  words.push("--type", "merge", "--patch", JSON.stringify(patch.patch));
  return words.map(quoted).join(" ");
}

/** Return the command that answers the same in a terminal. */
export function explainCommand(namespace, name) {
  return ["kubectl", "koord-queue", "explain", `unit/${name}`, "--namespace", namespace].map(quoted).join(" ");
}
