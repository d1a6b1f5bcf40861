// Addresses: the page is a function of the path and the search parameters.
import { createContext, use, useEffect, useMemo, useState, type MouseEvent, type ReactNode } from 'react';

const BASE = '/shop';

export interface Place {
  /** The path below the shop, for example `/p/kind-of-blue`. */
  path: string;
  search: URLSearchParams;
}

interface Router extends Place {
  go: (to: string, options?: { replace?: boolean }) => void;
}

const RouterContext = createContext<Router | null>(null);

const here = (): Place => ({
  path: decodeURI(location.pathname).slice(BASE.length).replace(/\/$/, '') || '/',
  search: new URLSearchParams(location.search),
});

export function RouterProvider({ children }: { children: ReactNode }) {
  const [place, setPlace] = useState(here);

  useEffect(() => {
    const follow = () => setPlace(here());
    window.addEventListener('popstate', follow);
    return () => window.removeEventListener('popstate', follow);
  }, []);

  const router = useMemo<Router>(
    () => ({
      ...place,
      go: (to, { replace = false } = {}) => {
        history[replace ? 'replaceState' : 'pushState'](null, '', BASE + to);
        setPlace(here());
        if (!replace) window.scrollTo(0, 0);
      },
    }),
    [place],
  );
  return <RouterContext value={router}>{children}</RouterContext>;
}

export function useRouter(): Router {
  const router = use(RouterContext);
  if (router === null) throw new Error('There is no RouterProvider around this component.');
  return router;
}

/** A link within the shop. The browser handles what is no plain click, such as opening a new tab. */
export function Link({ to, ...attributes }: { to: string; className?: string; children: ReactNode; 'aria-label'?: string }) {
  const { go, path } = useRouter();
  const follow = (event: MouseEvent) => {
    if (event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    go(to);
  };
  return <a href={BASE + to} onClick={follow} aria-current={path === to ? 'page' : undefined} {...attributes} />;
}

/** Sets the title of the document, when it is known. */
export function useTitle(title: string | undefined) {
  useEffect(() => {
    if (title !== undefined) document.title = `${title} · Portico Records`;
  }, [title]);
}
