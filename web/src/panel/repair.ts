/// The fewest moves on many racks of which few are over their bound, one move after the other.
///
/// A rack over its bound must lose a worker of a job that is fragmented, or gain one of such a job
/// that becomes whole there; a rack over its capacity must lose a worker. Whatever the fewest moves
/// are, one of those is among them, so trying all of them, and from each the same again, with as
/// many moves in all as are allowed, misses nothing: racks that are in nobody's way are never
/// touched. The number allowed grows by one until it is enough, which makes it the fewest.

import { type Counts, isFragmented, sum } from './model';

export interface Cluster {
  counts: Counts;
  capacity: readonly number[];
  bound: readonly number[];
  rings: readonly number[];
}

/// Counts with the fewest moves, at most `most`; null where so many are not enough.
export function repaired(cluster: Cluster, most: number): number[][] | null {
  const search = new Repair(cluster);
  for (let moves = 0; moves <= most; moves++) {
    if (search.mend(moves)) return search.now;
  }
  return null;
}

class Repair {
  readonly now: number[][];
  private readonly size: number[]; // workers of each job
  private readonly spread: number[]; // racks of each job
  private readonly load: number[];
  private readonly degree: number[];
  /// Moves with which a placement, given by its changes, could not be mended.
  private readonly failed = new Map<string, number>();

  constructor(private readonly of: Cluster) {
    this.now = of.counts.map((row) => [...row]);
    this.size = of.counts.map(sum);
    this.spread = of.counts.map((row) => row.filter((n) => n > 0).length);
    this.load = of.capacity.map((_, rack) => sum(of.counts.map((row) => row[rack] ?? 0)));
    this.degree = of.capacity.map((_, rack) =>
      sum(of.counts.map((row, job) => (isFragmented(row) && row[rack] ? (of.rings[job] ?? 1) : 0))),
    );
  }

  /// Makes that many moves at most so that every rack keeps its bound and its capacity; where they
  /// are not enough, false, and nothing has changed.
  mend(left: number): boolean {
    if (this.needed(left) > left) return false;
    const over = this.degree.findIndex((degree, rack) => degree > (this.of.bound[rack] ?? 0));
    const full = this.load.findIndex((load, rack) => load > (this.of.capacity[rack] ?? 0));
    const rack = over < 0 ? full : over;
    if (rack < 0) return true;
    const key = this.changes();
    if ((this.failed.get(key) ?? -1) >= left) return false;
    const racks = this.load.keys();
    const others = [...racks].filter((other) => other !== rack);
    for (const [job, row] of this.now.entries()) {
      const here = row[rack] ?? 0;
      if (here === 0 || (over >= 0 && (this.spread[job] ?? 0) < 2)) continue;
      const leaves = over < 0 || here <= left;
      const comes = over >= 0 && (this.size[job] ?? 0) - here <= left;
      for (const other of others) {
        if (leaves && this.tryMove(job, rack, other, left)) return true;
        if (comes && this.tryMove(job, other, rack, left)) return true;
      }
    }
    this.failed.set(key, left);
    return false;
  }

  /// No worker is moved twice: none leaves where its job has come to, nor comes to where it has left.
  private tryMove(job: number, from: number, to: number, left: number): boolean {
    const row = this.now[job] ?? [];
    const before = this.of.counts[job] ?? [];
    if ((row[from] ?? 0) === 0 || (row[from] ?? 0) > (before[from] ?? 0)) return false;
    if ((row[to] ?? 0) < (before[to] ?? 0)) return false;
    this.move(job, from, to);
    if (this.mend(left - 1)) return true;
    this.move(job, to, from);
    return false;
  }

  private move(job: number, from: number, to: number): void {
    const row = this.now[job] ?? [];
    this.countFlows(job, -1);
    row[from] = (row[from] ?? 0) - 1;
    row[to] = (row[to] ?? 0) + 1;
    this.spread[job] = row.filter((n) => n > 0).length;
    this.countFlows(job, 1);
    this.load[from] = (this.load[from] ?? 0) - 1;
    this.load[to] = (this.load[to] ?? 0) + 1;
  }

  private countFlows(job: number, sign: 1 | -1): void {
    if ((this.spread[job] ?? 0) < 2) return;
    this.now[job]?.forEach((n, rack) => {
      if (n > 0) this.degree[rack] = (this.degree[rack] ?? 0) + sign * (this.of.rings[job] ?? 1);
    });
  }

  /// Moves needed at least, or more than `left` where that is not enough. A move leaves one rack, so
  /// workers that must leave racks add up; one that makes its job whole serves another rack, too, so
  /// where that can be, the rack counts alone.
  private needed(left: number): number {
    let leaving = 0;
    let most = 0;
    for (const [rack, load] of this.load.entries()) {
      const tooMany = Math.max(0, load - (this.of.capacity[rack] ?? 0));
      const excess = (this.degree[rack] ?? 0) - (this.of.bound[rack] ?? 0);
      if (tooMany === 0 && excess <= 0) continue;
      const { whole, moves } = excess > 0 ? this.relief(rack, excess, left) : kNoRelief;
      most = Math.max(most, moves);
      leaving += whole ? tooMany : Math.max(tooMany, moves);
      if (leaving > left || most > left) return left + 1;
    }
    return Math.max(leaving, most);
  }

  /// Moves, at least, that take so many flows from a rack, and whether some of them may make a job
  /// whole there. The cheapest flows first, a part of a job being counted as its part of the moves.
  private relief(rack: number, excess: number, left: number): { whole: boolean; moves: number } {
    let whole = false;
    const ways: { moves: number; flows: number }[] = [];
    this.now.forEach((row, job) => {
      const here = row[rack] ?? 0;
      if (here === 0 || (this.spread[job] ?? 0) < 2) return;
      const elsewhere = (this.size[job] ?? 0) - here;
      if (elsewhere <= left) whole = true;
      ways.push({ moves: Math.min(here, elsewhere), flows: this.of.rings[job] ?? 1 });
    });
    ways.sort((a, b) => a.moves / a.flows - b.moves / b.flows);
    let moves = 0;
    for (let i = 0, open = excess; open > 0 && ways[i]; i++) {
      const { moves: cost, flows } = ways[i] ?? { moves: 0, flows: 1 };
      moves += (cost * Math.min(open, flows)) / flows;
      open -= flows;
    }
    return { whole, moves: Math.ceil(moves - 1e-9) };
  }

  private changes(): string {
    let text = '';
    this.now.forEach((row, job) => {
      const before = this.of.counts[job] ?? [];
      row.forEach((n, rack) => {
        if (n !== before[rack]) text += `${job}/${rack}:${n} `;
      });
    });
    return text;
  }
}

const kNoRelief = { whole: false, moves: 0 };
