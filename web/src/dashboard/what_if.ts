import { el, named, setEnabled, setText, withoutTurns } from '../lib/dom';
import * as api from './api';
import type { PlanFile, SnapshotFile, Step } from './model';

/// What would be: changes to the cluster that is shown, planned by the server, shown round by round.

type Kind = api.WhatIfChange['do'];
interface Field {
  name: string;
  label: string;
  type: 'text' | 'number';
  optional?: boolean;
  value?: string;
}
const kForms: Record<Kind, { title: string; fields: Field[] }> = {
  uplinks: {
    title: 'Another bound λ',
    fields: [
      { name: 'uplinks', label: 'Uplinks', type: 'number', value: '2' },
      { name: 'rack', label: 'Rack (empty: every rack)', type: 'text', optional: true },
    ],
  },
  'fail-uplink': {
    title: 'An uplink fails',
    fields: [
      { name: 'rack', label: 'Rack', type: 'text' },
      { name: 'spine', label: 'Spine (empty: the last)', type: 'number', optional: true },
    ],
  },
  drain: { title: 'A rack is drained', fields: [{ name: 'rack', label: 'Rack', type: 'text' }] },
  'add-job': {
    title: 'A job comes',
    fields: [
      { name: 'id', label: 'Id', type: 'text', value: 'new' },
      { name: 'nodes', label: 'Nodes', type: 'number', optional: true, value: '4' },
      { name: 'gpus', label: 'or GPUs', type: 'number', optional: true },
      { name: 'rings', label: 'Rings', type: 'number', optional: true, value: '1' },
    ],
  },
  'remove-job': { title: 'A job ends', fields: [{ name: 'job', label: 'Job', type: 'text' }] },
};

const kStatus: Record<string, string> = {
  compliant: 'Every rack is within its bound: no move is needed.',
  optimal: 'The fewest moves, proved.',
  feasible: 'A plan; a limit was hit before it was proved to be the fewest.',
  infeasible: 'Proved: no placement meets every bound.',
  unknown: 'A limit was hit: no plan was found, and none was ruled out.',
};

export interface Scenario {
  answer: api.WhatIfAnswer;
  snapshot: SnapshotFile;
  rounds: Step[][];
}

