import { wantsLittleMotion } from '../lib/theme';
import { type Cell, cellsOf, sameLayout, type Share } from './cells';
import {
  cellAt,
  kCell,
  kHead,
  kNoLayout,
  kPad,
  kPitch,
  type Layout,
  layOut,
  neighbour,
} from './map_layout';
import { type Flight, Inks, Painter } from './map_paint';
import type { Cluster, Links, Step } from './model';

/// The cluster on a canvas: racks in a grid, in each its slots coloured by job, its degree against
/// its bound, and its uplinks with the flows on them. What is drawn is bounded by what can be seen.

const kMaxScale = 3;
const kMoveMs = 700;

export interface Pick {
  rack: number;
  node: number | null;
  job: number | null;
}

export class ClusterMap {
  private cluster: Cluster | null = null;
  private links: Links[] | null = null;
  private layout: Layout = kNoLayout;
  private cells: Cell[][] = [];
  private scale = 1;
  private x = 0; // of the world's origin, in CSS pixels
  private y = 0;
  private width = 1;
  private height = 1;
  private inks: Inks | null = null;
  private asked = false;
  private flights: Flight[] = [];
  private flown = 1; // 0 … 1
  private readonly pointers = new Map<number, { x: number; y: number }>();
  private dragged = 0;
  selectedRack: number | null = null;
  selectedJob: number | null = null;
  /// Nodes that workers have left or come to in the plan that is shown.
  marked = new Set<number>();

  constructor(
    private readonly canvas: HTMLCanvasElement,
    private readonly on: { pick: (pick: Pick | null) => void; hover: (pick: Pick | null) => void },
  ) {
    new ResizeObserver(() => this.resize()).observe(canvas);
    canvas.addEventListener('pointerdown', (event) => this.pointerDown(event));
    canvas.addEventListener('pointermove', (event) => this.pointerMove(event));
    canvas.addEventListener('pointerup', (event) => this.pointerUp(event));
    canvas.addEventListener('pointercancel', (event) => this.pointers.delete(event.pointerId));
    canvas.addEventListener('pointerleave', () => this.on.hover(null));
    canvas.addEventListener('wheel', (event) => this.wheel(event), { passive: false });
    canvas.addEventListener('keydown', (event) => this.key(event));
  }

  /// Shows another cluster; the view stays where the racks are the same. `links` is null where nobody
  /// knows which flow takes which uplink.
  show(cluster: Cluster, links: Links[] | null): void {
    const before = this.cluster;
    const job = before?.jobs[this.selectedJob ?? -1]?.id;
    this.selectedJob = job === undefined ? null : (cluster.jobById.get(job) ?? null);
    if (cluster !== before) this.flights = [];
    this.cluster = cluster;
    this.links = links;
    if (!before || !sameLayout(before, cluster)) {
      this.selectedRack = null;
      this.layout = layOut(cluster, this.width, this.height);
      this.fit();
    }
    this.fill();
    this.redraw();
  }

  /// The workers have moved.
  refresh(): void {
    this.fill();
    this.redraw();
  }

  recolor(): void {
    this.inks = null;
    this.redraw();
  }

  private fill(): void {
    if (this.cluster) this.cells = cellsOf(this.cluster, this.layout.perSlot);
  }

  private resize(): void {
    const box = this.canvas.getBoundingClientRect();
    if (box.width === 0 || box.height === 0) return;
    const first = this.width === 1;
    const fitted = first || Math.abs(this.scale - this.fitScale()) < 1e-6;
    this.width = box.width;
    this.height = box.height;
    this.canvas.width = Math.round(box.width * devicePixelRatio);
    this.canvas.height = Math.round(box.height * devicePixelRatio);
    if (first && this.cluster) this.layout = layOut(this.cluster, box.width, box.height);
    if (fitted) this.fit();
    this.draw();
  }

  private fitScale(): number {
    return Math.min(1.6, this.width / this.layout.width, this.height / this.layout.height);
  }

  /// All racks in view.
  fit(): void {
    this.scale = this.fitScale();
    this.x = (this.width - this.layout.width * this.scale) / 2;
    this.y = Math.max(0, (this.height - this.layout.height * this.scale) / 2);
    this.redraw();
  }

  zoom(factor: number, atX = this.width / 2, atY = this.height / 2): void {
    const scale = Math.max(this.fitScale() / 2, Math.min(kMaxScale, this.scale * factor));
    this.x = atX - ((atX - this.x) * scale) / this.scale;
    this.y = atY - ((atY - this.y) * scale) / this.scale;
    this.scale = scale;
    this.redraw();
  }

  pan(dx: number, dy: number): void {
    this.x += dx;
    this.y += dy;
    this.redraw();
  }

  /// Brings a rack into the middle, near enough to read.
  center(rack: number): void {
    const tile = this.layout.tiles[rack];
    if (!tile) return;
    this.scale = Math.max(this.scale, Math.min(1.4, this.width / this.layout.tileWidth / 2));
    this.x = this.width / 2 - (tile.x + this.layout.tileWidth / 2) * this.scale;
    this.y = this.height / 2 - (tile.y + this.layout.tileHeight / 2) * this.scale;
    this.redraw();
  }

  select(rack: number | null, job: number | null): void {
    this.selectedRack = rack;
    this.selectedJob = job;
    this.redraw();
  }

