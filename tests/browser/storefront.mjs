// Walks through the storefront in two windows: node storefront.mjs CHROMIUM URL EXPIRED_TOKEN PARTS PART. Prints what it
// sees as JSON. It checks one of so many parts of the pages with axe.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { chromium } from 'playwright-core';

const [executablePath, url, expiredToken, parts, part] = process.argv.slice(2);
const { origin } = new URL(url);
const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const WIDE = { width: 1280, height: 900 };
// The units of Kind of Blue in the demo.
const STOCKED = 17;
const NARROW = { width: 390, height: 844 };

const seen = { foreign: [], problems: [], failed: [], inaccessible: [], overflowing: [], covers: {} };

async function open(browser, viewport, colorScheme) {
  const context = await browser.newContext({ viewport, colorScheme, locale: 'en-US', reducedMotion: 'reduce' });
  context.setDefaultTimeout(30_000);
  await context.route((to) => !['data:', 'blob:'].includes(to.protocol) && to.origin !== origin, (route) => {
    seen.foreign.push(route.request().url());
    return route.abort();
  });
  const page = await context.newPage();
  page.on('response', (response) => {
    if (response.status() >= 400) seen.failed.push(response.status());
  });
  page.on('console', (message) => {
    // The browser notes each failed request, also those that this walk makes fail.
    const isExpected = message.text().startsWith('Failed to load resource');
    if (['error', 'warning'].includes(message.type()) && !isExpected) seen.problems.push(message.text());
  });
  page.on('pageerror', (error) => seen.problems.push(error.message));
  await page.addInitScript(() => {
    document.addEventListener('securitypolicyviolation', (event) => console.error(`${event.effectiveDirective} ${event.blockedURI}`));
  });
  return page;
}

let checks = 0;
/** Whether the next page is in the part that is checked. */
const isChecked = () => (checks++ + Number(part)) % Number(parts) === 0;
/** Notes what axe finds on the page as it is, and whether it is wider than the window. */
async function check(page, name) {
  if (isChecked()) {
    await page.evaluate(axe);
    const { violations } = await page.evaluate(() => globalThis.axe.run());
    seen.inaccessible.push(...violations.map(({ id, nodes }) => `${name}: ${id}: ${nodes[0].html.slice(0, 200)}`));
  }
  const [width, inner] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
  if (width > inner) seen.overflowing.push(`${name}: ${width} > ${inner}`);
}

const signIn = async (page, name) => {
  await page.goto(`${url}/sign-in`);
  await page.getByRole('button', { name, exact: true }).click();
  await page.getByRole('button', { name: `Sign out ${name}` }).waitFor();
};
/** Waits until the page has images, and all in the window are loaded. Notes what they show. */
async function checkImages(page, path) {
  await page.waitForFunction(() => {
    const shown = [...document.images].filter((image) => image.getBoundingClientRect().top < innerHeight);
    return shown.length > 0 && shown.every((image) => image.naturalWidth > 0);
  });
  seen.covers[path] = await page.locator('img').first().getAttribute('alt');
}

const unread = async (page) => Number.parseInt((await page.getByRole('link', { name: /^Notifications/ }).getAttribute('aria-label')).match(/[0-9]+/), 10);
const hasUnread = (page, count) => page.getByRole('link', { name: `Notifications, ${count} unread` }).waitFor();
const textsOf = (page, selector) => page.locator(selector).allInnerTexts();
const heading = (page, name) => page.getByRole('heading', { level: 1, name, exact: true }).waitFor();

