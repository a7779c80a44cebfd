// One controller or work queue: running and pending work.
import { clock, count, facts, h, keyText, link, mark, rate, table, time } from './dom.js';
import { controllerKey, stagesOf } from './feed.js';
import { refused } from './informer.js';
import { state } from './pipeline.js';
import { informerParams, ofController } from './trouble.js';

// keyLink returns a link to a key in the first source that is one of this process's informers.
function keyLink(status, c, text) {
  const informer = (c?.sources ?? []).map(s => (status.informers ?? []).find(i => i.reflector.resource === s.name)).find(Boolean);
  const slash = text.indexOf('/'), colon = text.indexOf(':');
  const cluster = colon >= 0 ? text.slice(0, colon) : '';
  const namespace = slash >= 0 ? text.slice(colon + 1, slash) : '', name = slash >= 0 ? text.slice(slash + 1) : text.slice(colon + 1);
  return link('object', { ...(informer && !cluster ? informerParams(informer) : {}), namespace, name }, text);
}

function keys(status, c, title, list, columns, cells, none) {
  return h('section', null, h('h2', null, title), table(title, ['key', ...columns], (list ?? []).map(k => ({ key: k.key, cells: [keyLink(status, c, k.key), ...cells(k)] })), none));
}

function counts(feed, c) {
  const stage = name => stagesOf(feed.status, 'controller', name).find(s => s.track.name === c.name)?.minute;
  const took = q => q ? `p50 ${time(q.p50Seconds)}, p99 ${time(q.p99Seconds)}` : '–';
  return facts([['state', state(c.state, c.state !== 'Running')], ['since', clock(c.since)], ['workers', `${count(c.active)} of ${count(c.concurrency)} busy`], ['done a second', rate(feed.now(m => m.each[controllerKey(c)]))],
    ['waiting, last minute', took(stage('waiting'))], ['reconciling, last minute', took(stage('reconciling'))], ['successes', count(c.successes)], ['asked for more', count(c.requeues + c.requeuesAfter)], ['failures', count(c.errors)],
    ['terminal', count(c.terminal)], ['panics', count(c.panics)], ['timeouts', count(c.timeouts)], ['parked', `${count(c.parked)} now, ${count(c.parkedTotal)} ever`], ['stale', count(c.stale)]]);
}

export const controller = {
  title: params => params.get('name'),
  asks: params => ({ keys: ['queue', { name: params.get('name'), limit: 100 }] }),
  show({ feed, params, answers }) {
    const { status } = feed, c = (status.controllers ?? []).find(c => c.name === params.get('name')), k = answers.keys;
    const wrong = c ? ofController(status, c) : [];
    if (k?.error) return [refused(k.error)];
    const retried = key => key.requeues ? count(key.requeues) : '–';
    return [wrong.length > 0 && h('ul', { class: 'causes' }, wrong.map(t => h('li', null, mark('bad'), t))), c && counts(feed, c),
      k && [
        keys(status, c, 'Right now', k.running, ['#for', '#priority', 'then'], key => [time(key.forSeconds), key.priority ?? 0, key.again ? 'again' : '–'], 'Nothing.'),
        keys(status, c, `Waiting for a worker: ${count(k.queue?.waiting)}`, k.waiting, ['#for', '#priority', '#failures in a row'], key => [time(key.forSeconds), key.priority ?? 0, retried(key)], 'Nothing.'),
        keys(status, c, `Later: ${count(k.queue?.delayed)}`, k.delayed, ['#in', '#priority', '#failures in a row'], key => [time(key.dueSeconds), key.priority ?? 0, retried(key)], 'Nothing.'),
        k.parked?.length > 0 && keys(status, c, 'Parked until the cache has their last write', k.parked, ['#at most for', 'write'], key => [time(key.dueSeconds), key.write])],
      c && h('section', null, h('h2', null, 'Sources'), table('Sources', ['source', 'state', '#requests', '#failures', 'trouble'], (c.sources ?? []).map((s, n) => ({ key: s.name + n, cells: [
        s.name, s.ended ? mark('idle', 'ended') : s.synced ? mark('good', 'synced') : mark('bad', 'not synced'), count(s.added), count(s.failures), s.waiting ?? s.failure ?? '–'] })), 'None.')),
      c?.failure && h('section', null, h('h2', null, 'Last failure'), h('p', null, `${clock(c.failure.last)} `, keyLink(status, c, keyText(c.failure.request)), ': ', c.failure.err))];
  },
};
