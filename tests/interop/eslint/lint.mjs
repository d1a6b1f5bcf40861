// Checks a schema by graphql-eslint's rules `schema-recommended` and `schema-relay`: node lint.mjs SCHEMA.
// Prints [rule, type or field, message] of each complaint as JSON.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { ESLint } from 'eslint';

// As CommonJS, so that it and this file have one `graphql`.
const require = createRequire(import.meta.url);
const graphql = require('@graphql-eslint/eslint-plugin');
const { parse } = require('graphql');

const [path] = process.argv.slice(2);
const text = readFileSync(path, 'utf8');
const { configs } = graphql;
const rules = {
  ...configs['flat/schema-recommended'].rules,
  ...configs['flat/schema-relay'].rules,
  // These describe one answer, or a place in a list.
  '@graphql-eslint/strict-id-in-types': ['error', { exceptions: { suffixes: ['Payload', 'Connection', 'Edge'] } }],
  // A bounded list is a list, and `nodes` has the nodes of the edges.
  '@graphql-eslint/relay-edge-types': ['error', { listTypeCanWrapOnlyEdgeType: false }],
};
const eslint = new ESLint({
  cwd: '/',
  overrideConfigFile: true,
  overrideConfig: [
    {
      files: ['**/*.graphql'],
      plugins: { '@graphql-eslint': graphql },
      languageOptions: { parser: graphql.parser, parserOptions: { graphQLConfig: { schema: path } } },
      rules,
    },
  ],
});

const { definitions } = parse(text);
const lines = ({ startToken, endToken }) => [startToken.line, endToken.line];
const isIn = (line) => ({ loc }) => lines(loc)[0] <= line && line <= lines(loc)[1];
function placeOf(line) {
  const type = definitions.find(isIn(line));
  const field = (type?.fields ?? []).find(isIn(line));
  return [type, field].filter(Boolean).map(({ name }) => name.value).join('.');
}

const [{ messages }] = await eslint.lintText(text, { filePath: path });
console.log(JSON.stringify(messages.map(({ ruleId, line, message }) => [ruleId?.split('/')[1] ?? '', placeOf(line), message])));
