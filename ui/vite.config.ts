import { fileURLToPath } from 'node:url';
import { svelte } from '@sveltejs/vite-plugin-svelte';
import tailwind from '@tailwindcss/vite';
import { defineConfig } from 'vitest/config';
import shell from '../src-tauri/tauri.conf.json' with { type: 'json' };

// What the page may do is written in the window's configuration, and the server's page has the same; the preview uses it too,
// so the web tests prove that the page lives under it: no inline script, no style element made at run time, no blob worker, no
// foreign host. The window's own schemes are no use in a browser.
const csp = Object.entries(shell.app.security.csp)
  .map(([name, sources]) => [name, ...sources.split(' ').filter((source) => !source.includes('ipc'))].join(' '))
  .join('; ');

export default defineConfig({
  // Relative paths: the same build lies under Tauri's own scheme and under the server's root.
  base: './',
  plugins: [svelte(), tailwind()],
  server: { host: '127.0.0.1', port: 5173 },
  preview: { host: '127.0.0.1', port: 4173, headers: { 'Content-Security-Policy': csp } },
  worker: { format: 'es' },
  build: { target: 'es2023', assetsInlineLimit: 0, modulePreload: { polyfill: false }, chunkSizeWarningLimit: 900 },
  resolve: {
    alias: { $lib: fileURLToPath(new URL('./src/lib', import.meta.url)) },
    ...(process.env.VITEST ? { conditions: ['browser'] } : {}),
  },
  test: { environment: 'jsdom', include: ['src/**/*.test.ts'] },
});
