// Compares the stores of Apollo Client, Relay and graphcache with the gateway: node stores.mjs URL TOKENS SCENE SEED STEPS.
//
// Each step is a random write, and then a comparison of each page that the stores can show without the network with what
// the gateway answers. The stores take the answer of a write of the viewer, and the event of a write of another member.
// If the answer or the event selects everything, nothing may be stale. If it selects a part, nothing may be mixed: each
// field has a value that the gateway has answered for its object.
// Prints {steps, warnings, stale, mixed, failures, shown, missed, done} as JSON.
import { isDeepStrictEqual } from 'node:util';
import { buildClientSchema, getIntrospectionQuery, isAbstractType, Kind, parse, print, visit } from 'graphql';
import { apollo } from './stores/apollo.mjs';
import { events, pages, write } from './stores/documents.mjs';
import { graphcache } from './stores/graphcache.mjs';
import { listener } from './stores/live.mjs';
import { relayStore } from './stores/relay.mjs';
import { writes } from './stores/writes.mjs';

const [url, givenTokens, given, seed, steps] = process.argv.slice(2);
const [tokens, scene] = [givenTokens, given].map((text) => JSON.parse(text));
const found = { steps: 0, warnings: [], stale: [], mixed: [], failures: [], shown: 0, missed: 0, done: {} };
for (const level of ['warn', 'error']) console[level] = (...parts) => found.warnings.push(parts.join(' ').slice(0, 300));

let state = Number(seed) >>> 0;
const random = (below) => {
  state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
  return Math.floor((state / 2 ** 32) * below);
};

const picture = () => new Blob([Buffer.from(scene.pictures[random(scene.pictures.length)], 'base64')], { type: 'image/png' });

// `file` is the member of the input that is a picture. A guest has no token.
async function ask(query, variables, by = scene.owner, file = undefined) {
  const headers = tokens[by] ? { authorization: `Bearer ${tokens[by]}` } : {};
  let body = JSON.stringify({ query, variables });
  if (file) {
    headers['graphql-require-preflight'] = 'true';
    const operations = body;
    body = new FormData();
    body.append('operations', operations);
    body.append('map', JSON.stringify({ 0: [`variables.input.${file}`] }));
    body.append('0', picture(), 'picture.png');
  } else headers['content-type'] = 'application/json';
  const response = await fetch(url, { method: 'POST', headers, body });
  return response.json();
}

const { data: introspection } = await ask(getIntrospectionQuery());
const schema = buildClientSchema(introspection);
const possibleTypes = Object.fromEntries(
  Object.values(schema.getTypeMap()).filter(isAbstractType).map((type) => [type.name, schema.getPossibleTypes(type).map(({ name }) => name)]),
);
const stores = [apollo({ possibleTypes }), relayStore({ schema }), graphcache({ introspection })];

// Selects `__typename` below each field, as the clients do.
const prepared = (text) => {
  const named = { kind: Kind.FIELD, name: { kind: Kind.NAME, value: '__typename' } };
  const document = visit(parse(text, { noLocation: true }), {
    SelectionSet: (node, _key, parent) =>
      parent.kind === Kind.OPERATION_DEFINITION ? undefined : { ...node, selections: [...node.selections, named] },
  });
  return { document, kind: document.definitions[0].operation, text: print(document) };
};
const allPrepared = (texts) => Object.fromEntries(Object.entries(texts).map(([name, text]) => [name, prepared(text)]));
const queries = allPrepared(pages);

const variablesOf = (operation) =>
  Object.fromEntries((operation.document.definitions[0].variableDefinitions ?? []).map(({ variable: { name } }) => [name.value, scene[name.value]]));

// The values that the gateway has answered, by the id of an object and the path of a field below it.
const answered = new Map();
function values(value, visitor, owner = '', path = '') {
  if (Array.isArray(value)) for (const [place, one] of value.entries()) values(one, visitor, owner, one?.id ? path : `${path}[${place}]`);
  else if (value && typeof value === 'object') {
    const [own, start] = value.id ? [value.id, ''] : [owner, path];
    for (const [name, one] of Object.entries(value)) values(one, visitor, own, `${start}.${name}`);
  } else visitor(`${owner} ${path}`, value);
}
const note = (data) => values(data, (key, value) => answered.set(key, (answered.get(key) ?? new Set()).add(JSON.stringify(value))));
const plain = (data) => JSON.parse(JSON.stringify(data), (key, value) => {
  if (key.startsWith('__')) return undefined;
  // Apollo's pages have an empty text in place of null.
  return key === 'endCursor' ? value || null : value;
});
const ordered = (value) =>
  Array.isArray(value) ? value.map(ordered)
    : value && typeof value === 'object' ? Object.fromEntries(Object.keys(value).sort().map((key) => [key, ordered(value[key])])) : value;

