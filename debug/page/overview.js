// The process as a whole.
import { count, facts, h, keyText, link, mark, rate, table, time, clock } from './dom.js';
import { controllerKey, informerKey } from './feed.js';
import { chart } from './chart.js';
import { pipeline, state } from './pipeline.js';
import { ofController, ofInformer, ofProcess } from './trouble.js';

const mostBusy = 6; // controllers whose current work is requested
const mostPipelines = 60;

function health(status) {
  const wrong = ofProcess(status), informers = status.informers ?? [], controllers = status.controllers ?? [];
  if (!wrong.length) {
    return h('section', { 'aria-label': 'Health', class: 'health' }, mark('good', `All is well: ${count(informers.length)} informers, ${count(controllers.length)} controllers.`));
  }
  return h('section', { 'aria-label': 'Health', class: 'health' }, h('h2', null, `${wrong.length} of ${informers.length + controllers.length} ${wrong.length === 1 ? 'needs' : 'need'} a look`),
    h('ul', { class: 'causes' }, wrong.map(t => h('li', { 'data-key': t.key }, mark('bad'), link(t.view, t.params, t.whose), ' ', t.texts[0],
      t.texts.length > 1 && h('span', { class: 'dim' }, ` and ${t.texts.length - 1} more`)))));
}

export function charts(feed) {
  const named = (name, points) => ({ name, points });
  return h('section', { class: 'charts', 'aria-label': 'The last five minutes' },
    chart('events', 'Events/s', rate, [named('all', feed.rates(m => m.events))]),
    chart('reconciles', 'Reconciles/s', rate, [named('all', feed.rates(m => m.reconciles)), named('failed', feed.rates(m => m.errors))]),
    chart('lag', 'Slowest handler’s lag', time, [named('now', feed.series('lagNow')), named('p99', feed.series('lag99'))]),
    chart('work', 'Slowest reconciles', time, [named('now', feed.series('workNow')), named('p99', feed.series('work99'))]));
}

// doing describes what a controller is doing right now, and since when.
function doing(c, answer) {
  if (answer?.error) return answer.error.message;
  if (!c.active) return h('span', { class: 'dim' }, 'nothing');
  const running = answer?.running ?? [];
  return running.slice(0, 3).map((k, n) => [n > 0 && ', ', `${k.key} for ${time(k.forSeconds)}`]);
}

function controllers(feed, answers) {
  const { status } = feed;
  return h('section', { 'aria-labelledby': 'controllers' }, h('h2', { id: 'controllers' }, 'Controllers'),
    table('Controllers', ['controller', 'state', 'right now', '#done/s', '#busy', '#waiting', '#oldest', '#later', '#failed', 'last failure'],
      (status.controllers ?? []).map(c => ({ key: c.name, cells: [
        link('controller', { name: c.name }, c.name), state(c.state, c.state !== 'Running' || ofController(status, c).length > 0), doing(c, answers[controllerKey(c)]),
        rate(feed.now(m => m.each[controllerKey(c)])), `${count(c.active)}/${count(c.concurrency)}`, count(c.queue?.waiting),
        c.queue?.oldestWaitingSeconds ? time(c.queue.oldestWaitingSeconds) : '–', count((c.queue?.delayed ?? 0) + c.parked), count(c.errors),
        c.failure ? [h('span', { class: 'dim' }, clock(c.failure.last), ' '), keyText(c.failure.request), ': ', c.failure.err] : '–'] })),
      'This process exposes no controllers.'));
}

function queues(status) {
  if (!status.queues?.length) return null;
  return h('section', null, h('h2', null, 'Work queues'), table('Work queues', ['queue', 'state', '#waiting', '#oldest', '#running', '#longest', '#later'], status.queues.map(q => ({ key: q.name, cells: [
    link('controller', { name: q.name }, q.name), state(q.state), count(q.waiting), time(q.oldestWaitingSeconds), count(q.running), time(q.longestRunningSeconds), count(q.delayed)] }))));
}

function election(status) {
  const e = status.election;
  return e && h('section', null, h('h2', null, 'Election'), facts([['lease', keyText(e.lease)], ['this replica', e.identity],
    ['state', e.leading ? mark('good', 'leads') : mark('idle', 'waits')], ['holder', e.holder || 'nobody'], ['since', e.since && clock(e.since)], ['renewed', e.renewed && clock(e.renewed)]]));
}

export const overview = {
  title: () => '',
  asks: (_, status) => Object.fromEntries((status.controllers ?? []).filter(c => c.active > 0).slice(0, mostBusy).map(c => [controllerKey(c), ['queue', { name: c.name, limit: 3 }]])),
  show({ feed, answers }) {
    const { status } = feed, wrong = new Map((status.informers ?? []).map(i => [i, ofInformer(status, i).length > 0]));
    const informers = (status.informers ?? []).toSorted((a, b) => wrong.get(b) - wrong.get(a) || informerKey(a).localeCompare(informerKey(b)));
    return [health(status), charts(feed),
      h('section', { 'aria-labelledby': 'informers' }, h('h2', { id: 'informers' }, 'Informers'),
        informers.length ? informers.slice(0, mostPipelines).map(i => pipeline(feed, i)) : h('p', { class: 'none' }, 'This process exposes no informers.'),
        informers.length > mostPipelines && table('More informers', ['informer', 'state', '#objects'], informers.slice(mostPipelines).map(i => ({ key: informerKey(i), cells: [
          link('informer', { informer: i.reflector.resource, type: i.type, cluster: i.cluster ?? '' }, i.reflector.resource), state(i.reflector.state, wrong.get(i)), count(i.objects)] })))),
      controllers(feed, answers), queues(status), election(status)];
  },
};