/// Hands a text to the browser as a file.
export function download(name: string, text: string): void {
  const url = URL.createObjectURL(new Blob([text], { type: 'text/plain' }));
  const link = el('a', { href: url, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  URL.revokeObjectURL(url);
}

export class WhatIf {
  private changes: api.WhatIfChange[] = [];
  private readonly inputs = new Map<string, HTMLInputElement>();
  private readonly fields = el('div', { class: 'fields' });
  private readonly list = el('ol', { class: 'changes', 'aria-label': 'Changes' });
  private readonly bestEffort = el('input', { type: 'checkbox' });
  private readonly message = el('p', { role: 'status', class: 'verdict' });
  private readonly result = el('div', { hidden: true });
  private readonly explanation = el('pre', {
    tabindex: 0,
    role: 'region',
    'aria-label': 'Explanation',
  });
  private readonly kind = el(
    'select',
    { 'aria-label': 'Change', on: { change: () => this.showFields() } },
    ...Object.entries(kForms).map(([kind, form]) => el('option', { value: kind }, form.title)),
  );
  private readonly compute = el('button', { type: 'submit', class: 'primary' }, 'Fewest moves');
  private answer: api.WhatIfAnswer | null = null;
  private readonly stop = el(
    'button',
    { type: 'button', on: { click: () => this.halt() } },
    'Stop planning',
  );
  private turn = 0;
  private planning: AbortController | null = null;

  constructor(
    root: HTMLElement,
    player: HTMLElement,
    private readonly on: {
      /// The snapshot to start from; undefined: what the server has.
      snapshot: () => unknown;
      show: (scenario: Scenario | null) => void;
    },
  ) {
    const exports = (['snapshot', 'plan', 'case'] as const).map((what) =>
      el(
        'button',
        { type: 'button', on: { click: () => this.export(what) } },
        { snapshot: 'Snapshot', plan: 'Plan', case: 'Text case' }[what],
      ),
    );
    this.result.append(
      player,
      el('div', { class: 'bar' }, el('span', {}, 'Save:'), ...exports),
      this.explanation,
    );
    root.append(
      el(
        'form',
        {
          on: {
            submit: (event) => {
              event.preventDefault();
              void this.run();
            },
          },
        },
        el('div', { class: 'fields' }, el('label', {}, el('span', {}, 'Change'), this.kind)),
        this.fields,
        el(
          'div',
          { class: 'bar' },
          el('button', { type: 'button', on: { click: () => this.add() } }, 'Add another'),
          this.compute,
          this.stop,
          el('button', { type: 'button', on: { click: () => this.reset() } }, 'Start over'),
        ),
        this.list,
        el('label', {}, this.bestEffort, ' as near as possible where not every bound can hold'),
      ),
      this.message,
      this.result,
    );
    this.plans(null);
    this.showFields();
  }

  /// The rack that is selected on the map goes into the form.
  offerRack(name: string): void {
    const input = this.inputs.get('rack');
    if (input && this.kind.value !== 'uplinks') input.value = name;
  }
  offerJob(id: string): void {
    const input = this.inputs.get('job');
    if (input) input.value = id;
  }

  /// The fields of the change that is chosen; `empty`: without the values that one may begin with.
  private showFields(empty = false): void {
    this.inputs.clear();
    this.fields.replaceChildren(
      ...kForms[this.kind.value as Kind].fields.map((field) => {
        const input = el('input', {
          name: field.name,
          type: field.type,
          value: empty ? '' : (field.value ?? ''),
          min: field.type === 'number' ? 0 : null,
          autocomplete: 'off',
        });
        this.inputs.set(field.name, input);
        return el('label', {}, el('span', {}, field.label), input);
      }),
    );
  }

  /// The change in the form, or null after saying what it lacks.
  private read(): api.WhatIfChange | null {
    const change: api.WhatIfChange = { do: this.kind.value as Kind };
    for (const field of kForms[change.do].fields) {
      const text = this.inputs.get(field.name)?.value.trim() ?? '';
      if (text === '' && field.optional) continue;
      if (text === '') {
        this.say(`${field.label}: fill it in first.`);
        this.inputs.get(field.name)?.focus();
        return null;
      }
      change[field.name] = field.type === 'number' ? Number(text) : text;
    }
    if (change['gpus'] !== undefined) delete change['nodes'];
    return change;
  }

  private add(): void {
    const change = this.read();
    if (!change) return;
    this.forget();
    this.changes.push(change);
    this.showChanges();
    this.showFields(true); // the same change does not come twice
    this.say('Added; the next change comes on top.');
  }

  private remove(at: number): void {
    this.forget();
    this.changes.splice(at, 1);
    this.showChanges();
    this.say('Removed. Fewest moves plans again.');
    // The button that was pressed is gone.
    const buttons = this.list.querySelectorAll('button');
    (buttons[Math.min(at, buttons.length - 1)] ?? this.kind).focus();
  }

  private showChanges(): void {
    this.list.replaceChildren(
      ...this.changes.map((change, at) => {
        const { do: kind, ...rest } = change;
        const title = kForms[kind].title;
        const values = Object.entries(rest);
        const text = values.map(([name, value]) => `${name} ${value}`).join(', ');
        return el(
          'li',
          {},
          `${title}: `,
          ...values.flatMap(([name, value], i) => [
            `${i > 0 ? ', ' : ''}${name} `,
            named(String(value)),
          ]),
          ' ',
          el(
            'button',
            {
              type: 'button',
              'aria-label': `Remove: ${title}: ${text}`,
              on: { click: () => this.remove(at) },
            },
            '×',
          ),
        );
      }),
    );
  }

  private say(text: string): void {
    setText(this.message, withoutTurns(text));
  }

  /// An answer to other changes than those that stand there is taken from the page.
  private forget(): void {
    this.turn++;
    this.planning?.abort();
    this.result.hidden = true;
    if (this.answer) this.on.show(null);
    this.answer = null;
  }

  reset(): void {
    this.forget();
    this.changes = [];
    this.showChanges();
    this.showFields();
    this.say('');
    this.on.show(null);
  }

  /// The changes of the list and the one in the form; null after saying what that one lacks.
  private all(): api.WhatIfChange[] | null {
    const empty = [...this.inputs.values()].every((input) => input.value.trim() === '');
    if (empty && this.changes.length > 0) return this.changes;
    const change = this.read();
    return change && [...this.changes, change];
  }

  private async run(): Promise<void> {
    if (this.planning) return;
    const changes = this.all();
    if (!changes) return;
    const turn = ++this.turn;
    const planning = new AbortController();
    this.plans(planning);
    this.say('Planning …');
    try {
      const snapshot = this.on.snapshot();
      const answer = await api.whatIf(
        {
          ...(snapshot === undefined ? {} : { snapshot }),
          changes,
          best_effort: this.bestEffort.checked,
        },
        planning.signal,
      );
      if (turn === this.turn) this.take(answer);
    } catch (error) {
      if (turn !== this.turn) return;
      this.forget();
      this.say(error instanceof Error ? error.message : String(error));
    } finally {
      if (this.planning === planning) this.plans(null);
    }
  }

  private plans(now: AbortController | null): void {
    this.planning = now;
    setEnabled(this.compute, !now);
    this.stop.hidden = !now;
  }

  private halt(): void {
    this.forget();
    this.plans(null);
    this.say('Stopped.');
    this.compute.focus();
  }

  private take(answer: api.WhatIfAnswer): void {
    const plan = JSON.parse(answer.files.plan) as PlanFile;
    const moves = `${answer.moves} ${answer.moves === 1 ? 'move' : 'moves'}`;
    const gain = answer.gain.regained_gpu_h;
    const changes = answer.changes.join('; ');
    this.say(
      `${changes === '' ? '' : `${changes[0]?.toUpperCase()}${changes.slice(1)}. `}${kStatus[answer.status] ?? answer.status}` +
        (answer.moves > 0
          ? ` ${moves} in ${plan.rounds.length} ${plan.rounds.length === 1 ? 'round' : 'rounds'}, ` +
            `${gain === null ? 'an unknown number of' : `about ${gain.toFixed(1)}`} GPU hours regained for ${answer.gain.paused_gpu_h.toFixed(2)} paused.`
          : ''),
    );
    setText(this.explanation, withoutTurns(answer.explanation));
    this.answer = answer;
    this.result.hidden = false;
    this.on.show({
      answer,
      snapshot: JSON.parse(answer.files.snapshot) as SnapshotFile,
      rounds: plan.rounds,
    });
  }

  private export(what: 'snapshot' | 'plan' | 'case'): void {
    if (!this.answer) return;
    const names = { snapshot: 'snapshot.json', plan: 'plan.json', case: 'cluster.case' };
    download(names[what], this.answer.files[what]);
  }
}