function difference(one, other, path = '') {
  if (isDeepStrictEqual(one, other)) return null;
  if (one && other && typeof one === 'object' && typeof other === 'object') {
    for (const key of new Set([...Object.keys(one), ...Object.keys(other)])) {
      const below = difference(one[key], other[key], `${path}.${key}`);
      if (below) return below;
    }
  }
  return `${path}: ${JSON.stringify(one)?.slice(0, 120)} instead of ${JSON.stringify(other)?.slice(0, 120)}`;
}

async function fetchPages() {
  const answers = {};
  await Promise.all(
    Object.entries(queries).map(async ([name, query]) => {
      answers[name] = await ask(query.text, variablesOf(query));
      if (answers[name].errors) found.failures.push(`${name}: ${JSON.stringify(answers[name].errors).slice(0, 300)}`);
      note(answers[name].data);
    }),
  );
  return answers;
}

async function takePages(answers) {
  for (const [name, query] of Object.entries(queries)) {
    for (const store of stores) await store.take(query, variablesOf(query), answers[name]);
  }
}

async function compare(answers, step, isWhole, own = Object.keys(queries)) {
  for (const [name, query] of Object.entries(queries)) {
    await comparePage(name, query, answers, step, isWhole && own.includes(name));
  }
}

async function comparePage(name, query, answers, step, isWhole) {
  const current = ordered(plain(answers[name].data));
  for (const store of stores) {
    const shown = await store.read(query, variablesOf(query));
    if (shown === undefined) {
      found.missed += 1;
      continue;
    }
    found.shown += 1;
    const own = ordered(plain(shown));
    if (isWhole) {
      const wrong = difference(own, current);
      if (wrong) found.stale.push(`${step} ${store.name} ${name}${wrong}`);
    } else {
      values(own, (key, value) => {
        if (!answered.get(key)?.has(JSON.stringify(value))) found.mixed.push(`${step} ${store.name} ${name} ${key}: ${JSON.stringify(value)}`);
      });
    }
  }
}

const live = await listener({
  url,
  token: tokens[scene.owner],
  operations: [true, false].map((isWhole) => allPrepared(events(isWhole))),
  variablesOf,
});

// The stores take the event of each subscription that the write has caused. Without an expectation, it is a later state.
async function takeEvents(expected, isWhole, written) {
  for (const [name, isExpected] of Object.entries(expected)) {
    const fits = isExpected ? (value) => isExpected(value, written) : await isCurrentRoom(name);
    const { operation, result } = await live.event(name, isWhole, fits);
    note(result.data);
    for (const store of stores) await store.take(operation, variablesOf(operation), result);
  }
}
async function isCurrentRoom(name) {
  const id = name === 'roomChanged' ? scene.room : scene.market;
  const { data } = await ask('query Version($id: ID!) { location(id: $id) { version } }', { id });
  return ({ version }) => BigInt(version) >= BigInt(data.location.version);
}

let answers = await fetchPages();
await takePages(answers);
await compare(answers, 'start', true);
for (let number = 0; number < Number(steps); number += 1) {
  const isWhole = random(3) > 0;
  const shown = Object.fromEntries(Object.entries(answers).map(([name, { data }]) => [name, data]));
  const [name, chosen, { as, live: expected, pages, except, file }] = writes(random, scene, shown);
  const input = file ? { ...chosen, [file]: null } : chosen;
  const operation = prepared(write(name, isWhole));
  const answer = await ask(operation.text, { input }, as, file);
  const result = answer.data?.[name];
  const kind = result?.__typename ?? 'nothing';
  if (answer.errors || !result) found.failures.push(`${name}: ${JSON.stringify(answer).slice(0, 300)}`);
  const isDone = kind.endsWith('Payload');
  if (!as) {
    note(answer.data);
    for (const store of stores) await store.take(operation, { input }, answer);
  }
  if (expected && isDone) await takeEvents(expected, isWhole, result);
  if (as === 'guest' && isDone) scene.guestCart = result.cart.id;
  if (name === 'give' && isDone) scene.given = as ? scene.given.filter((id) => id !== input.itemId) : [...scene.given, input.itemId];
  if (name === 'claimCart') scene.guestCart = null;
  answers = await fetchPages();
  const isFollowed = isWhole && isDone;
  const own = as ? (pages ?? []) : Object.keys(queries).filter((page) => page !== except);
  await compare(answers, `${number} ${name} ${as ?? 'viewer'} ${kind} ${isWhole ? 'whole' : 'part'}`, isFollowed, own);
  found.steps += 1;
  const done = `${name} ${as ?? 'viewer'} ${kind}`;
  found.done[done] = (found.done[done] ?? 0) + 1;
  if (!isFollowed || as || except) {
    await takePages(answers);
    await compare(answers, `${number} ${name} read again`, true);
  }
  if (found.stale.length + found.mixed.length + found.failures.length > 12) break;
}
process.stdout.write(JSON.stringify(found), () => process.exit(0));
