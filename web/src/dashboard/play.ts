import { el, setEnabled, setText } from '../lib/dom';
import type { Step } from './model';

/// Rounds of moves that are shown one after the other, forwards and backwards.
export class Player {
  private at = 0;
  private busy = false;
  private turn = 0; // of load(): what began before it has no say after it
  private rounds: Step[][] = [];
  private readonly said = el('span', { role: 'status' });
  private readonly back = this.button('Back', () => this.go(this.at - 1));
  private readonly next = this.button('Next round', () => this.go(this.at + 1));
  private readonly all = this.button('Play', () => this.playAll());
  readonly element = el('div', { class: 'bar player' }, this.all, this.back, this.next, this.said);

  /// `show(n)` shows the cluster after the first n rounds; `fly(n)` lets the moves of round n be seen.
  constructor(
    private readonly on: {
      show: (rounds: number) => void;
      fly: (round: number) => Promise<void>;
    },
  ) {
    this.element.hidden = true;
  }

  private button(name: string, act: () => void | Promise<void>): HTMLButtonElement {
    return el('button', { type: 'button', on: { click: () => void act() } }, name);
  }

  load(rounds: Step[][]): void {
    this.turn++;
    this.rounds = rounds;
    this.at = 0;
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
        : `after round ${this.at} of ${this.rounds.length}: ${moves} ${moves === 1 ? 'move' : 'moves'}`,
    );
    setEnabled(this.back, !this.busy && this.at > 0);
    setEnabled(this.next, !this.busy && this.at < this.rounds.length);
    setEnabled(this.all, !this.busy);
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
