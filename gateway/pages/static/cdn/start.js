// Starts GraphiQL, which the page loads from a CDN, with the gateway's configuration.
(async () => {
  const place = document.getElementById("graphiql");
  try {
    const config = await (await fetch("/graphiql/config.json")).json();
    const subscriptions = new URL(config.endpoint, window.location.href);
    subscriptions.protocol = subscriptions.protocol.replace("http", "ws");
    const headers = JSON.stringify(config.headers, null, 2);
    const fetcher = GraphiQL.createFetcher({ url: config.endpoint, subscriptionUrl: subscriptions.href });
    ReactDOM.createRoot(place).render(
      React.createElement(GraphiQL, {
        fetcher: (params, options) => fetcher(params, { ...options, documentAST: withLive(options?.documentAST) }),
        defaultHeaders: headers,
        defaultTabs: config.tabs.map(({ query, variables }) => ({ query, variables, headers })),
      }),
    );
  } catch {
    place.textContent = "GraphiQL cannot start, because the CDN or the gateway does not respond. To try again, reload the page.";
  }
})();

// GraphiQL's fetcher sends only subscriptions over a WebSocket. A live query has further answers, like a subscription.
function withLive(document) {
  const isLive = ({ directives }) => directives?.some(({ name }) => name.value === "live");
  const sent = (definition) => (isLive(definition) ? { ...definition, operation: "subscription" } : definition);
  return document && { ...document, definitions: document.definitions.map(sent) };
}
