import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { kWeb } from './lib/browser';

const dist = (name: string) => readFileSync(join(kWeb, 'dist', name), 'utf8');

test('the dashboard has its script and style beside it, and nothing inline', () => {
  const page = dist('index.html');
  assert.match(page, /<script [^>]*src="\.\/app\.js"/);
  assert.match(page, /<link [^>]*href="\.\/app\.css"/);
  assert.doesNotMatch(page, /<script(?![^>]*src=)|<style|\son\w+=|\sstyle=/);
});

test('the panel is one file', () => {
  assert.doesNotMatch(dist('panel.html'), /\s(src|href)="(?!data:,)/);
});

test('no page names an address elsewhere', () => {
  for (const name of ['index.html', 'app.js', 'app.css', 'panel.html']) {
    // A namespace is a name, not an address.
    const text = dist(name).replaceAll(/http:\/\/www\.w3\.org\/(2000\/svg|1999\/xhtml)/g, '');
    assert.doesNotMatch(text, /https?:\/\/|["'(]\/\/\w/, name);
  }
});
