// Starts GraphiQL, which the page loads from a CDN, with the gateway's configuration.
(async () => {
  const place = document.getElementById("graphiql");
  try {
    const config = await (await fetch("/graphiql/config.json")).json();
    const subscriptions = new URL(config.endpoint, window.location.href);
    subscriptions.protocol = subscriptions.protocol.replace("http", "ws");
    const headers = JSON.stringify(config.headers, null, 2);
    ReactDOM.createRoot(place).render(
      React.createElement(GraphiQL, {
        fetcher: GraphiQL.createFetcher({ url: config.endpoint, subscriptionUrl: subscriptions.href }),
        defaultHeaders: headers,
        defaultTabs: config.tabs.map(({ query, variables }) => ({ query, variables, headers })),
      }),
    );
  } catch {
    place.textContent = "GraphiQL cannot start, because the CDN or the gateway does not respond. To try again, reload the page.";
  }
})();
