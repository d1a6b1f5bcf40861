// Runs an Apollo app in Chromium, on a page of another origin: node crossorigin.mjs CHROMIUM PORT GIVEN.
// The page is at http://localhost:PORT. GIVEN are the arguments of the app. Prints what the app gets as JSON.
import { createServer } from 'node:http';
import { build } from 'esbuild';
import { chromium } from 'playwright-core';

const [executablePath, port, given] = process.argv.slice(2);
const bundled = await build({
  entryPoints: ['crossorigin/app.mjs'],
  bundle: true,
  format: 'esm',
  write: false,
  define: { 'globalThis.__DEV__': 'true' },
});
const script = bundled.outputFiles[0].text;
const page = '<!doctype html><meta charset="utf-8"><title>Till</title><link rel="icon" href="data:,"><script type="module" src="/app.js"></script>';
const server = createServer(({ url }, response) => {
  const [type, body] = url === '/app.js' ? ['text/javascript', script] : ['text/html', page];
  response.writeHead(200, { 'content-type': `${type}; charset=utf-8` }).end(body);
});
await new Promise((resolve) => server.listen(Number(port), 'localhost', resolve));

const browser = await chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-gpu', '--disable-background-networking'] });
try {
  const tab = await browser.newPage();
  const [problems, requests] = [[], []];
  tab.on('console', (message) => {
    // The browser notes each status that is an error; the app handles it.
    if (message.type() === 'error' && !message.text().includes('status of 401')) problems.push(message.text());
  });
  tab.on('pageerror', (error) => problems.push(error.message));
  tab.on('request', (request) => {
    if (request.method() === 'POST') requests.push({ headers: request.headers(), body: JSON.parse(request.postData()) });
  });
  await tab.goto(`http://localhost:${port}/`);
  await tab.waitForFunction(() => globalThis.run);
  const seen = await tab.evaluate((options) => globalThis.run(options), JSON.parse(given));
  seen.names = [...new Set(requests.map(({ headers }) => `${headers['apollographql-client-name']} ${headers['apollographql-client-version']}`))];
  seen.texts = requests.filter(({ body }) => body.operationName === 'Trusted').map(({ body }) => 'query' in body);
  console.log(JSON.stringify({ ...seen, problems }));
} finally {
  await browser.close();
  server.close();
}
