import { type JobLook, lookOf } from '../lib/palette';
import { Looks } from './looks';

/// The cluster as the page shows it, from `monkeytree/snapshot/v1` (docs/formats.md).

export interface SnapshotFile {
  schema: string;
  name?: string;
  cluster?: string;
  fabric: { racks: RackFile[] };
  nodes?: Record<string, { state?: NodeState; class?: string; slots?: number; gpus?: number }>;
  jobs?: JobFile[];
}
interface RackFile {
  name: string;
  uplinks?: number;
  spines?: number[];
  failed?: number[];
  pod?: string;
  nodes: string[];
}
interface GroupFile {
  rings?: number;
  slots?: number;
  workers: string[];
}
interface JobFile extends Partial<GroupFile> {
  id: string;
  name?: string;
  user?: string;
  movable?: boolean;
  groups?: GroupFile[];
}

const kNoLook = lookOf(0); // until the constructor is done

export type NodeState = 'up' | 'drain' | 'down' | 'reserved';

export interface Rack {
  name: string;
  pod: string;
  spines: number[]; // that its working uplinks reach
  failed: number[];
  nodes: number[];
}
export interface Node {
  name: string;
  rack: number;
  state: NodeState;
  kind: string; // node class
  slots: number;
  gpus: number; // 0 where unknown
}
export interface Group {
  job: number;
  rings: number;
  slots: number;
  workers: number[]; // node of each worker
}
export interface Job {
  id: string;
  name: string;
  user: string;
  movable: boolean;
  groups: number[];
  look: JobLook; // the same for the same job whatever becomes of others
}

/// Of `monkeytree/routes/v1`, and of the controller's routes.
export interface Flow {
  job: string;
  group: number;
  ring: number;
  from_rack: string;
  to_rack: string;
  uplink: number | null;
}
/// Of `monkeytree/plan/v1`.
export interface Step {
  job: string;
  group: number;
  worker: number;
  from: string;
  to: string; // a node, or "@staging"
}
export interface PlanFile {
  status: string;
  moves: number;
  rounds: Step[][];
}

/// What holds a place of a node.
export interface Holder {
  job: number;
  group: number;
  worker: number;
}

export const kStaging = '@staging';

export class Cluster {
  readonly racks: Rack[] = [];
  readonly nodes: Node[] = [];
  readonly jobs: Job[] = [];
  readonly groups: Group[] = [];
  readonly rackByName = new Map<string, number>();
  readonly nodeByName = new Map<string, number>();
  readonly jobById = new Map<string, number>();
  holders: Holder[][] = []; // by node
  degrees: number[] = []; // by rack

  constructor(
    readonly file: SnapshotFile,
    looks = new Looks(),
  ) {
    for (const rack of file.fabric.racks) this.addRack(rack);
    for (const job of file.jobs ?? []) this.addJob(job);
    this.recount();
    looks.dress(this);
    for (const job of this.jobs) job.look = looks.of(job.id);
  }

  private addRack(rack: RackFile): void {
    const id = this.racks.length;
    const all = rack.spines ?? Array.from({ length: rack.uplinks ?? 2 }, (_, spine) => spine);
    const failed = rack.failed ?? [];
    const spines = all.filter((spine) => !failed.includes(spine));
    const nodes = rack.nodes.map((name) => {
      const extra = this.file.nodes?.[name];
      this.nodeByName.set(name, this.nodes.length);
      return (
        this.nodes.push({
          name,
          rack: id,
          state: extra?.state ?? 'up',
          kind: extra?.class ?? 'default',
          slots: extra?.slots ?? 1,
          gpus: extra?.gpus ?? 0,
        }) - 1
      );
    });
    this.rackByName.set(rack.name, id);
    this.racks.push({ name: rack.name, pod: rack.pod ?? '', spines, failed, nodes });
  }

  private addJob(job: JobFile): void {
    const id = this.jobs.length;
    const groups = job.groups ?? [job as GroupFile];
    const numbers = groups.map(
      (group) =>
        this.groups.push({
          job: id,
          rings: group.rings ?? 1,
          slots: group.slots ?? 1,
          workers: (group.workers ?? []).map((node) => this.nodeByName.get(node) ?? -1),
        }) - 1,
    );
    this.jobById.set(job.id, id);
    this.jobs.push({
      id: job.id,
      name: job.name ?? '',
      user: job.user ?? '',
      movable: job.movable ?? true,
      groups: numbers,
      look: kNoLook,
    });
  }

