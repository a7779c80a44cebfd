// Elements and number formatting. Untrusted text is only ever inserted as text: nothing here or
// elsewhere parses HTML.

const svgNames = new Set(['svg', 'g', 'path', 'line', 'rect', 'circle', 'text', 'title']);

// h creates an element. Attributes that are null or false are omitted; children may be lists.
export function h(tag, attributes, ...children) {
  const e = svgNames.has(tag) ? document.createElementNS('http://www.w3.org/2000/svg', tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value !== null && value !== undefined && value !== false) e.setAttribute(name, value === true ? '' : value);
  }
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    e.append(child instanceof Node ? child : visible(String(child)));
  }
  return e;
}

// visible makes control characters visible, including those that change the text direction.
export const visible = text => text.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, '\ufffd');

// morph changes an element to match a new one, keeping the nodes they have in common, so that
// focus, selection and typed text are preserved. Children with a data-key are matched by it, and
// in order if they have the same key.
export function morph(old, fresh) {
  for (const { name } of [...old.attributes]) if (!fresh.hasAttribute(name)) old.removeAttribute(name);
  for (const { name, value } of fresh.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  const wanted = new Set([...fresh.children].map(c => c.dataset.key));
  const known = new Map();
  for (const child of [...old.children]) {
    const key = child.dataset.key;
    if (key === undefined) continue;
    if (!wanted.has(key)) child.remove();
    else if (known.has(key)) known.get(key).push(child);
    else known.set(key, [child]);
  }
  let at = old.firstChild;
  for (const want of [...fresh.childNodes]) {
    const key = want.dataset?.key;
    const have = key !== undefined ? known.get(key)?.shift() : at?.dataset?.key === undefined ? at : null;
    if (!have || have.nodeName !== want.nodeName) {
      old.insertBefore(want, at);
      continue;
    }
    if (have === at) at = at.nextSibling;
    else old.insertBefore(have, at);
    if (want.nodeType === Node.ELEMENT_NODE) morph(have, want);
    else if (have.data !== want.data) have.data = want.data;
  }
  while (at) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}

// to returns the address of a view.
export function to(view, params = {}) {
  const given = Object.entries(params).filter(([name, v]) => v !== undefined && v !== null && (v !== '' || name === 'cluster'));
  return '#' + view + (given.length ? '?' + new URLSearchParams(given) : '');
}

export const link = (view, params, ...children) => h('a', { href: to(view, params) }, ...children);

// mark shows a state by a symbol, a word and a colour, all with the same meaning.
export function mark(level, ...words) {
  return h('span', { class: 'mark ' + level }, h('span', { class: 'sign', 'aria-hidden': 'true' }, { good: '●', bad: '▲', idle: '○' }[level]), ' ', words);
}

// table returns a table of rows, each with a key; a column whose name starts with "#" is numeric.
export function table(label, columns, rows, none) {
  if (!rows.length) return h('p', { class: 'none' }, none);
  const figure = columns.map(c => c.startsWith('#'));
  return h('div', { class: 'scroll' }, h('table', { 'aria-label': label },
    h('thead', null, h('tr', null, columns.map((c, n) => h('th', { scope: 'col', class: figure[n] ? 'figure' : null }, c.replace('#', ''))))),
    h('tbody', null, rows.map(({ key, cells }) => h('tr', { 'data-key': key }, cells.map((c, n) =>
      h('td', { class: figure[n] ? 'figure' : null }, c)))))));
}

// facts returns a list of names and values.
export const facts = pairs => h('dl', { class: 'facts' }, pairs.filter(p => p && p[1] !== '' && p[1] !== undefined && p[1] !== null)
  .map(([name, value]) => h('div', null, h('dt', null, name), h('dd', null, value))));

const grouped = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });
export const count = n => grouped.format(n ?? 0);

// rate formats a number per second.
export const rate = n => n === null || n === undefined ? '–' : n === 0 ? '0' : n < 10 ? n.toFixed(1) : count(n);

export function bytes(n) {
  for (const unit of ['B', 'KiB', 'MiB', 'GiB']) {
    if (n < 1000) return (n < 10 && unit !== 'B' ? n.toFixed(1) : Math.round(n)) + ' ' + unit;
    n /= 1024;
  }
  return n.toFixed(1) + ' TiB';
}

// time formats seconds with a suitable unit.
export function time(s) {
  if (s === null || s === undefined) return '–';
  const a = Math.abs(s);
  if (a === 0) return '0';
  if (a < 0.00095) return +(s * 1e6).toPrecision(2) + ' µs';
  if (a < 0.95) return +(s * 1e3).toPrecision(2) + ' ms';
  if (a < 60) return +s.toFixed(a < 10 ? 1 : 0) + ' s';
  if (a < 3600) return Math.floor(s / 60) + ' min' + (s % 60 >= 1 ? ' ' + Math.floor(s % 60) + ' s' : '');
  if (a < 86400) return Math.floor(s / 3600) + ' h ' + Math.floor(s % 3600 / 60) + ' min';
  return Math.floor(s / 86400) + ' d ' + Math.floor(s % 86400 / 3600) + ' h';
}

// clock returns the local time of day, optionally to the millisecond.
export function clock(date, exact) {
  const d = new Date(date);
  return d.toTimeString().slice(0, 8) + (exact ? '.' + String(d.getMilliseconds()).padStart(3, '0') : '');
}

export const keyText = k => !k ? '' : k.namespace ? k.namespace + '/' + k.name : k.name ?? '';
