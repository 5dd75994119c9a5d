import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { kWeb, program } from './browser';

/// Runs a program of the build and returns its lines; a program that fails, fails the test.
export function linesOf(name: string, args: readonly string[], input = ''): string[] {
  const run = spawnSync(program(name), args, {
    input,
    cwd: join(kWeb, '..'),
    encoding: 'utf8',
    maxBuffer: 1 << 28,
    timeout: 600_000,
  });
  assert.equal(run.error, undefined);
  assert.equal(run.status, 0, run.stderr);
  return run.stdout.split('\n').slice(0, -1);
}

/// Numbers that look random and are the same in every run (mulberry32).
export function randomFrom(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) % below;
  };
}
