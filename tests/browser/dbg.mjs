import { chromium } from 'playwright-core';
const [executablePath, url] = process.argv.slice(2);
const browser = await chromium.launch({ executablePath, args: ['--no-sandbox','--disable-gpu'] });
const page = await browser.newPage();
page.on('console', m => console.log('console', m.type(), m.text().slice(0,500)));
page.on('worker', w => { console.log('worker', w.url()); });
page.on('pageerror', m => console.log('perr', m.message));
await page.goto(url);
const EDITOR = '.graphiql-query-editor .monaco-editor';
await page.waitForSelector(EDITOR);
await page.waitForFunction(() => !document.querySelector('.graphiql-sidebar .graphiql-spin'));
for (const text of ['{ view', '{ cat', '{ prod', '{ ', 'query A { vie']) {
  await page.locator(EDITOR).first().click();
  await page.keyboard.press('Control+A');
  await page.keyboard.press('Delete');
  await page.keyboard.type(text);
  await page.waitForTimeout(1000);
  await page.keyboard.press('Control+Space');
  await page.waitForTimeout(1500);
  console.log(text, await page.locator('.suggest-widget').innerText().catch(e=>'none'));
  await page.keyboard.press('Escape');
}
await page.locator(EDITOR).first().click();
await page.keyboard.press('Control+A');
await page.keyboard.type('query A { nonsense }');
await page.waitForTimeout(2000);
console.log('squiggly', await page.locator('.squiggly-error').count());
await browser.close();
