import { type Child, el, named, setText, withoutTurns } from '../lib/dom';
import * as api from './api';

/// Plans that wait for a person. Nothing is changed without the token, which is typed in, kept in
/// this page's memory alone, and sent with nothing but approvals and rejections.
export class Approvals {
  private readonly token = this.input('Token', 'password');
  private readonly by = this.input('Your name', 'text');
  private readonly why = this.input('Why', 'text');
  private readonly list = el('div', { class: 'cards' });
  private readonly message = el('p', { role: 'status', class: 'verdict' });
  private readonly empty = el('p', { class: 'soft' }, 'No plan waits for approval.');
  private shown = '';

  constructor(
    root: HTMLElement,
    player: HTMLElement,
    private readonly on: { show: (plan: api.PlanDetail) => void; done: () => void },
  ) {
    root.append(
      el('div', { class: 'fields' }, ...[this.token, this.by, this.why].map(({ label }) => label)),
      this.message,
      this.empty,
      player,
      this.list,
    );
  }

  private input(name: string, type: string): { label: HTMLElement; field: HTMLInputElement } {
    const field = el('input', {
      type,
      autocomplete: 'off',
      maxlength: type === 'text' ? 200 : 1024,
    });
    return { label: el('label', {}, el('span', {}, name), field), field };
  }

  async refresh(status: api.Status): Promise<void> {
    const plans = await Promise.all(status.waiting.map((id) => api.plan(id)));
    const now = JSON.stringify(plans.map((plan) => [plan.id, plan.state]));
    this.empty.hidden = plans.length > 0;
    setText(
      this.empty,
      status.mode === 'recommend'
        ? 'No plan waits for approval.'
        : `Plans wait for approval in mode recommend; this controller is in mode ${status.mode}.`,
    );
    if (now === this.shown) return; // what somebody is reading stays
    this.shown = now;
    this.list.replaceChildren(...plans.map((plan) => this.card(plan)));
  }

  private card(plan: api.PlanDetail): HTMLElement {
    const gain = plan.decision?.gain;
    const owners = new Map(
      (gain?.jobs ?? []).filter((job) => job.moves > 0).map((job) => [job.job, job.user]),
    );
    const paused = [...owners].flatMap(([job, user], at) => [
      at > 0 ? ', ' : '',
      named(job),
      ...(user === '' ? [] : [' of ', named(user)]),
    ]);
    const fact = (name: string, ...value: Child[]): HTMLElement =>
      el('div', {}, el('dt', {}, name), el('dd', {}, ...value));
    const hours = (value: number | null | undefined, digits: number, what: string): string =>
      typeof value === 'number' ? `${value.toFixed(digits)} GPU hours ${what}` : 'not known';
    const button = (name: string, act: () => void, primary = false): HTMLElement =>
      el(
        'button',
        {
          type: 'button',
          class: primary ? 'primary' : null,
          'aria-label': `${name} plan ${plan.id}`,
          on: { click: act },
        },
        name,
      );
    return el(
      'article',
      { class: 'card', 'data-plan': plan.id },
      el('h3', {}, `Plan ${plan.id}: ${plan.moves} ${plan.moves === 1 ? 'move' : 'moves'}`),
      el(
        'dl',
        {},
        fact('Gain', hours(gain?.regained_gpu_h, 1, 'regained')),
        fact('Cost', hours(gain?.paused_gpu_h, 2, 'paused')),
        fact('Jobs that pause', ...(paused.length > 0 ? paused : ['none'])),
      ),
      el(
        'div',
        { class: 'bar' },
        button('Show', () => this.on.show(plan)),
        button('Approve', () => void this.act(plan.id, 'approve'), true),
        button('Reject', () => void this.act(plan.id, 'cancel')),
      ),
      el(
        'details',
        {},
        el('summary', {}, 'Why'),
        el('pre', { tabindex: 0 }, withoutTurns(plan.explanation)),
      ),
    );
  }

  private async act(id: number, what: 'approve' | 'cancel'): Promise<void> {
    const token = this.token.field.value.trim();
    if (token === '') {
      setText(
        this.message,
        'Type your token first: monkeytree token add NAME --role approve makes one.',
      );
      this.token.field.focus();
      return;
    }
    // A header holds visible ASCII.
    if (/[^\x21-\x7e]/.test(token)) {
      setText(this.message, 'That is no token: it holds characters that none has.');
      return;
    }
    setText(this.message, 'Asked …');
    try {
      await api[what](id, token, this.by.field.value, this.why.field.value);
      setText(this.message, `Plan ${id} is ${what === 'approve' ? 'approved' : 'rejected'}.`);
    } catch (error) {
      setText(
        this.message,
        withoutTurns(`Plan ${id}: ${error instanceof Error ? error.message : String(error)}`),
      );
    }
    this.shown = '';
    this.on.done();
  }
}
