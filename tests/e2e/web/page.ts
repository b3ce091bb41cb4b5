import { expect, type Page } from '@playwright/test';

/** Opens the page on the fake backend; `fails` collects what the page complained about. */
export async function open(page: Page, scene = '', pace = 5): Promise<string[]> {
  const complaints: string[] = [];
  page.on('pageerror', (error) => complaints.push(`error: ${error.message}`));
  page.on('console', (message) => {
    if (message.type() === 'error' || /Content Security Policy/.test(message.text()))
      complaints.push(`${message.type()}: ${message.text()}`);
  });
  await page.goto(`/?fake=${scene}&pace=${pace}`);
  await page.waitForFunction(() => 'fake' in window);
  return complaints;
}

/** A new thread in the first project. */
export async function newThread(page: Page): Promise<void> {
  await page.getByTestId('new-thread').click();
  await expect(page.getByTestId('composer-text')).toBeFocused();
}

export async function send(page: Page, text: string): Promise<void> {
  await page.getByTestId('composer-text').fill(text);
  await page.getByTestId('send').click();
}

/** What the fake backend was asked, by method. */
export function calls(page: Page, method: string): Promise<Record<string, unknown>[]> {
  return page.evaluate(
    (name) =>
      (
        window as never as { fake: { engine: { calls: { method: string; params: Record<string, unknown> }[] } } }
      ).fake.engine.calls
        .filter((call) => call.method === name)
        .map((call) => call.params),
    method,
  );
}
