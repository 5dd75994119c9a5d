import { type JobLook, kLetters, lookOf } from '../lib/palette';
import type { Cluster } from './model';

/// `monkeytree analyze` draws this many racks at most.
const kMostDrawn = 40;

/// Numbers from 0 on, each given once.
class Numbers {
  private readonly taken = new Set<number>();
  private next = 0; // no smaller one is free

  isFree(number: number): boolean {
    return !this.taken.has(number);
  }
  take(number = this.smallest()): number {
    this.taken.add(number);
    return number;
  }
  free(number: number): void {
    this.taken.delete(number);
    this.next = Math.min(this.next, number);
  }
  private smallest(): number {
    while (this.taken.has(this.next)) this.next++;
    return this.next;
  }
}

/// The look of each job, by its id: a job keeps its letter and colour while others come and go.
export class Looks {
  private readonly known = new Map<string, { look: JobLook; color: number; letter: number }>();
  private readonly colors = new Numbers();
  private readonly letters = new Numbers();

  /// The look of a job; one that has none gets the next.
  of(id: string): JobLook {
    this.give([id]);
    return this.known.get(id)?.look ?? lookOf(0);
  }

  /// Looks for those that have none: its own letter or digit to a job whose id is one, to the others
  /// the next that are free.
  give(ids: readonly string[]): void {
    const fresh = ids.filter((id) => !this.known.has(id));
    const own = new Map<string, number>();
    for (const id of fresh) {
      const number = id.length === 1 ? kLetters.indexOf(id) : -1;
      if (number >= 0 && this.letters.isFree(number)) own.set(id, this.letters.take(number));
    }
    for (const id of fresh) {
      const color = this.colors.take();
      const letter = own.get(id) ?? this.letters.take();
      this.known.set(id, { look: lookOf(color, letter), color, letter });
    }
  }

  /// Frees the looks of all jobs but these.
  keep(ids: ReadonlySet<string>): void {
    for (const [id, { color, letter }] of this.known) {
      if (ids.has(id)) continue;
      this.known.delete(id);
      this.colors.free(color);
      this.letters.free(letter);
    }
  }

  /// Looks for the jobs of a cluster, with the letters of `monkeytree analyze`: first to the jobs in
  /// the racks that it draws, fragmented ones before the others, as they are met.
  dress(cluster: Cluster): void {
    const met = new Set<number>();
    for (const rack of racksDrawn(cluster)) {
      for (const node of cluster.racks[rack]?.nodes ?? []) {
        const first = cluster.holders[node]?.[0];
        if (first) met.add(first.job);
      }
    }
    const fragmented = [...met].filter((job) => cluster.fragmented(job));
    const ids = [...new Set([...fragmented, ...met])].map((job) => cluster.jobs[job]?.id ?? '');
    this.give(ids);
    this.give(cluster.jobs.map((job) => job.id));
  }
}

/// All racks of a small cluster; of a big one those over their bound, the worst first.
function racksDrawn(cluster: Cluster): number[] {
  const racks = [...cluster.racks.keys()];
  if (racks.length <= kMostDrawn) return racks;
  const overBy = (rack: number): number => cluster.degree(rack) - cluster.bound(rack);
  const over = racks.filter((rack) => overBy(rack) > 0);
  return over.sort((a, b) => overBy(b) - overBy(a)).slice(0, kMostDrawn); // stable
}
