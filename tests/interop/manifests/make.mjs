// Runs the build tools of clients on the sources in app/: node make.mjs SCHEMA FOLDER.
// FOLDER then has the trusted documents as each tool writes them: apollo.json, relay.json and preset.json.
import { execFileSync } from 'node:child_process';
import { cpSync, readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join, resolve } from 'node:path';
import { preset } from '@graphql-codegen/client-preset';
import { codegen } from '@graphql-codegen/core';
import { buildSchema, parse } from 'graphql';

const [schema, folder] = process.argv.slice(2).map((path) => resolve(path));
const require = createRequire(import.meta.url);
const app = join(folder, 'app');
cpSync(join(import.meta.dirname, 'app'), app, { recursive: true });

const configured = (name, content) => writeFileSync(join(app, name), JSON.stringify(content));
const run = (command, ...given) => execFileSync(command, given, { cwd: app, stdio: ['ignore', 'pipe', 'inherit'] });

configured('persisted-query-manifest.config.json', { documents: 'apollo/*.tsx', output: '../apollo.json' });
run(process.execPath, require.resolve('@apollo/generate-persisted-query-manifest/cli.js'));

cpSync(schema, join(app, 'schema.graphql'));
configured('relay.config.json', {
  src: './relay',
  schema: './schema.graphql',
  language: 'javascript',
  persistConfig: { file: '../relay.json' },
});
// The compiler adds to a file that is there.
writeFileSync(join(folder, 'relay.json'), '{}');
run(require('relay-compiler'));

const text = readFileSync(schema, 'utf8');
const rawSDL = readFileSync(join(app, 'preset/app.graphql'), 'utf8');
const sections = await preset.buildGeneratesSection({
  baseOutputDir: `${folder}/`,
  schema: parse(text),
  schemaAst: buildSchema(text),
  documents: [{ location: 'app.graphql', rawSDL, document: parse(rawSDL) }],
  config: {},
  plugins: [],
  pluginMap: {},
  presetConfig: { persistedDocuments: true },
});
const contents = await Promise.all(sections.map(codegen));
const place = sections.findIndex(({ filename }) => filename.endsWith('/persisted-documents.json'));
writeFileSync(join(folder, 'preset.json'), contents[place]);
