// Apollo Server with its standalone integration. Its cache of parsed and validated documents is on by default.

import { ApolloServer } from "@apollo/server";
import { startStandaloneServer } from "@apollo/server/standalone";

import { host, newContext, port, resolvers, typeDefs } from "./shared.mjs";

const server = new ApolloServer({
  typeDefs,
  resolvers,
  // By default, a line feed follows the JSON. The other peers send none.
  stringifyResult: JSON.stringify,
});

await startStandaloneServer(server, { listen: { host, port }, context: async () => newContext() });
