// Uses GraphiQL in a browser: node graphiql.mjs CHROMIUM URL OPERATION FIELD. Prints what it shows as JSON.
import { chromium } from 'playwright-core';

const [executablePath, url, operation, field] = process.argv.slice(2);
const { origin } = new URL(url);

const EDITOR = '.graphiql-query-editor .monaco-editor';
const RESULT = '.result-window .view-lines';
const SUGGESTION = '.suggest-widget.visible .monaco-list-row';

const browser = await chromium.launch({
  executablePath,
  args: ['--no-sandbox', '--disable-gpu', '--disable-background-networking', '--disable-component-update', '--disable-sync'],
});
try {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 } });
  context.setDefaultTimeout(60_000);
  const seen = { foreign: [], problems: [], failed: [] };
  await context.route((to) => !['data:', 'blob:'].includes(to.protocol) && to.origin !== origin, (route) => {
    seen.foreign.push(route.request().url());
    return route.abort();
  });
  context.on('response', (response) => {
    if (response.status() >= 400) seen.failed.push(`${response.status()} ${response.url()}`);
  });
  const page = await context.newPage();
  page.on('console', (message) => {
    if (['error', 'warning'].includes(message.type())) seen.problems.push(message.text());
  });
  page.on('pageerror', (error) => seen.problems.push(error.message));
  await page.addInitScript(() => {
    window.violations = [];
    document.addEventListener('securitypolicyviolation', (event) => {
      window.violations.push(`${event.effectiveDirective} ${event.blockedURI}`);
    });
  });

  await page.goto(url);
  await page.waitForSelector(EDITOR);
  await page.waitForFunction(() => !document.querySelector('.graphiql-sidebar .graphiql-spin'));
  seen.title = await page.title();
  seen.tabs = await page.locator('.graphiql-tab').allInnerTexts();

  // The examples have several operations, so the button opens a menu.
  await page.click('.graphiql-execute-button');
  await page.getByRole('menuitem', { name: operation, exact: true }).click();
  await page.waitForFunction(
    ([selector, name]) => document.querySelector(selector)?.innerText.includes(name),
    [RESULT, `"${field}"`],
  );
  seen.result = (await page.locator(RESULT).innerText()).replaceAll('\u00a0', ' ');

  // The tab of the game. A tab has the name of its first operation, and `GameLive` follows.
  await page.locator('.graphiql-tab', { hasText: 'Game' }).first().click();
  await page.waitForFunction((selector) => document.querySelector(selector)?.innerText.includes('Wren'), EDITOR);
  await page.click('.graphiql-execute-button');
  await page.getByRole('menuitem', { name: 'Walk', exact: true }).click();
  await page.waitForFunction((selector) => document.querySelector(selector)?.innerText.includes('"smithy"'), RESULT);
  seen.walk = (await page.locator(RESULT).innerText()).replaceAll('\u00a0', ' ');

  await page.locator(EDITOR).first().click();
  await page.keyboard.press('Control+A');
  await page.keyboard.press('Delete');
  await page.keyboard.type('{ view');
  await page.keyboard.press('Control+Space');
  await page.waitForSelector(SUGGESTION);
  seen.suggestions = await page
    .locator(SUGGESTION)
    .evaluateAll((rows) => rows.map((row) => row.getAttribute('aria-label').split(/[\s,]/)[0]));
  await page.keyboard.press('Enter');
  await page.waitForFunction((selector) => document.querySelector(`${selector} .view-lines`)?.innerText.includes('viewer'), EDITOR);
  // Paste the rest, because suggestions and automatic braces can change what is typed.
  await page.keyboard.press('Control+A');
  await page.evaluate((text) => {
    const clipboardData = new DataTransfer();
    clipboardData.setData('text/plain', text);
    document.activeElement.dispatchEvent(new ClipboardEvent('paste', { clipboardData, bubbles: true, cancelable: true }));
  }, '{ viewer { subject } }');
  // The button works shortly after GraphiQL has parsed the text. Nothing signals when, so retry.
  const isAnswered = () =>
    page.waitForFunction((selector) => document.querySelector(selector)?.innerText.includes('subject'), RESULT, { timeout: 3_000 });
  for (let tries = 1; ; tries++) {
    await page.click('.graphiql-execute-button');
    try {
      await isAnswered();
      break;
    } catch (error) {
      if (tries === 10) throw error;
      await page.keyboard.press('Escape');
    }
  }
  seen.viewer = (await page.locator(RESULT).innerText()).replaceAll('\u00a0', ' ');

  await page.click('button[aria-label="Show Documentation Explorer"]');
  await page.waitForSelector('.graphiql-doc-explorer');
  seen.violations = await page.evaluate(() => window.violations);
  console.log(JSON.stringify(seen));
} finally {
  await browser.close();
}
