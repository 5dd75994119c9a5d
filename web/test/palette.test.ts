import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { kColors } from '../src/lib/palette';
import { kWeb } from './lib/browser';

type Color = readonly [number, number, number];

const kTheme = readFileSync(join(kWeb, 'src', 'lib', 'theme.css'), 'utf8');

/// What eyes without one kind of cone make of linear RGB (Machado, Oliveira, Fernandes 2009).
const kEyes: { [name: string]: readonly [Color, Color, Color] } = {
  common: [
    [1, 0, 0],
    [0, 1, 0],
    [0, 0, 1],
  ],
  protanopia: [
    [0.152286, 1.052583, -0.204868],
    [0.114503, 0.786281, 0.099216],
    [-0.003882, -0.048116, 1.051998],
  ],
  deuteranopia: [
    [0.367322, 0.860646, -0.227968],
    [0.280085, 0.672501, 0.047413],
    [-0.01182, 0.04294, 0.968881],
  ],
  tritanopia: [
    [1.255528, -0.076749, -0.178779],
    [-0.078411, 0.930809, 0.147602],
    [0.004733, 0.691367, 0.3039],
  ],
};

const dot = (a: Color, b: Color): number => a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
const times = (m: readonly [Color, Color, Color], c: Color): Color => [
  dot(m[0], c),
  dot(m[1], c),
  dot(m[2], c),
];
const map = (c: Color, f: (x: number) => number): Color => [f(c[0]), f(c[1]), f(c[2])];

/// A variable of the theme in linear RGB.
function colorOf(name: string, dark: boolean): Color {
  const match = new RegExp(`--${name}: light-dark\\((#\\w{6}), (#\\w{6})\\)`).exec(kTheme);
  const hex = match?.[dark ? 2 : 1];
  assert.ok(hex, `the theme has no --${name}`);
  const channel = (at: number): number => {
    const c = parseInt(hex.slice(at, at + 2), 16) / 255;
    return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  };
  return [channel(1), channel(3), channel(5)];
}

/// Oklab: equal distances look about equally different.
function oklab(c: Color): Color {
  const cones = times(
    [
      [0.4122214708, 0.5363325363, 0.0514459929],
      [0.2119034982, 0.6806995451, 0.1073969566],
      [0.0883024619, 0.2817188376, 0.6299787005],
    ],
    c,
  );
  return times(
    [
      [0.2104542553, 0.793617785, -0.0040720468],
      [1.9779984951, -2.428592205, 0.4505937099],
      [0.0259040371, 0.7827717662, -0.808675766],
    ],
    map(cones, Math.cbrt),
  );
}

function distance(a: Color, b: Color, eyes: readonly [Color, Color, Color]): number {
  const seen = (c: Color) => oklab(map(times(eyes, c), (x) => Math.min(1, Math.max(0, x))));
  const [p, q] = [seen(a), seen(b)];
  return Math.hypot(p[0] - q[0], p[1] - q[1], p[2] - q[2]);
}

/// WCAG's contrast.
function contrast(a: Color, b: Color): number {
  const light = [a, b].map((c) => dot([0.2126, 0.7152, 0.0722], c) + 0.05);
  return Math.max(...light) / Math.min(...light);
}

for (const dark of [false, true]) {
  const mode = dark ? 'dark' : 'light';
  const jobs = Array.from({ length: kColors }, (_, i) => colorOf(`job-${i}`, dark));

  test(`${mode}: jobs differ to all eyes, the first four clearly`, () => {
    for (const [name, eyes] of Object.entries(kEyes)) {
      jobs.forEach((a, i) => {
        jobs.slice(0, i).forEach((b, j) => {
          const seen = distance(a, b, eyes);
          const wanted = i < 4 ? 0.14 : 0.07;
          assert.ok(seen >= wanted, `${name}: jobs ${j} and ${i} are ${seen.toFixed(3)} apart`);
        });
        const warn = distance(a, colorOf('warn', dark), eyes);
        if (name === 'common') assert.ok(warn >= 0.1, `job ${i} looks like a warning`);
      });
    }
  });

  test(`${mode}: letters are read on their job, jobs are seen on the page`, () => {
    jobs.forEach((job, i) => {
      assert.ok(contrast(job, colorOf('on-job', dark)) >= 4.5, `the letter of job ${i}`);
      assert.ok(contrast(job, colorOf('page', dark)) >= 3, `job ${i} on the page`);
      assert.ok(contrast(job, colorOf('card', dark)) >= 3, `job ${i} on a card`);
    });
  });
}
