import { createLocalStorage } from '@graphiql/toolkit';

const PREFIX = 'portico-';

// Each configuration has its own part of the local storage. The parts of earlier
// configurations are removed: nothing reads them, and they may contain an old token.
function removeOthers(namespace) {
  for (const key of Object.keys(localStorage)) {
    if (key.startsWith(PREFIX) && !key.startsWith(`${namespace}:`)) {
      localStorage.removeItem(key);
    }
  }
}

// GraphiQL reads the initial texts of its editors from the storage, not from the
// default tabs. On a later visit, it looks for the tab that matches them. Without
// these texts, the first tab shows no variables, and a reload adds a stray tab.
function fillIn(storage, tab) {
  if (!tab || storage.getItem('graphiql:tabState')) {
    return;
  }
  for (const name of ['query', 'variables', 'headers']) {
    if (tab[name]) {
      storage.setItem(`graphiql:${name}`, tab[name]);
    } else {
      storage.removeItem(`graphiql:${name}`);
    }
  }
}

// Returns null if the browser forbids local storage.
export function openStorage({ id, tabs }) {
  const namespace = `${PREFIX}${id}`;
  try {
    removeOthers(namespace);
    const storage = createLocalStorage({ namespace });
    fillIn(storage, tabs[0]);
    return storage;
  } catch {
    return null;
  }
}
