import { type Counts, sum } from './model';

/// Seats workers in the racks where their jobs may be, with the fewest moves: a transport problem.
///
/// Workers outside those racks get up first, all others stay. Then one after the other sits down
/// along the cheapest chain: in a free slot, or in place of a worker of another job who finds
/// another one. In a chain, making a worker get up who has not moved yet costs one move, and letting
/// one return to where its job had it saves one. Cheapest chains keep the whole cheapest (successive
/// shortest paths), so what comes out are the fewest moves.
export class Seating {
  private readonly now: number[][];
  private readonly room: number[];

  constructor(
    private readonly before: Counts,
    private readonly allowed: readonly (readonly number[])[], // racks of each job
    capacity: readonly number[],
  ) {
    this.now = before.map((row, job) =>
      row.map((n, rack) => (allowed[job]?.includes(rack) ? n : 0)),
    );
    this.room = capacity.map((slots, rack) => slots - sum(this.now.map((row) => row[rack] ?? 0)));
  }

  /// The counts, or null where there is no room.
  seatAll(): number[][] | null {
    for (const [job, row] of this.before.entries()) {
      const standing = sum(row) - sum(this.now[job] ?? []);
      for (let i = 0; i < standing; i++) {
        if (!this.seatOne(job)) return null;
      }
    }
    return this.now;
  }

  private seatOne(job: number): boolean {
    // cost[rack]: of the cheapest chain that ends with a worker who comes to this rack: `comes` is
    // its job and `from` the rack where it got up, -1 for the one who stands.
    const racks = this.room.length;
    const cost = Array<number>(racks).fill(Infinity);
    const comes = Array<number>(racks).fill(job);
    const from = Array<number>(racks).fill(-1);
    for (const rack of this.allowed[job] ?? []) cost[rack] = this.sitting(job, rack);
    for (let round = 1, changed = true; changed && round < racks; round++) {
      changed = false;
      for (let rack = 0; rack < racks; rack++) {
        for (const [other, row] of this.now.entries()) {
          if ((row[rack] ?? 0) === 0 || cost[rack] === Infinity) continue;
          const up = (cost[rack] ?? 0) + this.gettingUp(other, rack);
          for (const next of this.allowed[other] ?? []) {
            const total = up + this.sitting(other, next);
            if (next === rack || total >= (cost[next] ?? 0)) continue;
            cost[next] = total;
            comes[next] = other;
            from[next] = rack;
            changed = true;
          }
        }
      }
    }
    let end = -1; // the last of the cheapest
    for (let rack = 0; rack < racks; rack++) {
      const free = (this.room[rack] ?? 0) > 0 && cost[rack] !== Infinity;
      if (free && (end < 0 || (cost[rack] ?? 0) <= (cost[end] ?? 0))) end = rack;
    }
    if (end < 0) return false;
    this.room[end] = (this.room[end] ?? 0) - 1;
    for (let rack = end; rack >= 0; rack = from[rack] ?? -1) {
      const row = this.now[comes[rack] ?? job] ?? [];
      row[rack] = (row[rack] ?? 0) + 1;
      const left = from[rack] ?? -1;
      if (left >= 0) row[left] = (row[left] ?? 0) - 1;
    }
    return true;
  }

  private had(job: number, rack: number): number {
    return (this.before[job]?.[rack] ?? 0) - (this.now[job]?.[rack] ?? 0);
  }
  private sitting(job: number, rack: number): number {
    return this.had(job, rack) > 0 ? -1 : 0;
  }
  private gettingUp(job: number, rack: number): number {
    return this.had(job, rack) >= 0 ? 1 : 0;
  }
}
