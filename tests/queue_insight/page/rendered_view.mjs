// Draws a view of the page without a browser, and prints what stands in it.
//
// Reads {view, props, answers} as JSON: a component as `module/Name`, its properties, and the
// answers of the server by path. Prints the elements as {tag, class, text, children}. Elements of
// this document keep what preact gives them; text becomes a node of its own and is never parsed.
import { readFileSync } from "node:fs";

class FakeNode {
  constructor(localName, data) {
    Object.assign(this, { localName, data, nodeType: localName ? 1 : 3, childNodes: [], style: {} });
    this.parentNode = null;
    this.attributes = [];
  }

  get firstChild() {
    return this.childNodes[0] ?? null;
  }

  get nextSibling() {
    const siblings = this.parentNode?.childNodes ?? [];
    return siblings[siblings.indexOf(this) + 1] ?? null;
  }

  get ownerDocument() {
    return document;
  }

  insertBefore(child, next) {
    child.parentNode?.removeChild(child);
    const place = next ? this.childNodes.indexOf(next) : this.childNodes.length;
    this.childNodes.splice(place, 0, child);
    child.parentNode = this;
  }

  removeChild(child) {
    this.childNodes.splice(this.childNodes.indexOf(child), 1);
    child.parentNode = null;
  }

  setAttribute(name, value) {
    this.attributes = [...this.attributes.filter((each) => each.name !== name), { name, value }];
  }

  remove() {
    this.parentNode?.removeChild(this);
  }

  removeAttribute(name) {
    this.attributes = this.attributes.filter((each) => each.name !== name);
  }

  addEventListener() {}
}

const { view, props, answers } = JSON.parse(readFileSync(0, "utf8"));
Object.assign(globalThis, {
  window: globalThis,
  document: {
    createElementNS: (_, name) => new FakeNode(name),
    createTextNode: (data) => new FakeNode(null, data),
    addEventListener() {},
  },
  location: { pathname: "/", search: "" },
  addEventListener() {},
  fetch: async (path) => {
    const answer = answers[path.split("?")[0]];
    if (answer === undefined) throw new Error(`no answer for ${path}`);
    return { ok: true, status: 200, json: async () => answer };
  },
});

function shown(node) {
  if (node.nodeType === 3) return { text: String(node.data) };
  const name = node.className ?? node.attributes.find((each) => each.name === "class")?.value ?? "";
  const children = node.childNodes.map(shown);
  return { tag: node.localName, class: name, text: children.map((each) => each.text).join(""), children };
}

const PATIENCE_MILLISECONDS = 20_000;
const [file, name] = view.split("/");
const { h, render } = await import("./vendor/preact.js");
const component = (await import(`./app/${file}.js`))[name];
const main = new FakeNode("main");
render(h(component, props), main);
const end = Date.now() + PATIENCE_MILLISECONDS;
const isLoading = () => JSON.stringify(shown(main)).includes('"class":"loading"');
while (isLoading() && Date.now() < end) await new Promise((resolve) => setTimeout(resolve, 10));
console.log(JSON.stringify(shown(main)));
process.exit(0);
