// Runs the GraphQL-over-HTTP audit against a server: node audit.mjs URL. Prints the results as JSON.
import { serverAudits } from 'graphql-http';

const [url] = process.argv.slice(2);
const results = [];
for (const audit of serverAudits({ url })) {
  const { id, name, status, reason } = await audit.fn();
  results.push({ id, name, status, reason: reason ?? null });
}
console.log(JSON.stringify(results));
