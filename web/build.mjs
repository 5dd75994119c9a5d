// Builds both pages into the folder that is named: the dashboard as index.html, app.js and app.css,
// which the program serves, and the teaching panel as one panel.html that needs no server.
// The same sources give the same bytes: names carry no hash, and the lock file pins every tool.
import { createHash } from 'node:crypto';
import { mkdirSync, rmSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'vite';

const root = dirname(fileURLToPath(import.meta.url));
const out = resolve(process.argv[2] ?? 'dist');

const hash = (text) => `'sha256-${createHash('sha256').update(text).digest('base64')}'`;

/** Puts the script and the style into the page, and lets it load nothing else. */
const oneFile = {
  name: 'one-file',
  enforce: 'post',
  generateBundle(_options, bundle) {
    const files = Object.values(bundle);
    const page = files.find((file) => file.fileName.endsWith('.html'));
    const script = files.find((file) => file.type === 'chunk');
    const style = files.find((file) => file.fileName.endsWith('.css'));
    if (!page || !script || !style || files.length !== 3) {
      throw new Error(`expected a page, a script and a style, got ${Object.keys(bundle)}`);
    }
    // "</script" within a string would end the element.
    const code = script.code.trim().replaceAll('</script', '<\\/script');
    const rules = String(style.source).trim();
    const policy =
      `default-src 'none'; script-src ${hash(code)}; style-src ${hash(rules)}; ` +
      `img-src data:; base-uri 'none'; form-action 'none'`;
    page.source = String(page.source)
      .replace(/ *<script[^>]*src=[^>]*><\/script>\n?/, '')
      .replace(/ *<link rel="stylesheet"[^>]*>\n?/, '')
      .replace(
        '</title>',
        () =>
          `</title>\n    <meta http-equiv="Content-Security-Policy" content="${policy}" />\n` +
          `    <style>${rules}</style>`,
      )
      .replace('</body>', () => `  <script type="module">${code}</script>\n  </body>`);
    delete bundle[script.fileName];
    delete bundle[style.fileName];
  },
};

const common = {
  root,
  configFile: false,
  base: './',
  publicDir: false,
  logLevel: 'warn',
};
const output = {
  outDir: out,
  emptyOutDir: false,
  target: 'es2022',
  assetsInlineLimit: 0,
  cssCodeSplit: false,
  modulePreload: false,
  reportCompressedSize: false,
};
const names = {
  entryFileNames: 'app.js',
  chunkFileNames: 'app-[name].js',
  assetFileNames: (asset) => (asset.names[0]?.endsWith('.css') ? 'app.css' : '[name][extname]'),
};

rmSync(out, { recursive: true, force: true });
mkdirSync(out, { recursive: true });
for (const [page, plugins] of [
  ['index.html', []],
  ['panel.html', [oneFile]],
]) {
  await build({
    ...common,
    plugins,
    build: { ...output, rollupOptions: { input: resolve(root, page), output: names } },
  });
}
