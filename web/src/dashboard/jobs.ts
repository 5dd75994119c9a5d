import { el, named, setText, update } from '../lib/dom';
import type { JobLook } from '../lib/palette';
import type { Cluster } from './model';

/// The table of jobs. Only the rows in view are elements: a cluster may have thousands.

const kRow = 34; // px, as in dashboard.css
const kSpare = 6;

type Key = 'letter' | 'id' | 'user' | 'gpus' | 'racks';
type Filter = 'all' | 'fragmented' | 'moved' | 'opted out';
const kFilters: readonly Filter[] = ['all', 'fragmented', 'moved', 'opted out'];

interface Row {
  job: number;
  letter: number; // by which rows are sorted
  look: JobLook;
  id: string;
  name: string;
  user: string;
  gpus: number;
  racks: number;
  marks: string;
}

/// The coloured letter of a job, as on the map.
export function swatch(look: JobLook): HTMLElement {
  return el(
    'span',
    { class: 'swatch', 'data-color': look.color, 'data-pattern': look.pattern },
    look.letter,
  );
}

export class JobsTable {
  private rows: Row[] = [];
  private shown: Row[] = [];
  private key: Key = 'letter';
  private ascending = true;
  private selected: number | null = null;
  private readonly search = el('input', {
    type: 'search',
    'aria-label': 'Search jobs',
    placeholder: 'Search: id, name, user',
    on: { input: () => this.filter() },
  });
  private readonly which = el(
    'select',
    { 'aria-label': 'Which jobs', on: { change: () => this.filter() } },
    ...kFilters.map((name) => el('option', { value: name }, name)),
  );
  private readonly count = el('span', { class: 'soft', role: 'status' });
  private readonly heads = new Map<Key, HTMLElement>();
  private readonly body = el('tbody');
  private readonly scroller: HTMLElement;

  constructor(
    root: HTMLElement,
    private readonly onSelect: (job: number | null) => void,
  ) {
    const columns: [Key, string][] = [
      ['letter', 'Job'],
      ['id', 'Id and name'],
      ['user', 'User'],
      ['gpus', 'GPUs'],
      ['racks', 'Racks'],
    ];
    const heads = columns.map(([key, name]) => {
      const head = el(
        'th',
        { scope: 'col', 'aria-sort': 'none' },
        el('button', { type: 'button', on: { click: () => this.sortBy(key) } }, name),
      );
      this.heads.set(key, head);
      return head;
    });
    this.scroller = el(
      'div',
      {
        class: 'scroller',
        tabindex: 0,
        role: 'region',
        'aria-label': 'Table of jobs',
        on: { scroll: () => this.paint() },
      },
      el('table', {}, el('thead', {}, el('tr', {}, ...heads)), this.body),
    );
    root.append(el('div', { class: 'bar' }, this.search, this.which, this.count), this.scroller);
    new ResizeObserver(() => this.paint()).observe(this.scroller);
  }

  show(cluster: Cluster, moved: ReadonlySet<string>, selected: number | null): void {
    this.selected = selected;
    this.rows = cluster.jobs.flatMap((job, id) => {
      const racks = cluster.racksOfJob(id).length;
      if (racks === 0) return [];
      const marks = [
        cluster.fragmented(id) && 'fragmented',
        moved.has(job.id) && 'moved',
        !job.movable && 'opted out',
      ].filter((mark) => mark !== false);
      return [
        {
          job: id,
          letter: job.look.order,
          look: job.look,
          id: job.id,
          name: job.name,
          user: job.user,
          gpus: cluster.gpus(id),
          racks,
          marks: marks.join(', '),
        },
      ];
    });
    this.filter();
  }

  select(job: number | null): void {
    this.selected = job;
    const at = this.shown.findIndex((row) => row.job === job);
    const top = at * kRow;
    const { scrollTop, clientHeight } = this.scroller;
    if (at >= 0 && (top < scrollTop || top > scrollTop + clientHeight - 2 * kRow)) {
      this.scroller.scrollTop = Math.max(0, top - clientHeight / 2);
    }
    this.paint();
  }

  private sortBy(key: Key): void {
    this.ascending = this.key === key ? !this.ascending : true;
    this.key = key;
    this.filter();
  }

  private filter(): void {
    const text = this.search.value.trim().toLowerCase();
    const which = this.which.value as Filter;
    this.shown = this.rows.filter(
      (row) =>
        (which === 'all' || row.marks.includes(which)) &&
        (text === '' || `${row.id}\n${row.name}\n${row.user}`.toLowerCase().includes(text)),
    );
    const sign = this.ascending ? 1 : -1;
    const compare = new Intl.Collator('en', { numeric: true }).compare;
    this.shown.sort((a, b) => {
      const one = a[this.key];
      const other = b[this.key];
      const order =
        typeof one === 'number' && typeof other === 'number'
          ? one - other
          : compare(String(one), String(other));
      return sign * order || a.job - b.job;
    });
    for (const [key, head] of this.heads) {
      const sort = key !== this.key ? 'none' : this.ascending ? 'ascending' : 'descending';
      update(head, { 'aria-sort': sort });
    }
    setText(this.count, `${this.shown.length} of ${this.rows.length}`);
    this.paint();
  }

  private paint(): void {
    const first = Math.max(0, Math.floor(this.scroller.scrollTop / kRow) - kSpare);
    const last = Math.min(
      this.shown.length,
      first + Math.ceil(this.scroller.clientHeight / kRow) + 2 * kSpare,
    );
    const spacer = (rows: number): HTMLElement | null => {
      if (rows === 0) return null;
      const cell = el('td', { colspan: 5 });
      cell.style.height = `${rows * kRow}px`;
      return el('tr', { class: 'spacer', 'aria-hidden': 'true' }, cell);
    };
    const rows = this.shown.slice(first, last).map((row) => this.row(row));
    const focused = (document.activeElement as HTMLElement | null)?.dataset['job'];
    this.body.replaceChildren(
      ...[spacer(first), ...rows, spacer(this.shown.length - last)].filter((node) => node !== null),
    );
    if (focused === undefined) return;
    this.body
      .querySelector<HTMLElement>(`[data-job="${CSS.escape(focused)}"]`)
      ?.focus({ preventScroll: true });
  }

  private row(row: Row): HTMLElement {
    const selected = row.job === this.selected;
    const choose = (): void => this.onSelect(selected ? null : row.job);
    return el(
      'tr',
      { 'data-selected': selected },
      el('td', {}, swatch(row.look)),
      el(
        'td',
        {},
        el(
          'button',
          {
            type: 'button',
            class: 'plain',
            'data-job': row.id,
            'aria-pressed': String(selected),
            title: row.marks,
            on: { click: choose },
          },
          el('b', {}, named(row.id)),
          ' ',
          named(row.name),
          ' ',
          row.marks !== '' && el('i', {}, row.marks),
        ),
      ),
      el('td', {}, named(row.user)),
      el('td', { class: 'number' }, row.gpus),
      el('td', { class: 'number' }, row.racks),
    );
  }
}
