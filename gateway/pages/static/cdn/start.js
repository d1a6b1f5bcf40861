// Starts GraphiQL, which the page loads from a CDN, with the gateway's configuration.
(async () => {
  const place = document.getElementById("graphiql");

  // GraphiQL names a tab after its operation. This shows the titles of the gateway's tabs in their place, also after
  // edits: it knows a tab by its id, once it has had the text of an example.
  const showTitles = (tabs) => {
    const byQuery = new Map(tabs.map(({ title, query }) => [query, title]));
    let byId = new Map();
    let open = tabs.map(({ query }) => ({ query }));
    const note = (now) => {
      open = now;
      for (const { id, query } of open) {
        if (byQuery.has(query)) byId.set(id, byQuery.get(query));
      }
    };
    try {
      byId = new Map(JSON.parse(localStorage.getItem("portico:titles") ?? "[]"));
      note(JSON.parse(localStorage.getItem("graphiql:tabState")).tabs);
    } catch {
      // GraphiQL opens the gateway's tabs.
    }
    const write = () => {
      for (const [number, button] of document.querySelectorAll(".graphiql-tab-button").entries()) {
        const title = byId.get(open[number]?.id) ?? byQuery.get(open[number]?.query);
        if (title && button.textContent !== title) button.textContent = title;
      }
    };
    new MutationObserver(write).observe(place, { childList: true, subtree: true, characterData: true });
    return ({ tabs: now }) => {
      note(now);
      write();
      try {
        const kept = now.filter(({ id }) => byId.has(id)).map(({ id }) => [id, byId.get(id)]);
        localStorage.setItem("portico:titles", JSON.stringify(kept));
      } catch {
        // The browser forbids local storage.
      }
    };
  };

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
        onTabChange: showTitles(config.tabs),
      }),
    );
  } catch {
    place.textContent = "GraphiQL cannot start, because the CDN or the gateway does not respond. To try again, reload the page.";
  }
})();
