// Measures GraphiQL from a CDN on a narrow screen: node cdn.mjs CHROMIUM URL. Prints what it finds as JSON.
// The packages of this folder stand for the CDN.
import { readFileSync } from 'node:fs';
import { chromium } from 'playwright-core';

const [executablePath, url] = process.argv.slice(2);
const CDN = /^https:\/\/unpkg\.com\/([a-z-]+)@([\d.]+)\/(.*)$/;
const EDITOR = '.graphiql-query-editor .CodeMirror';
const PANES = ['.graphiql-sidebar', '.graphiql-session-header', '.graphiql-toolbar', EDITOR, '.graphiql-editor-tools', '.graphiql-response'];

const browser = await chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-gpu', '--disable-background-networking'] });
try {
  const context = await browser.newContext({ viewport: { width: 390, height: 844 } });
  context.setDefaultTimeout(60_000);
  const seen = { problems: [] };
  await context.route(CDN, (route) => {
    const [, name, version, path] = CDN.exec(route.request().url());
    const folder = new URL(`./node_modules/${name}/`, import.meta.url);
    const installed = JSON.parse(readFileSync(new URL('package.json', folder))).version;
    if (installed !== version) seen.problems.push(`${name} is ${installed} here, and ${version} in the page`);
    const contentType = path.endsWith('.css') ? 'text/css' : 'text/javascript';
    return route.fulfill({ body: readFileSync(new URL(path, folder)), contentType, headers: { 'access-control-allow-origin': '*' } });
  });
  const page = await context.newPage();
  page.on('pageerror', (error) => seen.problems.push(error.message));
  const titles = async (second) => {
    await page.waitForFunction((title) => document.querySelectorAll('.graphiql-tab-button')[1]?.textContent === title, second);
    return page.locator('.graphiql-tab-button').allInnerTexts();
  };

  await page.goto(url);
  await page.waitForSelector(EDITOR);
  const second = (await (await fetch(new URL('/graphiql/config.json', url))).json()).tabs[1].title;
  seen.tabs = await titles(second);
  seen.panes = await page.evaluate((panes) => panes.map((selector) => {
    const { left, top, right, bottom } = document.querySelector(selector).getBoundingClientRect();
    return { left, top, right, bottom };
  }), PANES);
  seen.width = await page.evaluate(() => document.documentElement.scrollWidth);
  await page.locator('.graphiql-tab-button').nth(1).click();
  await page.click(EDITOR);
  await page.keyboard.type('# More\n');
  seen.edited = await titles(second);
  // GraphiQL stores the tabs half a second after a change.
  await page.waitForFunction(() => localStorage.getItem('graphiql:tabState')?.includes('# More'));
  await page.reload();
  await page.waitForSelector(EDITOR);
  seen.reloaded = await titles(second);
  console.log(JSON.stringify(seen));
} finally {
  await browser.close();
}
