// The page itself: navigation, polling and keyboard shortcuts.
import { bytes, clock, count, h, link, mark, morph, time, to } from './dom.js';
import { ask, Feed } from './feed.js';
import { overview } from './overview.js';
import { informer } from './informer.js';
import { object } from './object.js';
import { controller } from './controller.js';
import { busiest, memory } from './others.js';
import { asked, events, Stream } from './events.js';

const views = { overview, informer, object, controller, events, busiest, memory };
const tabs = ['overview', 'events', 'busiest', 'memory'];
const period = 1000; // ms between polls

const main = document.getElementById('main');
const feed = new Feed(), stream = new Stream();
let place = where(), answers = {}, drawn = null;
let broken = null; // the error that kept this page from showing a response

// where returns the view in the address, and its parameters.
function where() {
  const [name, query = ''] = location.hash.slice(1).split('?');
  const params = new URLSearchParams(query);
  return Object.hasOwn(views, name) ? { name, params, view: views[name], hash: location.hash } : { name: 'overview', params, view: overview, hash: location.hash };
}

// parent returns the view that Escape leads to; null at the top.
function parent() {
  if (place.name === 'overview') return null;
  return place.view.parent?.(place.params) ?? { view: 'overview', params: {}, title: 'Overview' };
}

// look requests the status and the data for the current view, and draws them.
async function look() {
  const at = place;
  await feed.look();
  if (feed.error) return draw();
  if (at !== place) return;
  const asks = Object.entries(at.view.asks(at.params, feed.status));
  const got = await Promise.all(asks.map(async ([key, [what, params]]) => [key, await ask(what, params).catch(error => ({ error }))]));
  if (at !== place) return;
  answers = Object.fromEntries(got);
  draw();
}

function head() {
  const s = feed.status;
  if (!s) return;
  const p = s.process;
  document.title = [place.view.title(place.params), p.program].filter(Boolean).join(' · ');
  morph(document.getElementById('process'), h('div', { id: 'process' }, h('b', { class: 'program' }, p.program), ' ',
    [p.version, `PID ${p.pid} on ${p.host}`, `up ${time(p.uptimeSeconds)}`, `heap ${bytes(s.memory.heapBytes)}`, `${count(s.memory.goroutines)} goroutines`, `${count(s.memory.cachedCount)} objects`]
      .filter(Boolean).map(t => h('span', { class: 'vital' }, t))));
}

function connection() {
  const lost = feed.error ?? broken;
  const text = broken ? [mark('bad', 'This page cannot show the response'), `: ${broken.message}`] : !lost ? mark('good', `Live, ${clock(feed.heard)}`)
    : [mark('bad', lost.answered ? 'The process refused the request' : 'The process does not respond'), `: ${lost.message}. `, feed.heard ? `Showing data from ${clock(feed.heard)}, the last successful response. ` : '', 'Retrying every second.'];
  morph(document.getElementById('connection'), h('p', { id: 'connection', role: 'status', class: lost ? 'lost' : '' }, text));
  document.body.classList.toggle('stale', Boolean(lost));
}

function crumbs() {
  const title = place.view.title(place.params), up = parent();
  if (!title) return null;
  const steps = up && up.view !== 'overview' ? [{ view: 'overview', params: {}, title: 'Overview' }, up] : up ? [up] : [];
  return h('nav', { class: 'crumbs', 'aria-label': 'Where' }, steps.map(s => [link(s.view, s.params, s.title), ' › ']), h('h1', { tabindex: '-1' }, title));
}

function draw() {
  head();
  connection();
  for (const a of document.querySelectorAll('header nav a')) {
    if (a.hash === '#' + place.name) a.setAttribute('aria-current', 'page');
    else a.removeAttribute('aria-current');
  }
  if (!feed.status) return;
  const fresh = h('main', { id: 'main', tabindex: '-1' }, crumbs(), place.view.show({ feed, stream, answers, params: place.params }));
  if (drawn !== place) { // do not keep text typed in another view
    main.replaceChildren(...fresh.childNodes);
    (main.querySelector('h1') ?? main).focus({ preventScroll: true });
    if (drawn) scrollTo(0, 0);
    drawn = place;
    return;
  }
  const focused = document.activeElement;
  morph(main, fresh);
  if (focused !== document.activeElement && focused?.isConnected) focused.focus();
}

// run polls while the page is visible. Requests that take long are sent less often.
let due = null, looking = false;
async function run() {
  clearTimeout(due);
  stream.follow(document.hidden ? null : asked(place.name, place.params));
  if (document.hidden || looking) return;
  looking = true;
  const begun = performance.now(), at = place;
  try {
    await look();
    broken = null;
  } catch (error) {
    broken = error;
    console.error(error);
    connection();
  } finally {
    looking = false;
    const took = performance.now() - begun;
    due = setTimeout(run, at !== place ? 0 : Math.max(period - took, took * 4));
  }
}

function go() {
  place = where();
  answers = {};
  stream.follow(document.hidden ? null : asked(place.name, place.params));
  if (feed.status && !broken) draw();
  run();
}

// step moves the focus by one link or button within the main part of the page.
function step(by) {
  const all = [...main.querySelectorAll('a, button')].filter(e => e.checkVisibility());
  const at = all.indexOf(document.activeElement);
  all[at < 0 ? (by > 0 ? 0 : all.length - 1) : Math.min(Math.max(at + by, 0), all.length - 1)]?.focus();
}

const deeds = {
  help: () => document.getElementById('help').showModal(),
  pause: () => { stream.pause(); draw(); },
};

const keys = {
  '?': deeds.help,
  '/': () => main.querySelector('form.filter input:not([type=hidden])')?.focus(),
  'j': () => step(1), 'ArrowDown': () => step(1), 'k': () => step(-1), 'ArrowUp': () => step(-1),
  'Escape': () => { const up = parent(); if (up) location.hash = to(up.view, up.params); },
  'p': () => place.name === 'events' && deeds.pause(),
  ' ': () => place.name === 'events' && deeds.pause(),
};
tabs.forEach((name, n) => { keys[n + 1] = () => { location.hash = to(name); }; });

addEventListener('keydown', e => {
  if (e.ctrlKey || e.metaKey || e.altKey || document.getElementById('help').open) return;
  const typing = e.target.matches('input');
  if (typing && e.key === 'Escape') {
    e.target.blur();
    main.focus();
    return;
  }
  if (typing || e.key === ' ' && (place.name !== 'events' || e.target.matches('button'))) return;
  if (e.key.startsWith('Arrow') && e.target.matches('pre')) return;
  const deed = keys[e.key];
  if (!deed) return;
  e.preventDefault();
  deed();
});
document.addEventListener('click', e => deeds[e.target.closest('[data-do]')?.dataset.do]?.());
document.addEventListener('submit', e => {
  if (!e.target.matches('form.filter')) return;
  e.preventDefault();
  location.hash = to(e.target.dataset.view, Object.fromEntries(new FormData(e.target)));
});
addEventListener('hashchange', go);
document.addEventListener('visibilitychange', run);
run();
