// Measures GraphiQL on a narrow screen: node narrow.mjs CHROMIUM URL OPERATION FIELD. Prints what it finds as JSON.
import { chromium } from 'playwright-core';

const [executablePath, url, operation, field] = process.argv.slice(2);
const EDITOR = '.graphiql-query-editor .monaco-editor';
const RESULT = '.result-window .view-lines';
const PANES = ['.graphiql-sidebar', '.graphiql-plugin', '.graphiql-session-header', '.graphiql-query-editor', '.graphiql-editor-tools', '.graphiql-response'];

const browser = await chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-gpu', '--disable-background-networking'] });
try {
  const context = await browser.newContext({ viewport: { width: 390, height: 844 } });
  context.setDefaultTimeout(60_000);
  const page = await context.newPage();
  const seen = {};

  const measure = () =>
    page.evaluate((panes) => {
      const box = (place) => {
        const { left, top, right, bottom } = place.getBoundingClientRect();
        return { left, top, right, bottom };
      };
      // The text of an element, without its padding.
      const textBox = (element) => {
        const range = document.createRange();
        range.selectNodeContents(element);
        return box(range);
      };
      // GraphiQL moves what it hides out of the page.
      const isShown = ({ left, top, right, bottom }) => right - left > 1 && bottom - top > 1 && right > 0;
      // What a pane shows of the element, because the rest of a long line or list is behind its border.
      const shown = (element, own) => {
        for (let around = element.parentElement; around; around = around.parentElement) {
          if (getComputedStyle(around).overflow === 'visible') continue;
          const { left, top, right, bottom } = box(around);
          own.left = Math.max(own.left, left);
          own.top = Math.max(own.top, top);
          own.right = Math.min(own.right, right);
          own.bottom = Math.min(own.bottom, bottom);
        }
        return own;
      };
      const named = (selector, boxOf) =>
        [...document.querySelectorAll(selector)]
          .map((element) => [element.getAttribute('aria-label') ?? element.textContent, shown(element, boxOf(element))])
          .filter(([, one]) => isShown(one));
      const buttons = named('.graphiql-container button:not(.graphiql-tab-button)', box);
      const texts = ['.view-line > span', '.graphiql-tab-button', '.graphiql-logo'].flatMap((selector) => named(selector, textBox));
      const covers = (one, other) => one.left < other.right - 1 && other.left < one.right - 1 && one.top < other.bottom - 1 && other.top < one.bottom - 1;
      return {
        panes: panes.map((selector) => document.querySelector(selector)).filter(Boolean).map((element) => [element.className, box(element)]).filter(([, one]) => isShown(one)),
        covered: buttons.flatMap(([button, place]) => texts.filter(([, other]) => covers(place, other)).map(([text]) => `${button}: ${text}`)),
        outside: buttons.filter(([, { left, right, top, bottom }]) => left < 0 || right > innerWidth || top < 0 || bottom > innerHeight).map(([button]) => button),
        width: document.documentElement.scrollWidth,
        texts: texts.length,
      };
    }, PANES);

  await page.goto(url);
  await page.waitForSelector(EDITOR);
  await page.waitForFunction(() => !document.querySelector('.graphiql-sidebar .graphiql-spin'));
  await page.click('.graphiql-execute-button');
  await page.getByRole('menuitem', { name: operation, exact: true }).click();
  await page.waitForFunction(([selector, name]) => document.querySelector(selector)?.innerText.includes(name), [RESULT, `"${field}"`]);
  seen.answered = await measure();
  seen.tabs = await page.locator('.graphiql-tab').allInnerTexts();
  // GraphiQL stores the tabs half a second after a change.
  await page.waitForFunction(() => Object.keys(localStorage).some((key) => key.endsWith('tabState')));
  await page.reload();
  await page.waitForSelector(EDITOR);
  seen.reloaded = await page.locator('.graphiql-tab').allInnerTexts();
  await page.click('button[aria-label="Show Documentation Explorer"]');
  await page.waitForSelector('.graphiql-doc-explorer');
  seen.documented = await measure();
  console.log(JSON.stringify(seen));
} finally {
  await browser.close();
}
