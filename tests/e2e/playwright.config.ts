import { defineConfig } from '@playwright/test';

// The page on the fake backend, served by Vite's preview under the strictest policy that a shell of ours sets.
// Another one for a second run on the same machine.
const PORT = Number(process.env.CHANGEOVER_WEB_PORT ?? 4174);

export default defineConfig({
  testDir: './web',
  outputDir: './test-results',
  timeout: 90_000,
  // Two cores, often shared with a build: slow is not wrong.
  expect: { timeout: 15_000 },
  fullyParallel: true,
  workers: 2,
  reporter: [['list']],
  use: {
    baseURL: `http://127.0.0.1:${PORT}`,
    viewport: { width: 1280, height: 800 },
    colorScheme: 'light',
    // Debian's own browser; it runs as root only without its sandbox.
    launchOptions: { executablePath: process.env.CHANGEOVER_CHROMIUM ?? '/usr/bin/chromium', args: ['--no-sandbox'] },
  },
  webServer: {
    command: `npx vite build --mode fake --outDir dist-fake && npx vite preview --mode fake --outDir dist-fake --port ${PORT} --strictPort`,
    cwd: '../../ui',
    url: `http://127.0.0.1:${PORT}`,
    reuseExistingServer: !process.env.CI,
    timeout: 300_000,
  },
});
