// A diagram of the path of a change: server, reflector, delta queue, cache, handlers, work queues,
// reconcilers.
import { count, h, link, mark, rate, time } from './dom.js';
import { controllerKey, informerKey, informerName, stagesOf } from './feed.js';
import { informerParams, ofInformer } from './trouble.js';
import { spark } from './chart.js';

const mostHandlers = 6;

const goodStates = new Set(['Watching', 'Running', 'open']);
export const state = (word, failing) => mark(failing ? 'bad' : goodStates.has(word) ? 'good' : 'idle', word ?? 'Unknown');

const stage = (name, big, ...small) => h('div', { class: 'stage' }, h('span', { class: 'name' }, name), h('span', { class: 'big' }, big), small.map(s => s && h('span', { class: 'small' }, s)));

// controllerOf returns the controller that a handler belongs to.
const controllerOf = (status, handler) => (status.controllers ?? []).find(c => handler.name.startsWith(`controller ${c.name}: `));

function handlerLane(feed, i, d) {
  const { status } = feed;
  const c = controllerOf(status, d);
  const lag = stagesOf(status, 'handler', 'lagging').find(s => s.track.name === d.name && s.track.informer === i.reflector.resource);
  const late = d.behindSeconds > 1;
  const handler = stage(c ? 'handler of ' + c.name : d.name,
    d.pending > 0 ? [late && mark('bad'), count(d.pending), ' pending'] : 'none pending',
    d.behindSeconds > 0 ? `${time(d.behindSeconds)} behind` : lag ? `p99 ${time(lag.minute.p99Seconds)}` : `${count(d.delivered)} calls`);
  if (!c) return [handler];
  const work = stagesOf(status, 'controller', 'reconciling').find(s => s.track.name === c.name);
  const stuck = c.queue?.longestRunningSeconds > 10;
  return [handler,
    stage('work queue', [count(c.queue?.waiting), ' waiting'], `${count(c.queue?.delayed)} later${c.parked ? `, ${count(c.parked)} parked` : ''}`),
    stage(link('controller', { name: c.name }, c.name), [c.state !== 'Running' ? mark('bad', c.state) : [stuck && mark('bad'), `${count(c.active)} of ${count(c.concurrency)} busy`]],
      [rate(feed.now(m => m.each[controllerKey(c)])), '/s', work ? `, p99 ${time(work.minute.p99Seconds)}` : ''])];
}

// pipeline draws one informer.
export function pipeline(feed, i) {
  const { status } = feed, r = i.reflector, wrong = ofInformer(status, i);
  const key = informerKey(i), handlers = i.handlers ?? [], name = informerName(i);
  const decoding = stagesOf(status, 'informer', 'decoding').find(s => s.track.name === r.resource);
  const applying = stagesOf(status, 'informer', 'applying').find(s => s.track.name === r.resource);
  const lanes = handlers.slice(0, mostHandlers).map(d => ({ key: d.name + d.place, cells: handlerLane(feed, i, d) }));
  return h('article', { class: wrong.length ? 'pipeline wrong' : 'pipeline', 'data-key': key, 'aria-label': 'Pipeline of ' + name },
    h('header', null, h('h3', null, link('informer', informerParams(i), name)), h('span', { class: 'dim' }, i.type, i.store ? ', ' + i.store : ''),
      h('span', { class: 'push' }, spark(feed.rates(m => m.each[key])), ' ', h('b', null, rate(feed.now(m => m.each[key]))), ' events/s')),
    wrong.length > 0 && h('ul', { class: 'causes' }, wrong.map(text => h('li', null, mark('bad'), text))),
    h('div', { class: 'stages' },
      stage('server', r.failures ? ['failures ', count(r.failures)] : 'no failures', `lists ${count(r.lists)}, watches ${count(r.watches)}`),
      stage('reflector', state(r.state, r.attempts > 0), decoding ? `decoding p99 ${time(decoding.minute.p99Seconds)}` : `since ${new Date(r.since).toTimeString().slice(0, 8)}`),
      stage('delta queue', count(i.queueDepth), i.queueAgeSeconds > 0 ? `oldest ${time(i.queueAgeSeconds)}` : applying ? `p99 ${time(applying.minute.p99Seconds)}` : 'empty'),
      stage('cache', [count(i.objects), ' objects'], i.synced ? `complete to ${i.rv}` : mark('bad', 'not synced')),
      h('div', { class: 'lanes' }, lanes.length ? lanes.map(l => h('div', { class: 'lane', 'data-key': l.key }, l.cells)) : h('div', { class: 'lane' }, stage('handlers', 'none')),
        handlers.length > mostHandlers && link('informer', informerParams(i), `${count(handlers.length - mostHandlers)} more handlers`))));
}
