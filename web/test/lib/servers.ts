import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { kWeb, program } from './browser';

/// A program of the build that runs as long as a test needs it.
export class Running {
  private output = '';
  private ended = false;
  private constructor(private readonly child: ChildProcess) {
    for (const stream of [child.stdout, child.stderr]) {
      stream?.on('data', (piece: Buffer) => (this.output += piece.toString()));
    }
    child.on('exit', () => (this.ended = true));
  }

  static start(name: string, args: readonly string[]): Running {
    const cwd = join(kWeb, '..');
    return new Running(spawn(program(name), args, { cwd, stdio: ['ignore', 'pipe', 'pipe'] }));
  }

  /// The first group of the pattern, as soon as what it has printed holds it.
  async printed(pattern: RegExp): Promise<string> {
    const limit = Date.now() + 120_000;
    while (Date.now() < limit) {
      const found = pattern.exec(this.output);
      if (found) return found[1] ?? '';
      if (this.ended) break;
      await new Promise((done) => setTimeout(done, 20));
    }
    throw new Error(`never printed ${pattern}:\n${this.output}`);
  }

  async stop(): Promise<void> {
    if (this.ended) return;
    const end = new Promise((done) => this.child.on('exit', done));
    this.child.kill('SIGTERM');
    const hard = setTimeout(() => this.child.kill('SIGKILL'), 20_000);
    await end;
    clearTimeout(hard);
  }
}

/// A folder that goes with the test.
export class Folder {
  readonly path = mkdtempSync(join(tmpdir(), 'monkeytree-web-'));
  write(name: string, text: string): string {
    const file = join(this.path, name);
    writeFileSync(file, text, { mode: 0o600 });
    return file;
  }
  remove(): void {
    rmSync(this.path, { recursive: true, force: true });
  }
}

/// `monkeytree view FILE`: the address that it prints.
export async function startView(file: string): Promise<{ view: Running; address: string }> {
  const view = Running.start('monkeytree', ['view', file]);
  return { view, address: await view.printed(/^(http:\S+)\n/m) };
}

/// `monkeytree controller` on free ports: the addresses of its page and for its agents.
export async function startController(
  folder: Folder,
  config: string,
  host = '127.0.0.1',
): Promise<{ controller: Running; address: string; agents: string }> {
  const file = folder.write(
    'controller.yaml',
    `${config}journal: ${folder.path}/journal.db\nlisten: {http: '${host}:0', agents: 127.0.0.1:0}\n`,
  );
  const controller = Running.start('monkeytree', ['controller', '--config', file]);
  const address = `http://${await controller.printed(/event=started.* http=(\S+)/)}/`;
  return { controller, address, agents: await controller.printed(/event=started.* agents=(\S+)/) };
}