  /// The steps of a round in flight, then done. `apply` carries them out on the cluster.
  async fly(steps: readonly Step[], apply: () => void): Promise<void> {
    const cluster = this.cluster;
    if (!cluster || wantsLittleMotion() || document.hidden) {
      apply();
      this.refresh();
      return;
    }
    const from = steps.map((step) => this.placeOf(step));
    apply();
    this.links = null; // those of before the round are not those of now
    this.fill();
    const flights = steps.flatMap((step, i) => {
      const start = from[i];
      const end = this.placeOf(step);
      const job = cluster.jobById.get(step.job);
      if (!start || !end || job === undefined) return [];
      return [{ job, fromX: start.x, fromY: start.y, toX: end.x, toY: end.y }];
    });
    this.flights = flights;
    const start = performance.now();
    await new Promise<void>((done) => {
      const frame = (now: number): void => {
        if (this.flights !== flights) return done(); // another cluster is shown by now
        this.flown = Math.min(1, (now - start) / kMoveMs);
        this.draw();
        if (this.flown < 1) requestAnimationFrame(frame);
        else done();
      };
      requestAnimationFrame(frame);
    });
    if (this.flights === flights) this.flights = [];
    this.redraw();
  }

  private placeOf(step: Step): { x: number; y: number } | null {
    const cluster = this.cluster;
    const job = cluster?.jobs[cluster.jobById.get(step.job) ?? -1];
    const group = job?.groups[step.group];
    const node = cluster?.groups[group ?? -1]?.workers[step.worker];
    const rack = cluster?.nodes[node ?? -1]?.rack;
    if (rack === undefined) return null;
    const at = this.cells[rack]?.findIndex(
      (cell) =>
        cell.node === node &&
        cell.shares.some((share) =>
          share.workers.some((held) => held.group === group && held.worker === step.worker),
        ),
    );
    const tile = this.layout.tiles[rack];
    if (at === undefined || at < 0 || !tile) return null;
    return cellAt(this.layout, tile, at);
  }

  redraw(): void {
    if (this.asked) return;
    this.asked = true;
    requestAnimationFrame(() => {
      this.asked = false;
      this.draw();
    });
  }

  private draw(): void {
    const ctx = this.canvas.getContext('2d');
    if (!ctx || !this.cluster) return;
    this.inks ??= new Inks();
    new Painter(ctx, this.inks, {
      cluster: this.cluster,
      links: this.links,
      layout: this.layout,
      cells: this.cells,
      selectedRack: this.selectedRack,
      selectedJob: this.selectedJob,
      marked: this.marked,
      flights: this.flights,
      flown: this.flown,
      scale: this.scale,
      x: this.x,
      y: this.y,
      width: this.width,
      height: this.height,
    }).draw();
  }

  private pickAt(event: MouseEvent): Pick | null {
    const box = this.canvas.getBoundingClientRect();
    const x = (event.clientX - box.left - this.x) / this.scale;
    const y = (event.clientY - box.top - this.y) / this.scale;
    const rack = this.layout.tiles.findIndex(
      (tile) =>
        x >= tile.x &&
        y >= tile.y &&
        x < tile.x + this.layout.tileWidth &&
        y < tile.y + this.layout.tileHeight,
    );
    const tile = this.layout.tiles[rack];
    if (!tile) return null;
    const column = Math.floor((x - tile.x - kPad) / kPitch);
    const row = Math.floor((y - tile.y - kHead) / kPitch);
    const inside = column >= 0 && column < this.layout.perRow && row >= 0;
    const cell = inside ? this.cells[rack]?.[row * this.layout.perRow + column] : undefined;
    const within = ((x - tile.x - kPad) % kPitch) / kCell;
    return { rack, node: cell?.node ?? null, job: shareAt(cell, within)?.job ?? null };
  }

  private pointerDown(event: PointerEvent): void {
    this.canvas.setPointerCapture(event.pointerId);
    this.pointers.set(event.pointerId, { x: event.clientX, y: event.clientY });
    this.dragged = 0;
  }

  private pointerMove(event: PointerEvent): void {
    const last = this.pointers.get(event.pointerId);
    if (!last) {
      this.on.hover(this.pickAt(event));
      return;
    }
    const other = [...this.pointers].find(([id]) => id !== event.pointerId)?.[1];
    this.dragged += Math.abs(event.clientX - last.x) + Math.abs(event.clientY - last.y);
    if (other) {
      const box = this.canvas.getBoundingClientRect();
      const apart = (point: { x: number; y: number }): number =>
        Math.max(1, Math.hypot(point.x - other.x, point.y - other.y));
      this.zoom(
        apart({ x: event.clientX, y: event.clientY }) / apart(last),
        (event.clientX + other.x) / 2 - box.left,
        (event.clientY + other.y) / 2 - box.top,
      );
    } else {
      this.pan(event.clientX - last.x, event.clientY - last.y);
    }
    this.pointers.set(event.pointerId, { x: event.clientX, y: event.clientY });
  }

  private pointerUp(event: PointerEvent): void {
    this.pointers.delete(event.pointerId);
    if (this.dragged < 5) this.on.pick(this.pickAt(event));
  }

  private wheel(event: WheelEvent): void {
    event.preventDefault();
    const box = this.canvas.getBoundingClientRect();
    this.zoom(Math.exp(-event.deltaY / 500), event.clientX - box.left, event.clientY - box.top);
  }

  private key(event: KeyboardEvent): void {
    const step = neighbour(this.layout, this.selectedRack, event.key);
    if (step !== null) {
      event.preventDefault();
      this.on.pick({ rack: step, node: null, job: null });
      this.center(step);
    } else if (event.key === '+' || event.key === '=') {
      this.zoom(1.4);
    } else if (event.key === '-') {
      this.zoom(1 / 1.4);
    } else if (event.key === '0') {
      this.fit();
    }
  }
}

/// The job at that part of the box's width.
function shareAt(cell: Cell | undefined, part: number): Share | undefined {
  let end = 0;
  return cell?.shares.find((share) => part < (end += share.part));
}
