import 'graphiql/setup-workers/vite';
// graphiql/style.css would import Monaco's styles a second time.
import '@graphiql/react/font/roboto.css';
import '@graphiql/react/font/fira-code.css';
import '@graphiql/react/style.css';
import '@graphiql/plugin-doc-explorer/style.css';
import '@graphiql/plugin-history/style.css';
import 'graphiql/graphiql.css';
import './page.css';
import { useMonaco } from '@graphiql/react';
import { GraphiQL } from 'graphiql';
import { useEffect, useState } from 'react';
import { createRoot } from 'react-dom/client';
import { loadConfig } from './config.js';
import { createFetcher } from './fetcher.js';
import { openStorage } from './storage.js';

function Page({ config, fetcher, storage }) {
  const { monaco, actions } = useMonaco();
  const [error, setError] = useState(null);

  useEffect(() => {
    actions.initialize().catch(setError);
  }, [actions]);

  if (error) {
    throw error;
  }
  // GraphiQL fetches the schema as soon as it is mounted. Before its editors are
  // ready, it would send that request without the headers.
  if (!monaco) {
    return <p className="status" role="status">Loading…</p>;
  }
  return (
    <GraphiQL
      fetcher={fetcher}
      storage={storage}
      defaultTabs={config.tabs.length ? config.tabs : undefined}
      defaultHeaders={config.headers}
      // Without storage, the first tab's variables come from here.
      initialVariables={storage ? undefined : config.tabs[0]?.variables}
      defaultEditorToolsVisibility={config.headers ? 'headers' : undefined}
      shouldPersistHeaders
    >
      <GraphiQL.Logo>Portico</GraphiQL.Logo>
    </GraphiQL>
  );
}

function showError(error) {
  const status = document.createElement('p');
  status.className = 'status';
  status.setAttribute('role', 'alert');
  status.textContent = `GraphiQL cannot start. ${error.message} To try again, reload the page.`;
  document.getElementById('root').replaceChildren(status);
}

try {
  const config = await loadConfig();
  const root = document.createElement('div');
  root.id = 'root';
  document.getElementById('root').replaceWith(root);
  createRoot(root, {
    onUncaughtError(error) {
      console.error(error);
      showError(error);
    },
  }).render(
    <Page
      config={config}
      fetcher={createFetcher(config.endpoint)}
      storage={openStorage(config)}
    />,
  );
} catch (error) {
  showError(error);
}
