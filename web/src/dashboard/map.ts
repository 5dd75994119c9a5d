import { colorOf, type JobLook, kColors, lookOf, type Pattern } from '../lib/palette';
import { wantsLittleMotion } from '../lib/theme';
import { type Cell, cellsOf, hasBoxPerSlot, linkBoxes, sameLayout, type Share } from './cells';
import type { Cluster, Flow, Links, Step } from './model';

/// The cluster on a canvas: racks in a grid, in each its slots coloured by job, its degree against
/// its bound, and its uplinks with the flows on them. From very far a rack is one square, as dark as
/// it is full, from far a bar of its jobs, nearer its rows, nearest its slots with letters: what is
/// drawn is bounded by what can be seen.

const kCell = 18;
const kPitch = 20;
const kHead = 22;
const kLink = 15;
const kPad = 6;
const kGap = 14;
const kMaxScale = 3;
const kMoveMs = 700;

interface Tile {
  x: number;
  y: number;
}
interface Flight {
  job: number;
  fromX: number;
  fromY: number;
  toX: number;
  toY: number;
}

interface Colors {
  page: string;
  card: string;
  ink: string;
  soft: string;
  line: string;
  warn: string;
  warnBack: string;
  accent: string;
  onJob: string;
  jobs: string[];
}

export interface Pick {
  rack: number;
  node: number | null;
  job: number | null;
}

