/// What goes into an element: text, always as text, or another element.
export type Child = Node | string | number | null | undefined | false;

type Listeners = { [K in keyof HTMLElementEventMap]?: (event: HTMLElementEventMap[K]) => void };

/// Attributes by name. `true` sets an empty attribute; false, null and undefined leave it out.
export interface Attributes {
  [name: string]: string | number | boolean | null | undefined | Listeners;
  on?: Listeners;
}

const kSvg = 'http://www.w3.org/2000/svg';

function setAttribute(node: Element, name: string, value: string | number | boolean): void {
  // A page under a strict policy may not carry scripts in attributes, and needs none.
  if (/^on/i.test(name)) throw new Error(`listeners go under "on", not into ${name}`);
  if (value === false) node.removeAttribute(name);
  else node.setAttribute(name, value === true ? '' : String(value));
}

function fill(node: Element, attributes: Attributes, children: readonly Child[]): void {
  const { on, ...rest } = attributes;
  for (const [name, value] of Object.entries(rest)) {
    if (value === null || value === undefined || typeof value === 'object') continue;
    setAttribute(node, name, value);
  }
  for (const [type, listener] of Object.entries(on ?? {})) {
    node.addEventListener(type, listener as EventListener);
  }
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    node.append(typeof child === 'number' ? String(child) : child);
  }
}

/// An element with attributes, listeners (`on: {click: …}`) and children. Nothing here reads HTML:
/// names of jobs and racks stay text whatever they hold.
export function el<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const node = document.createElement(tag);
  fill(node, attributes, children);
  return node;
}

/// The same for SVG.
export function svg<K extends keyof SVGElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: Child[]
): SVGElementTagNameMap[K] {
  const node = document.createElementNS(kSvg, tag);
  fill(node, attributes, children);
  return node;
}

/// Sets or takes away attributes of an element that is there; null and undefined take away.
export function update(node: Element, attributes: { [name: string]: Attributes[string] }): void {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === 'object' && value !== null) continue;
    setAttribute(node, name, value ?? false);
  }
}

/// Changes text only where it differs, so that a live region speaks only of what has changed.
export function setText(node: Node, text: string | number): void {
  const wanted = String(text);
  if (node.textContent !== wanted) node.textContent = wanted;
}

/// Whether a button may be pressed. It keeps the focus, as a disabled one would not; its listener
/// has to look by itself.
export function setEnabled(button: HTMLButtonElement, enabled: boolean): void {
  setAttribute(button, 'aria-disabled', enabled ? false : 'true');
}

/// A name within a sentence: whatever direction its letters run, the words around it stay in place.
export function named(name: string): HTMLElement {
  return el('bdi', {}, name);
}

/// A text of the server's, in which a name's marks of direction would turn the words after it: they
/// are shown as what they are.
export function withoutTurns(text: string): string {
  return text.replace(
    /[\u202a-\u202e\u2066-\u2069]/g,
    (mark) => `\\u${mark.charCodeAt(0).toString(16)}`,
  );
}

/// The element with that id; it is in the page's own HTML, so its absence is a fault of the page.
export function byId(id: string): HTMLElement {
  const node = document.getElementById(id);
  if (!node) throw new Error(`the page has no #${id}`);
  return node;
}
