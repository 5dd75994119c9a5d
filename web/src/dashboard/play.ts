import { el, setEnabled, setText } from '../lib/dom';
import type { Step } from './model';

/// Moves that are shown round by round, forwards and backwards.
export class Player {
  private at = 0;
  private busy = false;
  private turn = 0; // of load(): what began before it has no say after it
  private rounds: Step[][] = [];
  private readonly said = el('span', { role: 'status' });
  private readonly back = this.button('Back', () => this.go(this.at - 1));
  private readonly next = this.button('Next', () => this.go(this.at + 1));
  private readonly all = this.button('Play', () => this.playAll());
  readonly element = el('div', { class: 'bar player' }, this.all, this.back, this.next, this.said);

  /// `show(n)` shows the cluster after the first n rounds; `fly(n)` lets the moves of round n be
  /// seen; `at(n)` hears where it stands. `unit`: what a round is called.
  constructor(
    private readonly on: {
      show: (rounds: number) => void;
      fly: (round: number) => Promise<void>;
      at?: (rounds: number) => void;
    },
    private readonly unit = 'round',
  ) {
    setText(this.next, `Next ${unit}`);
    this.element.hidden = true;
  }

  private button(name: string, act: () => void | Promise<void>): HTMLButtonElement {
    return el('button', { type: 'button', on: { click: () => void act() } }, name);
  }

  /// Stands after the first `at` rounds.
  load(rounds: Step[][], at = 0): void {
    this.turn++;
    this.rounds = rounds;
    this.at = at;
    this.busy = false;
    this.element.hidden = rounds.length === 0;
    this.say();
  }

  get length(): number {
    return this.rounds.length;
  }

  private say(): void {
    const moves = this.rounds[this.at - 1]?.length ?? 0;
    setText(
      this.said,
      this.at === 0
        ? 'before the moves'
        : `after ${this.unit} ${this.at} of ${this.rounds.length}` +
            (this.unit === 'round' ? `: ${moves} ${moves === 1 ? 'move' : 'moves'}` : ''),
    );
    setEnabled(this.back, !this.busy && this.at > 0);
    setEnabled(this.next, !this.busy && this.at < this.rounds.length);
    setEnabled(this.all, !this.busy);
    if (this.rounds.length > 0) this.on.at?.(this.at);
  }

  private async go(to: number): Promise<void> {
    if (this.busy || to < 0 || to > this.rounds.length) return;
    if (to < this.at) {
      this.at = to;
      this.on.show(to);
    } else {
      this.busy = true;
      this.say();
      const turn = this.turn;
      await this.on.fly(this.at);
      if (turn !== this.turn) return;
      this.at = to;
      this.busy = false;
    }
    this.say();
  }

  private async playAll(): Promise<void> {
    if (this.busy) return;
    if (this.at === this.rounds.length) await this.go(0);
    const turn = this.turn;
    while (this.at < this.rounds.length && turn === this.turn) await this.go(this.at + 1);
  }
}