async function visit(page) {
  await page.goto(url);
  // On a slow machine, the network is idle for a while before the page shows its cards and asks for their covers.
  await page.waitForFunction(() => {
    const covers = [...document.querySelectorAll('.cards img, .entry img')];
    return covers.length > 12 && covers.every((image) => image.complete && image.naturalWidth > 0);
  });
  await page.waitForLoadState('networkidle');
  seen.figures = await page.evaluate(() => {
    const entries = [...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')];
    return { requests: entries.length, bytes: entries.reduce((sum, { transferSize }) => sum + transferSize, 0) };
  });
  await check(page, 'home');
}

async function browse(page) {
  await page.getByRole('link', { name: 'Music', exact: true }).click();
  await heading(page, 'Music');
  const total = page.locator('.total');
  await page.getByRole('checkbox', { name: /^Jazz [0-9]/ }).waitFor();
  seen.all = await total.innerText();
  await page.getByRole('checkbox', { name: /^Jazz [0-9]/ }).check();
  await page.waitForFunction((before) => document.querySelector('.total').innerText !== before, seen.all);
  seen.filtered = await total.innerText();
  seen.address = page.url().replace(url, '');
  await checkImages(page, '/c/music');
  await check(page, 'category');
  await page.getByRole('radio', { name: /^\$10\.00 to/ }).check();
  seen.priced = page.url().replace(url, '');
  await page.getByRole('radio', { name: 'Any' }).check();
  seen.anyPrice = page.url().replace(url, '');

  const box = page.getByRole('combobox', { name: 'Search the shop' });
  await box.pressSequentially('jaz');
  seen.suggested = [await page.getByRole('listbox', { name: 'Suggestions' }).getByRole('option').first().innerText()];
  await box.fill('');
  // In any case, and with a typo.
  await box.pressSequentially('love suprme');
  await page.getByRole('option', { name: 'A Love Supreme' }).waitFor();
  seen.suggested.push(await page.getByRole('listbox', { name: 'Suggestions' }).getByRole('option').first().innerText());
  await check(page, 'suggestions');
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('Enter');
  await heading(page, 'A Love Supreme');
  seen.found = page.url().replace(url, '');
  await checkImages(page, seen.found);
}

async function buy(page) {
  // The first token that the page gets has expired.
  await page.route('**/session.json?subject=demo', (route) => route.fulfill({ json: { token: expiredToken } }), { times: 1 });
  await signIn(page, 'Robin');
  seen.refused = seen.failed.splice(0).filter((status) => status === 401).length;

  // The answer to the first write is lost on the way.
  const keys = [];
  await page.route('**/graphql', async (route) => {
    const { operationName, variables } = route.request().postDataJSON();
    if (operationName !== 'AddToCart') return route.fallback();
    keys.push(variables.input.idempotencyKey);
    if (keys.length > 1) return route.fallback();
    await route.fetch();
    return route.abort('connectionreset');
  });
  await page.goto(`${url}${seen.found}`);
  await page.getByRole('button', { name: 'Add to cart' }).click();
  await page.getByRole('link', { name: 'your cart' }).waitFor();
  seen.writes = { sent: keys.length, keys: new Set(keys).size };
  await check(page, 'product');

  await page.getByRole('link', { name: 'your cart' }).click();
  const quantity = page.locator('.stepper output');
  seen.quantity = [await quantity.innerText()];
  // The shop cannot be reached for so long that the page gives up, and the user tries again.
  const attempts = [];
  let isReachable = false;
  await page.route('**/graphql', async (route) => {
    const { operationName, variables } = route.request().postDataJSON();
    if (operationName !== 'ChangeQuantity') return route.fallback();
    attempts.push(variables.input.idempotencyKey);
    return isReachable ? route.fallback() : route.abort('connectionrefused');
  });
  const more = page.getByRole('button', { name: 'One A Love Supreme more' });
  await more.click();
  await page.getByText('The shop cannot be reached.').waitFor();
  await check(page, 'cart, not reached');
  isReachable = true;
  await more.click();
  await page.waitForFunction(() => document.querySelector('.stepper output').innerText === '2');
  seen.quantity.push(await quantity.innerText());
  seen.attempts = { sent: attempts.length, keys: new Set(attempts).size };
  await check(page, 'cart');
  // Two quick presses: the second does not wait for the first.
  await more.click();
  await more.click();
  await page.waitForFunction(() => document.querySelector('.sum').innerText.includes('79.96'));
  seen.quantity.push(await quantity.innerText());
  await pay(page);
  seen.orders = await textsOf(page, '.orders .items li');
  seen.cart = await page.getByRole('link', { name: /^Cart/ }).getAttribute('aria-label');
  await check(page, 'orders');
}

async function pay(page) {
  for (const [label, text] of [['Name', 'Robin'], ['Street and number', 'Oudegracht 1'], ['Postal code', '3511'], ['City', 'Utrecht']]) {
    await page.getByLabel(label, { exact: true }).fill(text);
  }
  await page.getByLabel('Country, two letters').fill('nl');
  await page.getByRole('button', { name: /^Pay/ }).click();
  await heading(page, 'Your orders');
  await page.locator('.orders > li').first().waitFor();
}

/** Sends an operation as the demo's administrator, who may do everything. */
async function asMerchant(query) {
  const { headers } = await (await fetch(`${origin}/graphiql/config.json`)).json();
  const request = { method: 'POST', headers: { ...headers, 'content-type': 'application/json' }, body: JSON.stringify({ query }) };
  return (await (await fetch(`${origin}/graphql`, request)).json()).data;
}

async function follow(page) {
  const [{ id }] = (await asMerchant('{ orders(first: 1) { nodes { id } } }')).orders.nodes;
  await asMerchant(`mutation { shipOrder(input: { orderId: "${id}", trackingNumber: "NL 42" }) { __typename } }`);
  // The page shows it by itself.
  await page.getByText('Parcel NL 42').waitFor();
  seen.history = [await textsOf(page, '.history li')];

  await page.goto(`${url}${seen.found}`);
  const stock = page.locator('.stock');
  await page.getByRole('button', { name: 'Add to cart' }).click();
  await page.getByRole('link', { name: 'your cart' }).click();
  await pay(page);
  await page.getByRole('button', { name: /^Cancel/ }).click();
  await page.getByText('Your money is back.').waitFor();
  seen.history.push(await textsOf(page, '.orders > li:first-child .history li'));
  await check(page, 'orders, cancelled');

  // A product that a merchant has sold out and stocked again, on a page that is open.
  await page.goto(`${url}/p/kind-of-blue`);
  await stock.waitFor();
  seen.stock = [await stock.innerText()];
  for (const quantity of [-1, 1].map((sign) => sign * STOCKED)) {
    await asMerchant(`mutation { restock(input: { sku: "LP-0002", quantity: ${quantity}, idempotencyKey: "walk ${quantity}" }) { __typename } }`);
    await page.waitForFunction((before) => document.querySelector('.stock').innerText !== before, seen.stock.at(-1));
    seen.stock.push(await stock.innerText());
  }
}

async function talk(robin, ines) {
  await signIn(ines, 'Ines');
  const sockets = [];
  let isDown = false;
  await ines.routeWebSocket('**/graphql', (socket) => {
    if (isDown) return void socket.close({ code: 1012 });
    socket.connectToServer();
    sockets.push(socket);
  });
  for (const page of [robin, ines]) {
    await page.goto(`${url}/blog/a-listening-night`);
    await page.locator('.comments li').first().waitFor();
  }
  const post = async (page, text) => {
    await page.getByLabel('Your comment').fill(text);
    await page.getByRole('button', { name: 'Post', exact: true }).click();
  };
  const sees = (page, text) => page.locator('.comments li', { hasText: text }).waitFor();
  await post(robin, 'Shall I bring *two* chairs?');
  await Promise.all([robin, ines].map((page) => sees(page, 'Shall I bring two chairs?')));
  await robin.waitForFunction(() => !document.querySelector('[aria-label="Notifications, 0 unread"]'));
  seen.unread = [await unread(robin)];
  await ines.locator('.comments li', { hasText: 'two chairs' }).getByRole('button').click();
  await post(ines, 'Bring three.');
  await hasUnread(robin, seen.unread[0] + 1);
  seen.unread.push(await unread(robin));
  await Promise.all([robin, ines].map((page) => sees(page, 'Bring three.')));

  // What comes while the connection of Ines is interrupted is there when it is back.
  isDown = true;
  for (const socket of sockets) await socket.close({ code: 1012 });
  await post(robin, 'Three it is.');
  await sees(robin, 'Three it is.');
  isDown = false;
  await sees(ines, 'Three it is.');
  seen.comments = await Promise.all([robin, ines].map(async (page) => (await textsOf(page, '.comments li div')).slice(-3)));
  await check(robin, 'entry');
  await check(ines, 'entry, narrow');
}

async function notify(robin, ines) {
  await robin.goto(`${url}/notifications`);
  await robin.locator('.notifications > li').first().waitFor();
  const first = robin.locator('.notifications > li a').first();
  seen.notified = [await first.innerText()];
  await check(robin, 'notifications');
  // The list and the number are live.
  const before = await unread(robin);
  await ines.goto(`${url}/community`);
  const post = ines.locator('.post', { hasText: 'Robin' }).first();
  await post.locator('summary').click();
  await post.getByLabel('Your comment').fill('A fine one.');
  await post.getByRole('button', { name: 'Comment' }).click();
  await hasUnread(robin, before + 1);
  await robin.waitForFunction((old) => document.querySelector('.notifications > li a').innerText !== old, seen.notified[0]);
  seen.notified.push(await first.innerText());

  await robin.getByRole('button', { name: 'Show more' }).click();
  await robin.locator('.notifications > li').nth(25).waitFor();
  const other = await open(robin.context().browser(), NARROW, 'dark');
  await signIn(other, 'Robin');
  await hasUnread(other, before + 1);
  await robin.getByRole('button', { name: 'Mark all as read' }).click();
  await Promise.all([robin, other].map((page) => hasUnread(page, 0)));
  seen.unread.push(await unread(robin), await unread(other));
  await robin.locator('.unread').first().waitFor({ state: 'detached' });
  await other.goto(`${url}/notifications`);
  await other.locator('.notifications > li').first().waitFor();
  await check(other, 'notifications, narrow');
  await other.context().close();
}

async function meet(robin, ines) {
  await robin.goto(`${url}/community?own`);
  await robin.locator('.post').first().waitFor();
  await ines.goto(`${url}/community`);
  await ines.getByLabel('What are you listening to?').fill('The rain, and Mingus.');
  await ines.getByRole('button', { name: 'Post', exact: true }).click();
  // Robin follows Ines, and the post comes by itself.
  for (const page of [robin, ines]) await page.locator('.post', { hasText: 'The rain, and Mingus.' }).waitFor();
  await check(robin, 'feed');
  await check(ines, 'community, narrow');

  await robin.goto(`${url}/room`);
  await robin.getByText('Wren (you)').waitFor();
  const [{ id, location }] = (await asMerchant('{ viewer { characters(first: 1) { id location { locationId } } } }')).viewer.characters;
  await ines.goto(`${url}/room`);
  await ines.getByLabel('Name').fill('Fado');
  await check(ines, 'arrival, narrow');
  await ines.getByRole('button', { name: 'Enter' }).click();
  await robin.getByText('Fado', { exact: true }).waitFor();
  seen.rooms = [await robin.locator('h1').innerText()];
  await robin.getByRole('button', { name: /^South/ }).click();
  await robin.waitForFunction((before) => document.querySelector('h1').innerText !== before, seen.rooms[0]);
  seen.rooms.push(await robin.locator('h1').innerText());
  await ines.getByText('Wren', { exact: true }).waitFor({ state: 'detached' });
  // A game master takes Robin back, and the page follows without a request of its own.
  await asMerchant(`mutation { moveCharacter(input: { characterId: "${id}", locationId: "${location.locationId}" }) { __typename } }`);
  await robin.waitForFunction((before) => document.querySelector('h1').innerText !== before, seen.rooms[1]);
  seen.rooms.push(await robin.locator('h1').innerText());
  await check(robin, 'room');
  await check(ines, 'room, narrow');
}

async function narrow(page) {
  for (const path of ['', '/c/music', seen.found, '/cart', '/orders', '/blog', '/sign-in', '/nowhere']) {
    await page.goto(`${url}${path}`);
    await page.locator('h1').waitFor();
    await page.waitForLoadState('networkidle');
    await check(page, `${path || '/'}, narrow`);
  }
}

const browser = await chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-gpu', '--disable-background-networking'] });
try {
  const [robin, ines] = [await open(browser, WIDE, 'light'), await open(browser, NARROW, 'dark')];
  await visit(robin);
  await browse(robin);
  await buy(robin);
  await follow(robin);
  await talk(robin, ines);
  await notify(robin, ines);
  await meet(robin, ines);
  await narrow(ines);
  console.log(JSON.stringify(seen));
} finally {
  await browser.close();
}
