import { el, setText, withoutTurns } from '../lib/dom';
import * as api from './api';

const timeOf = (seconds: number): string =>
  new Date(seconds * 1000).toISOString().replace('T', ' ').slice(0, 19) + ' UTC';

/// The journal: a slider over the plans, each shown with the cluster that it was made for, and the
/// events.
export class History {
  private plans: api.PlanHead[] = [];
  private readonly slider = el('input', {
    type: 'range',
    min: 0,
    max: 0,
    'aria-label': 'Plan in the journal',
    on: { change: () => void this.choose(), input: () => this.name() },
  });
  private readonly title = el('p', { role: 'status', class: 'verdict' });
  private readonly detail = el('div');
  private readonly events = el('ol', { class: 'events', 'aria-label': 'Events, newest first' });

  constructor(
    root: HTMLElement,
    private readonly player: HTMLElement,
    private readonly on: { show: (plan: api.PlanDetail) => void },
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
    const atEnd = Number(this.slider.value) >= this.plans.length - 1;
    this.plans = plans.reverse();
    this.slider.max = String(Math.max(0, this.plans.length - 1));
    if (atEnd) this.slider.value = this.slider.max;
    this.slider.disabled = this.plans.length === 0;
    this.name();
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
    const carriedOut = this.plans.filter((plan) => plan.state === 'done').slice(-10);
    const details = await Promise.all(carriedOut.map((plan) => api.plan(plan.id)));
    return new Set(
      details.flatMap((plan) => (plan.plan?.rounds ?? []).flat().map((step) => step.job)),
    );
  }

  private name(): void {
    const plan = this.plans[Number(this.slider.value)];
    setText(
      this.title,
      plan
        ? `Plan ${plan.id}, ${timeOf(plan.made_s)}: ${plan.moves} ${plan.moves === 1 ? 'move' : 'moves'}, ` +
            `${plan.state}${plan.reason === '' ? '' : `, ${withoutTurns(plan.reason)}`}`
        : 'The journal holds no plan yet.',
    );
  }

  private async choose(): Promise<void> {
    const plan = this.plans[Number(this.slider.value)];
    if (!plan) return;
    try {
      const detail = await api.plan(plan.id);
      this.detail.replaceChildren(
        this.player,
        el(
          'pre',
          { tabindex: 0, role: 'region', 'aria-label': 'Why and how it went' },
          withoutTurns(detail.explanation),
        ),
      );
      this.on.show(detail);
    } catch (error) {
      setText(this.title, error instanceof Error ? error.message : String(error));
    }
  }
}