export class ClusterMap {
  private cluster: Cluster | null = null;
  private links: Links[] | null = null;
  private tiles: Tile[] = [];
  private pods: { name: string; x: number; y: number; racks: number[] }[] = [];
  private cells: Cell[][] = [];
  private perRow = 8;
  private podHead = 30;
  private perSlot = true;
  private tileWidth = 0;
  private tileHeight = 0;
  private worldWidth = 1;
  private worldHeight = 1;
  private scale = 1;
  private x = 0; // of the world's origin, in CSS pixels
  private y = 0;
  private width = 1;
  private height = 1;
  private colors: Colors | null = null;
  private patterns = new Map<string, CanvasPattern>();
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
      this.layOut();
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
    this.colors = null;
    this.patterns.clear();
    this.redraw();
  }

  private layOut(): void {
    const cluster = this.cluster;
    if (!cluster) return;
    const slots = cluster.nodes.reduce((most, node) => Math.max(most, node.slots), 1);
    const most = cluster.racks.reduce((sofar, rack) => Math.max(sofar, rack.nodes.length), 1);
    this.perSlot = hasBoxPerSlot(cluster);
    const places = this.perSlot ? slots * most : most;
    this.perRow = Math.max(4, places <= 64 ? Math.min(8, places) : 16);
    if (this.perSlot && this.perRow % slots !== 0)
      this.perRow = slots * Math.max(1, Math.floor(8 / slots));
    this.tileWidth = this.perRow * kPitch + 2 * kPad;
    this.tileHeight = kHead + Math.ceil(places / this.perRow) * kPitch + 2 * kLink + 2 * kPad;
    const stepX = this.tileWidth + kGap;
    const stepY = this.tileHeight + kGap;
    const aspect = Math.max(0.3, this.width / Math.max(1, this.height));
    const columns = Math.max(
      1,
      Math.min(
        cluster.racks.length,
        Math.round(Math.sqrt((cluster.racks.length * aspect * stepY) / stepX)),
      ),
    );
    const byPod = new Map<string, number[]>();
    for (const [id, rack] of cluster.racks.entries()) {
      const there = byPod.get(rack.pod);
      if (there) there.push(id);
      else byPod.set(rack.pod, [id]);
    }
    this.tiles = new Array<Tile>(cluster.racks.length);
    this.pods = [];
    // Blocks of racks, a pod each, side by side until a row is full.
    const many = byPod.size > 1;
    const rowWidth = kGap + columns * stepX;
    // Large enough to read with all racks in view.
    this.podHead = Math.min(2.5 * stepY, Math.max(30, (16 * rowWidth) / this.width));
    let x = kGap;
    let y = kGap;
    let rowHeight = 0;
    this.worldWidth = rowWidth;
    for (const [name, racks] of byPod) {
      const wide = many
        ? Math.max(1, Math.round(Math.sqrt((racks.length * aspect * stepY) / stepX)))
        : columns;
      if (x > kGap && x + wide * stepX > rowWidth + stepX) {
        x = kGap;
        y += rowHeight;
        rowHeight = 0;
      }
      if (many) this.pods.push({ name, x, y, racks });
      const top = many ? y + this.podHead : y;
      for (const [at, rack] of racks.entries()) {
        this.tiles[rack] = { x: x + (at % wide) * stepX, y: top + Math.floor(at / wide) * stepY };
      }
      x += wide * stepX + (many ? 2 * kGap : 0);
      this.worldWidth = Math.max(this.worldWidth, x);
      rowHeight = Math.max(rowHeight, top - y + Math.ceil(racks.length / wide) * stepY + kGap);
    }
    this.worldHeight = y + rowHeight;
  }

  private fill(): void {
    if (this.cluster) this.cells = cellsOf(this.cluster, this.perSlot);
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
    if (first) this.layOut();
    if (fitted) this.fit();
    this.draw();
  }

  private fitScale(): number {
    return Math.min(1.6, this.width / this.worldWidth, this.height / this.worldHeight);
  }

  /// All racks in view.
  fit(): void {
    this.scale = this.fitScale();
    this.x = (this.width - this.worldWidth * this.scale) / 2;
    this.y = Math.max(0, (this.height - this.worldHeight * this.scale) / 2);
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
    const tile = this.tiles[rack];
    if (!tile) return;
    this.scale = Math.max(this.scale, Math.min(1.4, this.width / this.tileWidth / 2));
    this.x = this.width / 2 - (tile.x + this.tileWidth / 2) * this.scale;
    this.y = this.height / 2 - (tile.y + this.tileHeight / 2) * this.scale;
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
    const tile = this.tiles[rack];
    if (at === undefined || at < 0 || !tile) return null;
    return this.cellAt(tile, at);
  }

  private cellAt(tile: Tile, at: number): { x: number; y: number } {
    return {
      x: tile.x + kPad + (at % this.perRow) * kPitch,
      y: tile.y + kHead + Math.floor(at / this.perRow) * kPitch,
    };
  }

  redraw(): void {
    if (this.asked) return;
    this.asked = true;
    requestAnimationFrame(() => {
      this.asked = false;
      this.draw();
    });
  }

  private readColors(): Colors {
    this.colors ??= {
      page: colorOf('--page'),
      card: colorOf('--card'),
      ink: colorOf('--ink'),
      soft: colorOf('--soft'),
      line: colorOf('--edge'),
      warn: colorOf('--warn'),
      warnBack: colorOf('--warn-back'),
      accent: colorOf('--accent'),
      onJob: colorOf('--on-job'),
      jobs: Array.from({ length: kColors }, (_, i) => colorOf(`--job-${i}`)),
    };
    return this.colors;
  }

  private draw(): void {
    const ctx = this.canvas.getContext('2d');
    if (!ctx || !this.cluster) return;
    const colors = this.readColors();
    ctx.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
    ctx.clearRect(0, 0, this.width, this.height);
    ctx.setTransform(
      devicePixelRatio * this.scale,
      0,
      0,
      devicePixelRatio * this.scale,
      devicePixelRatio * this.x,
      devicePixelRatio * this.y,
    );
    const left = -this.x / this.scale;
    const top = -this.y / this.scale;
    const right = left + this.width / this.scale;
    const bottom = top + this.height / this.scale;
    const near = kPitch * this.scale >= 10;
    const width = this.tileWidth * this.scale;
    ctx.textBaseline = 'middle';
    for (const [rack, tile] of this.tiles.entries()) {
      if (tile.x > right || tile.x + this.tileWidth < left) continue;
      if (tile.y > bottom || tile.y + this.tileHeight < top) continue;
      if (width < 14) this.drawSquare(ctx, colors, rack, tile);
      else if (width < 46) this.drawBar(ctx, colors, rack, tile);
      else this.drawRack(ctx, colors, rack, tile, near);
    }
    ctx.globalAlpha = 1;
    this.drawPods(ctx, colors);
    for (const flight of this.flights) this.drawFlight(ctx, colors, flight);
  }

  private drawPods(ctx: CanvasRenderingContext2D, colors: Colors): void {
    ctx.fillStyle = colors.ink;
    ctx.textAlign = 'left';
    const size = Math.min(this.podHead * 0.8, Math.max(16, 12 / this.scale));
    ctx.font = `600 ${size}px system-ui, sans-serif`;
    for (const pod of this.pods) {
      const over = pod.racks.filter((rack) => this.cluster?.over(rack)).length;
      const text = `${pod.name === '' ? 'no pod' : pod.name}${over > 0 ? ` ▲${over}` : ''}`;
      ctx.fillStyle = over > 0 ? colors.warn : colors.ink;
      ctx.fillText(text, pod.x, pod.y + this.podHead - size * 0.65);
    }
  }

  /// A rack from very far: as dark as it is full, in another colour where it is over its bound or has
  /// workers of the job that is selected.
  private drawSquare(
    ctx: CanvasRenderingContext2D,
    colors: Colors,
    rack: number,
    tile: Tile,
  ): void {
    const cells = this.cells[rack] ?? [];
    const held =
      cells.reduce((sum, cell) => cell.shares.reduce((part, share) => part + share.part, sum), 0) /
      Math.max(1, cells.length);
    const chosen =
      rack === this.selectedRack ||
      (this.selectedJob !== null &&
        cells.some((cell) => cell.shares.some((share) => share.job === this.selectedJob)));
    const over = this.cluster?.over(rack) ?? false;
    ctx.globalAlpha = chosen || over ? 1 : 0.15 + 0.6 * held;
    ctx.fillStyle = chosen ? colors.accent : over ? colors.warn : colors.soft;
    ctx.fillRect(tile.x, tile.y, this.tileWidth, this.tileHeight);
  }

  private lookOf(job: number): JobLook {
    return this.cluster?.jobs[job]?.look ?? lookOf(job);
  }

  private colorOf(colors: Colors, job: number): string {
    return colors.jobs[this.lookOf(job).color] ?? colors.soft;
  }

  private alphaOf(job: number): number {
    return this.selectedJob === null || this.selectedJob === job ? 1 : 0.22;
  }

  private frame(ctx: CanvasRenderingContext2D, colors: Colors, rack: number, tile: Tile): void {
    const over = this.cluster?.over(rack) ?? false;
    const selected = rack === this.selectedRack;
    ctx.globalAlpha = 1;
    ctx.lineWidth = (selected ? 3 : over ? 2 : 1) / this.scale;
    ctx.strokeStyle = selected ? colors.accent : over ? colors.warn : colors.line;
    ctx.strokeRect(tile.x, tile.y, this.tileWidth, this.tileHeight);
  }

  /// A rack from far: the shares of its jobs, and a corner where it is over its bound.
  private drawBar(ctx: CanvasRenderingContext2D, colors: Colors, rack: number, tile: Tile): void {
    const cells = this.cells[rack] ?? [];
    ctx.globalAlpha = 1;
    ctx.fillStyle = this.cluster?.over(rack) ? colors.warnBack : colors.card;
    ctx.fillRect(tile.x, tile.y, this.tileWidth, this.tileHeight);
    const width = this.tileWidth / Math.max(1, cells.length);
    for (let at = 0; at < cells.length;) {
      const shares = cells[at]?.shares ?? [];
      let end = at + 1;
      const job = wholeOf(cells[at]);
      if (job !== undefined) while (end < cells.length && wholeOf(cells[end]) === job) end++;
      let x = tile.x + at * width;
      for (const share of shares) {
        const wide = share.part * (end - at) * width;
        ctx.globalAlpha = this.alphaOf(share.job);
        ctx.fillStyle = this.colorOf(colors, share.job);
        ctx.fillRect(x, tile.y + kHead, wide, this.tileHeight - 2 * kHead);
        x += wide;
      }
      at = end;
    }
    this.frame(ctx, colors, rack, tile);
    if (!this.cluster?.over(rack)) return;
    ctx.fillStyle = colors.warn;
    ctx.beginPath();
    ctx.moveTo(tile.x, tile.y);
    ctx.lineTo(tile.x + this.tileWidth / 2, tile.y);
    ctx.lineTo(tile.x, tile.y + this.tileHeight / 2);
    ctx.fill();
  }

  private drawRack(
    ctx: CanvasRenderingContext2D,
    colors: Colors,
    rack: number,
    tile: Tile,
    near: boolean,
  ): void {
    const cluster = this.cluster;
    if (!cluster) return;
    const over = cluster.over(rack);
    ctx.globalAlpha = 1;
    ctx.fillStyle = over ? colors.warnBack : colors.card;
    ctx.fillRect(tile.x, tile.y, this.tileWidth, this.tileHeight);
    ctx.fillStyle = over ? colors.warn : colors.ink;
    ctx.font = '600 13px system-ui, sans-serif';
    const reading = `${over ? '▲ ' : ''}${cluster.degree(rack)}/${cluster.bound(rack)}`;
    ctx.textAlign = 'right';
    ctx.fillText(reading, tile.x + this.tileWidth - kPad, tile.y + kHead / 2 + 1);
    const room = this.tileWidth - 2 * kPad - ctx.measureText(reading).width - 6;
    ctx.textAlign = 'left';
    ctx.fillStyle = colors.ink;
    ctx.fillText(
      shortened(ctx, cluster.racks[rack]?.name ?? '', room),
      tile.x + kPad,
      tile.y + kHead / 2 + 1,
    );
    if (near) this.drawCells(ctx, colors, rack, tile);
    else this.drawRows(ctx, colors, rack, tile);
    this.drawLinks(ctx, colors, rack, tile, near);
    this.frame(ctx, colors, rack, tile);
  }

  /// Neighbours of one job in a row as one block.
  private drawRows(ctx: CanvasRenderingContext2D, colors: Colors, rack: number, tile: Tile): void {
    const cells = this.cells[rack] ?? [];
    const stateOf = (cell: Cell | undefined): string | undefined =>
      this.cluster?.nodes[cell?.node ?? -1]?.state;
    for (let at = 0; at < cells.length;) {
      const cell = cells[at];
      const shares = cell?.shares ?? [];
      const job = wholeOf(cell);
      const state = stateOf(cell);
      const row = Math.floor(at / this.perRow);
      let end = at + 1;
      const alike = (other: Cell | undefined): boolean =>
        job !== undefined
          ? wholeOf(other) === job
          : shares.length === 0 && other?.shares.length === 0 && stateOf(other) === state;
      while (end < cells.length && Math.floor(end / this.perRow) === row && alike(cells[end])) {
        end++;
      }
      const { x, y } = this.cellAt(tile, at);
      const width = (end - at) * kPitch - (kPitch - kCell);
      let left = x;
      for (const share of shares) {
        ctx.globalAlpha = this.alphaOf(share.job);
        ctx.fillStyle = this.colorOf(colors, share.job);
        ctx.fillRect(left, y, share.part * width, kCell);
        left += share.part * width;
      }
      if (shares.length === 0 && state !== 'up') {
        ctx.globalAlpha = 1;
        ctx.fillStyle = colors.line;
        ctx.fillRect(x, y + kCell / 2 - 1, (end - at) * kPitch - 2, 2);
      }
      at = end;
    }
  }

  private drawCells(ctx: CanvasRenderingContext2D, colors: Colors, rack: number, tile: Tile): void {
    const cluster = this.cluster;
    if (!cluster) return;
    const flying = new Set(this.flights.map(({ toX, toY, job }) => `${toX},${toY},${job}`));
    ctx.textAlign = 'center';
    for (const [at, cell] of (this.cells[rack] ?? []).entries()) {
      const { x, y } = this.cellAt(tile, at);
      const node = cluster.nodes[cell.node];
      if (wholeOf(cell) === undefined || flying.size > 0) {
        ctx.globalAlpha = 1;
        ctx.lineWidth = 1;
        ctx.strokeStyle = colors.line;
        ctx.strokeRect(x + 0.5, y + 0.5, kCell - 1, kCell - 1);
      }
      let left = x;
      for (const share of cell.shares) {
        const width = Math.min(share.part * kCell, x + kCell - left);
        if (!flying.has(`${x},${y},${share.job}`))
          this.drawWorker(ctx, colors, share.job, left, y, width);
        left += width;
      }
      if (node && node.state !== 'up') this.drawState(ctx, colors, node.state, x, y);
      if (this.marked.has(cell.node)) {
        ctx.globalAlpha = 1;
        ctx.lineWidth = 2;
        ctx.strokeStyle = colors.accent;
        ctx.strokeRect(x - 1, y - 1, kCell + 2, kCell + 2);
      }
    }
  }

  private drawState(
    ctx: CanvasRenderingContext2D,
    colors: Colors,
    state: string,
    x: number,
    y: number,
  ): void {
    ctx.globalAlpha = 1;
    ctx.fillStyle = colors.ink;
    ctx.font = '700 9px system-ui, sans-serif';
    ctx.textAlign = 'right';
    ctx.fillText({ drain: '−', down: '!', reserved: '=' }[state] ?? '?', x + kCell, y + 4);
    ctx.textAlign = 'center';
  }

  private drawWorker(
    ctx: CanvasRenderingContext2D,
    colors: Colors,
    job: number,
    x: number,
    y: number,
    width = kCell,
  ): void {
    const look = this.lookOf(job);
    ctx.globalAlpha = this.alphaOf(job);
    ctx.fillStyle = this.patternOf(ctx, colors, look.color, look.pattern);
    ctx.fillRect(x, y, width, kCell);
    const letters = look.letter.length;
    const size = Math.min(letters > 2 ? 7 : letters > 1 ? 9 : 12, (1.3 * width) / letters);
    if (size < 5) return;
    ctx.fillStyle = colors.onJob;
    ctx.textAlign = 'center';
    ctx.font = `600 ${size}px system-ui, sans-serif`;
    ctx.fillText(look.letter, x + width / 2, y + kCell / 2 + 1);
  }

  private patternOf(
    ctx: CanvasRenderingContext2D,
    colors: Colors,
    color: number,
    pattern: Pattern,
  ): string | CanvasPattern {
    const plain = colors.jobs[color] ?? colors.soft;
    if (pattern === 'plain') return plain;
    const key = `${color}${pattern}`;
    const known = this.patterns.get(key);
    if (known) return known;
    const tile = document.createElement('canvas');
    tile.width = tile.height = 6;
    const at = tile.getContext('2d');
    if (!at) return plain;
    at.fillStyle = plain;
    at.fillRect(0, 0, 6, 6);
    at.globalAlpha = 0.35;
    at.fillStyle = colors.onJob;
    if (pattern === 'dots') at.fillRect(1, 1, 2, 2);
    else if (pattern === 'bars') at.fillRect(0, 0, 2, 6);
    else for (let i = 0; i < 6; i++) at.fillRect(i, 5 - i, 1.5, 1.5);
    const made = ctx.createPattern(tile, 'repeat');
    if (!made) return plain;
    this.patterns.set(key, made);
    return made;
  }

  /// Flows out of the rack in one row of boxes, into it in another: a box an uplink, and one for all
  /// those beyond. Where the flows are not known, a question mark.
  private drawLinks(
    ctx: CanvasRenderingContext2D,
    colors: Colors,
    rack: number,
    tile: Tile,
    near: boolean,
  ): void {
    const links = this.links?.[rack];
    const room = this.tileWidth - 2 * kPad;
    const top = tile.y + this.tileHeight - 2 * kLink - 2;
    ctx.textAlign = 'center';
    for (const box of linkBoxes(this.cluster?.racks[rack]?.spines ?? [])) {
      const x = tile.x + kPad + box.at * room;
      const width = box.width * room;
      for (const [row, arrow] of ['↑', '↓'].entries()) {
        const side = row === 0 ? links?.up : links?.down;
        const each = box.spines.map((spine) => side?.get(spine) ?? []);
        const flows = each.flat();
        const shared = each.some((there) => there.length > 1);
        const y = top + row * kLink;
        ctx.globalAlpha = this.linkAlpha(flows);
        ctx.fillStyle = shared ? colors.warn : flows.length > 0 ? colors.soft : colors.page;
        ctx.fillRect(x, y, width - 2, kLink - 2);
        if (!near || width * this.scale < 22) continue;
        ctx.fillStyle = flows.length > 0 ? colors.page : colors.soft;
        ctx.font = '600 9px system-ui, sans-serif';
        const text =
          box.spines.length > 1
            ? `+${box.spines.length}`
            : links
              ? this.letters(flows, Math.floor(width / 7) - 1)
              : '?';
        ctx.fillText(`${arrow}${text}`, x + width / 2 - 1, y + kLink / 2 - 0.5);
      }
    }
  }

  private linkAlpha(flows: readonly Flow[]): number {
    if (this.selectedJob === null) return 1;
    const id = this.cluster?.jobs[this.selectedJob]?.id;
    return flows.some((flow) => flow.job === id) ? 1 : 0.3;
  }

  private letters(flows: readonly Flow[], room: number): string {
    const text = flows
      .map((flow) => this.lookOf(this.cluster?.jobById.get(flow.job) ?? 0).letter)
      .join('');
    return text.length <= room ? text : `${flows.length}`;
  }

  private drawFlight(ctx: CanvasRenderingContext2D, colors: Colors, flight: Flight): void {
    const t = this.flown * this.flown * (3 - 2 * this.flown);
    const x = flight.fromX + (flight.toX - flight.fromX) * t;
    const y = flight.fromY + (flight.toY - flight.fromY) * t;
    ctx.globalAlpha = 1;
    ctx.lineWidth = 2;
    ctx.strokeStyle = colors.accent;
    ctx.beginPath();
    ctx.moveTo(flight.fromX + kCell / 2, flight.fromY + kCell / 2);
    ctx.lineTo(x + kCell / 2, y + kCell / 2);
    ctx.stroke();
    this.drawWorker(ctx, colors, flight.job, x, y);
    ctx.strokeRect(x, y, kCell, kCell);
  }

  private pickAt(event: MouseEvent): Pick | null {
    const box = this.canvas.getBoundingClientRect();
    const x = (event.clientX - box.left - this.x) / this.scale;
    const y = (event.clientY - box.top - this.y) / this.scale;
    const rack = this.tiles.findIndex(
      (tile) =>
        x >= tile.x && y >= tile.y && x < tile.x + this.tileWidth && y < tile.y + this.tileHeight,
    );
    const tile = this.tiles[rack];
    if (!tile) return null;
    const column = Math.floor((x - tile.x - kPad) / kPitch);
    const row = Math.floor((y - tile.y - kHead) / kPitch);
    const inside = column >= 0 && column < this.perRow && row >= 0;
    const cell = inside ? this.cells[rack]?.[row * this.perRow + column] : undefined;
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
    const step = this.neighbour(event.key);
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

  /// The rack that an arrow leads to from the one that is selected.
  private neighbour(key: string): number | null {
    const direction = {
      ArrowLeft: [-1, 0],
      ArrowRight: [1, 0],
      ArrowUp: [0, -1],
      ArrowDown: [0, 1],
    }[key];
    if (!direction || this.tiles.length === 0) return null;
    if (this.selectedRack === null) return 0;
    const from = this.tiles[this.selectedRack];
    if (!from) return 0;
    const [dx = 0, dy = 0] = direction;
    let best: number | null = null;
    let nearest = Infinity;
    for (const [rack, tile] of this.tiles.entries()) {
      const along = (tile.x - from.x) * dx + (tile.y - from.y) * dy;
      const aside = Math.abs((tile.x - from.x) * dy) + Math.abs((tile.y - from.y) * dx);
      if (along <= 0 || along + 4 * aside >= nearest) continue;
      nearest = along + 4 * aside;
      best = rack;
    }
    return best ?? this.selectedRack;
  }
}

/// The job that fills the whole box; undefined where none does.
function wholeOf(cell: Cell | undefined): number | undefined {
  const [share] = cell?.shares ?? [];
  return share && share.part >= 1 ? share.job : undefined;
}

/// The job at that part of the box's width.
function shareAt(cell: Cell | undefined, part: number): Share | undefined {
  let end = 0;
  return cell?.shares.find((share) => part < (end += share.part));
}

function shortened(ctx: CanvasRenderingContext2D, text: string, room: number): string {
  if (ctx.measureText(text).width <= room) return text;
  let end = text.length;
  while (end > 1 && ctx.measureText(`${text.slice(0, end)}…`).width > room) end--;
  return `${text.slice(0, end)}…`;
}
