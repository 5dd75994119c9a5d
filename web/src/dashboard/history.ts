import { el, setText, withoutTurns } from '../lib/dom';
import * as api from './api';
import type { Step } from './model';
import { type Moment, momentInWords, momentsOf, planInWords, timeOf } from './moments';

const kAtOnce = 8; // plans that are asked for together

/// A plan of the journal and its moments.
interface Entry {
  head: api.PlanHead;
  detail: api.PlanDetail | undefined; // undefined: not read yet
  moments: Moment[];
}

/// The journal: a slider that goes from move to move through its plans, each shown on the cluster
/// that it was made for, and the events.
export class History {
  private entries: Entry[] = [];
  private at = { plan: 0, moves: 0 }; // where the slider stands: a plan's id, moves made of it
  private readonly slider = el('input', {
    type: 'range',
    min: 0,
    max: 0,
    'aria-label': 'Moves in the journal',
    on: { change: () => void this.choose(), input: () => this.slid() },
  });
  private readonly title = el('p', { role: 'status', class: 'verdict' });
  private readonly detail = el('div');
  private readonly events = el('ol', { class: 'events', 'aria-label': 'Events, newest first' });
  private shown = -1; // the plan below the slider

  constructor(
    private readonly root: HTMLElement,
    private readonly player: HTMLElement,
    private readonly on: {
      /// The plan after the first `at` of its moments.
      show: (plan: api.PlanDetail, rounds: Step[][], at: number) => void;
    },
  ) {
    const show = el('button', { type: 'button', on: { click: () => void this.choose() } }, 'Show');
    root.append(
      this.slider,
      el('div', { class: 'bar' }, show),
      this.title,
      this.detail,
      el('h3', {}, 'Events'),
      this.events,
    );
  }

  /// Ids of the jobs that moved lately.
  async refresh(): Promise<Set<string>> {
    const [plans, events] = await Promise.all([api.plans(), api.history()]);
    const known = new Map(this.entries.map((entry) => [entry.head.id, entry]));
    const entries = plans.reverse().map((head): Entry => {
      const old = known.get(head.id);
      // What has ended does not change any more.
      if (old?.detail && old.head.ended_s !== null) return old;
      return { head, detail: undefined, moments: [] };
    });
    const lately = entries.filter(({ head }) => head.state === 'done').slice(-10);
    await this.read(this.root.hidden ? lately : entries);
    const atEnd = this.slider.value === this.slider.max;
    this.entries = entries;
    this.measure(atEnd);
    this.events.replaceChildren(
      ...events
        .reverse()
        .map((event) =>
          el(
            'li',
            {},
            el('time', {}, timeOf(event.time_s)),
            ' ',
            el('b', {}, event.kind),
            ` ${withoutTurns(event.text)}`,
          ),
        ),
    );
    const moved = lately.flatMap((entry) => entry.moments.flatMap((moment) => moment.steps));
    return new Set(moved.map((step) => step.job));
  }

  /// The page of the journal is looked at: how many moves each plan has is needed now.
  async open(): Promise<void> {
    try {
      await this.read(this.entries);
      this.measure(this.slider.value === this.slider.max);
    } catch (error) {
      setText(this.title, error instanceof Error ? error.message : String(error));
    }
  }

  /// The player has gone to another moment of the plan that is shown.
  playedTo(moves: number): void {
    this.at = { plan: this.shown, moves };
    this.place();
  }

  private async read(entries: readonly Entry[]): Promise<void> {
    const missing = entries.filter((entry) => !entry.detail);
    while (missing.length > 0) {
      await Promise.all(
        missing.splice(0, kAtOnce).map(async (entry) => {
          entry.detail = await api.plan(entry.head.id);
          entry.moments = momentsOf(entry.detail);
        }),
      );
    }
  }

  /// The slider gets a place for each plan and each of its moves, and stays where it stands.
  private measure(atEnd: boolean): void {
    const count = this.entries.reduce((sum, entry) => sum + 1 + entry.moments.length, 0);
    this.slider.max = String(Math.max(0, count - 1));
    this.slider.disabled = count === 0;
    const last = this.entries.at(-1);
    if (atEnd && last) this.at = { plan: last.head.id, moves: last.moments.length };
    this.place();
  }

  private place(): void {
    let before = 0;
    for (const { head, moments } of this.entries) {
      if (head.id >= this.at.plan) break;
      before += 1 + moments.length;
    }
    this.slider.value = String(before + this.at.moves);
    this.name();
  }

  private slid(): void {
    let left = Number(this.slider.value);
    for (const { head, moments } of this.entries) {
      this.at = { plan: head.id, moves: left };
      if (left <= moments.length) break;
      left -= 1 + moments.length;
    }
    this.name();
  }

  private entry(): Entry | undefined {
    return this.entries.find(({ head }) => head.id === this.at.plan);
  }

  private name(): void {
    const entry = this.entry();
    const moment = entry?.moments[this.at.moves - 1];
    const text = entry
      ? planInWords(entry.head, entry.detail) +
        (moment
          ? `. Move ${this.at.moves} of ${entry.moments.length}: ${momentInWords(moment)}.`
          : '.')
      : 'The journal holds no plan yet.';
    setText(this.title, withoutTurns(text));
    this.slider.setAttribute('aria-valuetext', withoutTurns(text));
  }

  private async choose(): Promise<void> {
    this.slid();
    const entry = this.entry();
    if (!entry) return;
    const { moves } = this.at;
    try {
      await this.read([entry]);
      if (!entry.detail) return;
      this.shown = entry.head.id;
      this.detail.replaceChildren(
        this.player,
        el(
          'pre',
          { tabindex: 0, role: 'region', 'aria-label': 'Why and how it went' },
          withoutTurns(entry.detail.explanation),
        ),
      );
      this.on.show(
        entry.detail,
        entry.moments.map((moment) => moment.steps),
        moves,
      );
    } catch (error) {
      setText(this.title, error instanceof Error ? error.message : String(error));
    }
  }
}