  /// Holders and degrees from where the workers are.
  private recount(): void {
    this.holders = this.nodes.map(() => []);
    this.degrees = this.racks.map(() => 0);
    for (const [id, group] of this.groups.entries()) {
      for (const [worker, node] of group.workers.entries()) {
        this.holders[node]?.push({ job: group.job, group: id, worker });
      }
      const racks = this.racksOf(group);
      if (racks.size < 2) continue;
      for (const rack of racks) this.degrees[rack] = (this.degrees[rack] ?? 0) + group.rings;
    }
  }

  racksOf(group: Group): Set<number> {
    const racks = new Set<number>();
    for (const node of group.workers) {
      const rack = this.nodes[node]?.rack;
      if (rack !== undefined) racks.add(rack);
    }
    return racks;
  }

  bound(rack: number): number {
    return this.racks[rack]?.spines.length ?? 0;
  }
  degree(rack: number): number {
    return this.degrees[rack] ?? 0;
  }
  over(rack: number): boolean {
    return this.degree(rack) > this.bound(rack);
  }
  racksOver(): number {
    return this.racks.filter((_, rack) => this.over(rack)).length;
  }

  /// Carries out the moves of a round; a worker in staging is on no node.
  move(steps: readonly Step[]): void {
    for (const step of steps) {
      const workers = this.groupOf(step)?.workers;
      if (workers) workers[step.worker] = this.nodeByName.get(step.to) ?? -1;
    }
    this.recount();
  }

  /// As a file again, with the workers where they are now.
  toFile(): SnapshotFile {
    const names = (group: Group | undefined): string[] =>
      (group?.workers ?? []).map((node) => this.nodes[node]?.name ?? '');
    const jobs = (this.file.jobs ?? []).map((job, id) => {
      const groups = this.jobs[id]?.groups ?? [];
      if (!job.groups) return { ...job, workers: names(this.groups[groups[0] ?? -1]) };
      return {
        ...job,
        groups: job.groups.map((group, at) => ({
          ...group,
          workers: names(this.groups[groups[at] ?? -1]),
        })),
      };
    });
    return { ...this.file, jobs };
  }

  groupOf(step: { job: string; group: number }): Group | undefined {
    const job = this.jobs[this.jobById.get(step.job) ?? -1];
    return this.groups[job?.groups[step.group] ?? -1];
  }

  fragmented(job: number): boolean {
    return (this.jobs[job]?.groups ?? []).some((id) => {
      const group = this.groups[id];
      return group !== undefined && this.racksOf(group).size > 1;
    });
  }

  /// How many workers of the job each rack holds.
  workersByRack(job: number): Map<number, number> {
    const here = new Map<number, number>();
    for (const id of this.jobs[job]?.groups ?? []) {
      for (const at of this.groups[id]?.workers ?? []) {
        const rack = this.nodes[at]?.rack;
        if (rack !== undefined) here.set(rack, (here.get(rack) ?? 0) + 1);
      }
    }
    return new Map([...here].sort(([a], [b]) => a - b));
  }

  racksOfJob(job: number): number[] {
    const racks = new Set<number>();
    for (const id of this.jobs[job]?.groups ?? []) {
      const group = this.groups[id];
      if (group) for (const rack of this.racksOf(group)) racks.add(rack);
    }
    return [...racks].sort((a, b) => a - b);
  }

  /// GPUs, or slots where the snapshot does not tell them.
  gpus(job: number): number {
    let sum = 0;
    for (const id of this.jobs[job]?.groups ?? []) {
      const group = this.groups[id];
      for (const at of group?.workers ?? []) {
        const node = this.nodes[at];
        if (!group || !node) continue;
        sum += node.gpus > 0 ? (node.gpus * group.slots) / node.slots : group.slots;
      }
    }
    return Math.round(sum);
  }
}

/// The flows on each link of each rack: out of it by spine, and into it.
export interface Links {
  up: Map<number, Flow[]>;
  down: Map<number, Flow[]>;
}

export function linksOf(cluster: Cluster, flows: readonly Flow[]): Links[] {
  const links: Links[] = cluster.racks.map(() => ({ up: new Map(), down: new Map() }));
  const put = (name: string, side: 'up' | 'down', flow: Flow): void => {
    const at = links[cluster.rackByName.get(name) ?? -1]?.[side];
    if (!at || flow.uplink === null || flow.uplink < 0) return;
    const there = at.get(flow.uplink);
    if (there) there.push(flow);
    else at.set(flow.uplink, [flow]);
  };
  for (const flow of flows) {
    put(flow.from_rack, 'up', flow);
    put(flow.to_rack, 'down', flow);
  }
  return links;
}
