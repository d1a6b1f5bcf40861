// Mercurius on Fastify. Its just-in-time compiler starts with the first request.

import Fastify from "fastify";
import mercurius from "mercurius";

import { host, newContext, port, resolvers, typeDefs } from "./shared.mjs";

const app = Fastify();

app.register(mercurius, {
  schema: typeDefs,
  // Mercurius uses the name resolveType. The other peers use __resolveType.
  resolvers: { ...resolvers, Product: { resolveType: resolvers.Product.__resolveType } },
  context: newContext,
  jit: 1,
});

await app.listen({ host, port });
