// Live events.
import { count, h, table } from './dom.js';
import { entryRow } from './object.js';

const most = 300; // events to keep
const again = 5000; // ms before a refused stream is requested again

// Stream is the process's event stream, open while a view shows it.
export class Stream {
  entries = []; // newest first
  lost = 0; // events that the process could not send in time
  missed = 0; // events received while paused
  paused = false;
  error = '';
  #source = null;
  #asked = null; // parameters of the open stream
  #of = null; // parameters of the entries
  #retry = null;

  // follow opens the stream with the given parameters, or none for null.
  follow(params) {
    if (params === this.#asked) return;
    clearTimeout(this.#retry);
    this.#source?.close();
    this.#asked = params;
    if (params === null) return;
    if (params !== this.#of) Object.assign(this, { entries: [], lost: 0, missed: 0, paused: false, error: '' });
    this.#of = params;
    this.#open(params);
  }

  #open(params) {
    const source = this.#source = new EventSource('v1/events' + (params ? '?' + params : ''));
    source.addEventListener('open', () => { this.error = ''; });
    source.addEventListener('entry', e => this.#take(JSON.parse(e.data)));
    source.addEventListener('lost', e => { this.lost += JSON.parse(e.data).count; });
    source.addEventListener('error', () => {
      this.error = source.readyState === EventSource.CLOSED ? 'The process refused another stream; retrying soon.' : 'The stream was interrupted; reconnecting.';
      if (source.readyState !== EventSource.CLOSED) return;
      this.#retry = setTimeout(() => this.#asked === params && this.#open(params), again);
    });
  }

  #take(entry) {
    if (this.paused) this.missed++;
    else {
      this.entries.unshift(entry);
      this.entries.length = Math.min(this.entries.length, most);
    }
  }

  pause() {
    this.paused = !this.paused;
    this.missed = 0;
  }
}

// asked returns the parameters of the stream that a view needs; null for none.
export const asked = (view, params) => view !== 'events' ? null
  : new URLSearchParams([...params].filter(([n, v]) => v && ['informer', 'namespace', 'name'].includes(n))).toString();

const field = (name, label, hint, value) => h('label', null, label, ' ', h('input', { name, value, placeholder: hint, autocomplete: 'off', spellcheck: 'false' }));

export const events = {
  title: () => 'Events',
  asks: () => ({}),
  show({ params, stream }) {
    const words = (params.get('text') ?? '').toLowerCase().split(' ').filter(Boolean);
    const rows = stream.entries.map(entryRow).filter(r => words.every(w => r.cells.join(' ').toLowerCase().includes(w)));
    return [
      h('form', { class: 'filter', 'data-view': 'events', role: 'search', 'aria-label': 'Event filter' },
        field('informer', 'Informer', 'any', params.get('informer') ?? ''), field('namespace', 'Namespace', 'any', params.get('namespace') ?? ''), field('name', 'Name', 'any', params.get('name') ?? ''),
        field('text', 'Has', 'any text', params.get('text') ?? ''), h('button', null, 'Filter'),
        h('button', { type: 'button', 'data-do': 'pause', 'aria-pressed': String(stream.paused), 'aria-keyshortcuts': 'p' }, stream.paused ? 'Resume' : 'Pause')),
      h('p', { class: 'dim', role: 'status' }, stream.error || (stream.paused ? `Paused; ${count(stream.missed)} have happened since.` : `${count(rows.length)} shown of the last ${count(stream.entries.length)}.`),
        stream.lost > 0 && ` ${count(stream.lost)} are missing: they came faster than they could be sent.`),
      table('Events', ['time', 'whose', 'what', 'key', ''], rows, 'Nothing has happened since this view was opened.')];
  },
};
