export function createFetcher(endpoint) {
  return async (params, options) => {
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
        return JSON.parse(text);
      } catch {
        return failure(`The server answered with status ${response.status} and no JSON.`);
      }
    } catch (error) {
      return failure(`The request failed. ${error.message}`);
    }
  };
}

// GraphiQL shows a thrown error with its stack, which says nothing to the reader.
function failure(message) {
  return { errors: [{ message }] };
}
