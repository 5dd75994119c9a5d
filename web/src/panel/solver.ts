/// The fewest moves that bring every rack within its bound: the paper's integer program (§5.2),
/// solved exactly.
///
/// Where racks are many and few of them over their bound, repair.ts tries the moves themselves. On a
/// panel nearly every worker may have to move, and racks and jobs are few. A rack's degree depends only on which jobs may be in which racks. So the search chooses for each
/// job the racks it may be in, drops a branch in which a rack is over its bound, and then seats the
/// workers that must leave as cheaply as room allows. Choices are tried in the order of the moves
/// that they need at least: workers outside the racks chosen must leave, and a rack that is new to
/// a job is there to take one. Once a placement is found with no more moves than every choice that
/// is left needs, it is one of the fewest.

import { type Counts, movesBetween, sum } from './model';
import { repaired } from './repair';
import { Seating } from './seating';

const kFewRacks = 6;

export interface Problem {
  counts: Counts;
  capacity: readonly number[]; // slots of each rack
  bound: readonly number[]; // λ of each rack
  rings?: readonly number[]; // parallel rings of each job; 1 where left out
}

export interface Solution {
  moves: number;
  counts: number[][];
}

/// Racks that a job may be in.
interface Choice {
  racks: readonly number[];
  needed: number; // moves at least
  flows: number; // what it adds to the degree of each of these racks
}

/// The fewest moves, and of the placements met that take no more of them one that touches fewest
/// jobs; null where no placement meets every bound, which is known of few racks only.
export function fewestMoves(problem: Problem): Solution | null {
  const workers = sum(problem.counts.map(sum));
  if (problem.capacity.length > kFewRacks) {
    const rings = problem.rings ?? problem.counts.map(() => 1);
    const counts = repaired({ ...problem, rings }, workers);
    return counts && { moves: movesBetween(problem.counts, counts), counts };
  }
  const search = new Search(problem);
  for (let needed = 0; needed <= workers && needed <= (search.best?.moves ?? Infinity); needed++) {
    search.tryAllThatNeed(needed);
  }
  return search.best;
}

class Search {
  best: Solution | null = null;
  private fewestJobs = Infinity;
  private choices: Choice[][] = [];
  private readonly chosen: Choice[] = [];
  private readonly slack: number[]; // flows that each rack still has an uplink for

  constructor(private readonly problem: Problem) {
    this.slack = [...problem.bound];
  }

  /// Looks at every combination that needs exactly so many moves at least.
  tryAllThatNeed(moves: number): void {
    this.choices = this.problem.counts.map((row, job) => this.choicesOf(row, job, moves));
    this.choose(moves);
  }

  /// Where a job may be, in the order of the moves needed, at most `moves`.
  private choicesOf(before: readonly number[], job: number, moves: number): Choice[] {
    const { capacity, rings } = this.problem;
    const workers = sum(before);
    const out: Choice[] = [];
    const racks: number[] = [];
    const extend = (rack: number, leaving: number, fresh: number, room: number): void => {
      const needed = Math.max(leaving, fresh);
      if (needed > moves) return;
      if (rack === before.length) {
        if (room < workers) return;
        out.push({ racks: [...racks], needed, flows: racks.length > 1 ? (rings?.[job] ?? 1) : 0 });
        return;
      }
      const here = before[rack] ?? 0;
      extend(rack + 1, leaving + here, fresh, room);
      racks.push(rack);
      extend(rack + 1, leaving, fresh + (here === 0 ? 1 : 0), room + (capacity[rack] ?? 0));
      racks.pop();
    };
    extend(0, 0, 0, 0);
    return out.sort((a, b) => a.needed - b.needed); // stable
  }

  private choose(left: number): void {
    const choices = this.choices[this.chosen.length];
    if (!choices) {
      if (left === 0) this.seat();
      return;
    }
    for (const choice of choices) {
      if (choice.needed > left) return;
      if (choice.racks.some((rack) => choice.flows > (this.slack[rack] ?? 0))) continue;
      this.use(choice, -1);
      this.chosen.push(choice);
      this.choose(left - choice.needed);
      this.chosen.pop();
      this.use(choice, 1);
    }
  }

  private use(choice: Choice, sign: 1 | -1): void {
    for (const rack of choice.racks) {
      this.slack[rack] = (this.slack[rack] ?? 0) + sign * choice.flows;
    }
  }

  private seat(): void {
    const { counts, capacity } = this.problem;
    const seated = new Seating(
      counts,
      this.chosen.map((choice) => choice.racks),
      capacity,
    ).seatAll();
    if (!seated) return;
    const moves = movesBetween(counts, seated);
    const jobs = counts.filter((row, job) =>
      row.some((n, rack) => n !== seated[job]?.[rack]),
    ).length;
    const most = this.best?.moves ?? Infinity;
    if (moves > most || (moves === most && jobs >= this.fewestJobs)) return;
    this.best = { moves, counts: seated };
    this.fewestJobs = jobs;
  }
}
