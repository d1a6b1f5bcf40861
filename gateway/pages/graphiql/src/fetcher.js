import { getOperationAST } from 'graphql';
import { failure } from './failure.js';
import { createSubscriber } from './subscriber.js';

export function createFetcher(endpoint) {
  const subscribe = createSubscriber(endpoint);
  return async (params, options) => {
    const operation = options?.documentAST && getOperationAST(options.documentAST, params.operationName);
    if (operation?.operation === 'subscription' || isLive(operation)) {
      return subscribe(params, options.headers ?? {});
    }
    // A Headers object lets the headers editor override these in any case.
    const headers = new Headers({
      accept: 'application/graphql-response+json, application/json;q=0.9',
      'content-type': 'application/json',
    });
    try {
      for (const [name, value] of Object.entries(options?.headers ?? {})) {
        headers.set(name, value);
      }
      const response = await fetch(endpoint, {
        method: 'POST',
        headers,
        body: JSON.stringify(params),
      });
      const text = await response.text();
      try {
        return withPrintableDefaults(JSON.parse(text));
      } catch {
        return failure(`The server returned status ${response.status} without JSON.`);
      }
    } catch (error) {
      return failure(`The request failed. ${error.message}`);
    }
  };
}

// A live query has further answers, like a subscription.
function isLive(operation) {
  return operation?.directives?.some((directive) => directive.name.value === 'live') ?? false;
}

// The editor prints the schema for its worker, but graphql-js 16 cannot print an object as the default of a scalar, e.g.
// `details: JSON! = {}`. So such an input becomes optional, without a default.
function withPrintableDefaults(result) {
  for (const { fields, inputFields } of result.data?.__schema?.types ?? []) {
    const inputs = [...(inputFields ?? []), ...(fields ?? []).flatMap(({ args }) => args ?? [])];
    for (const input of inputs) {
      const type = input.type?.kind === 'NON_NULL' ? input.type.ofType : input.type;
      if (type?.kind === 'SCALAR' && input.defaultValue?.startsWith('{')) {
        Object.assign(input, { type, defaultValue: null });
      }
    }
  }
  return result;
}
