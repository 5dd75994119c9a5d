import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
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

test('the panel is one file that lets nothing else in', () => {
  assert.doesNotMatch(dist('panel.html'), /\s(src|href)="(?!data:,)/);
  const policy = /<meta http-equiv="Content-Security-Policy" content="([^"]*)"/.exec(
    dist('panel.html'),
  );
  assert.match(
    policy?.[1] ?? '',
    /^default-src 'none'; script-src 'sha256-[^ ;]+'; style-src 'sha256-[^ ;]+'; img-src data:;/,
  );
});

test('no source turns text into HTML or code', () => {
  const folder = join(kWeb, 'src');
  const sources = readdirSync(folder, { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .flatMap(({ name }) => readdirSync(join(folder, name)).map((file) => join(folder, name, file)))
    .filter((file) => file.endsWith('.ts'));
  assert.ok(sources.length > 5);
  for (const file of sources) {
    assert.doesNotMatch(
      readFileSync(file, 'utf8'),
      /innerHTML|outerHTML|insertAdjacentHTML|document\.write|srcdoc|\beval\(|new Function|DOMParser/,
      file,
    );
  }
});

test('no page names an address elsewhere', () => {
  for (const name of ['index.html', 'app.js', 'app.css', 'panel.html']) {
    // A namespace is a name, not an address.
    const text = dist(name).replaceAll(/http:\/\/www\.w3\.org\/(2000\/svg|1999\/xhtml)/g, '');
    assert.doesNotMatch(text, /https?:\/\/|["'(]\/\/\w/, name);
  }
});
