// Who uses the page. In your application, this module is the one that talks to your identity provider.
import { createContext, use, useMemo, useState, type ReactNode } from 'react';
import { Provider } from 'urql';
import { createPageClient } from './client';

const STORED = 'storefront.member';

export interface Session {
  /** The subject of the caller's tokens; null for a visitor. */
  member: string | null;
  signIn: (member: string) => void;
  signOut: () => void;
}

export interface Member {
  subject: string;
  userId: string;
}

const SessionContext = createContext<Session | null>(null);

async function fetchSession<Answer>(query: string): Promise<Answer | null> {
  const response = await fetch(`/shop/session.json${query}`, { cache: 'no-store' });
  return response.ok ? ((await response.json()) as Answer) : null;
}

/** Returns the members that a visitor of the demo can sign in as. There are none on other machines. */
export const fetchMembers = async () => (await fetchSession<{ members: Member[] }>(''))?.members ?? [];

/** Returns a new token of the member, which is valid for some minutes. The demo asks for no password. */
export const fetchToken = async (member: string) =>
  (await fetchSession<{ token: string }>(`?subject=${encodeURIComponent(member)}`))?.token ?? null;

/** Provides the session, and a client with an empty store whenever the caller changes. */
export function SessionProvider({ children }: { children: ReactNode }) {
  // One window can be one member, and another window another. The token itself is only in memory.
  const [member, setMember] = useState(() => sessionStorage.getItem(STORED));
  const client = useMemo(() => createPageClient(member === null ? null : () => fetchToken(member)), [member]);
  const session = useMemo<Session>(
    () => ({
      member,
      signIn: (chosen) => {
        sessionStorage.setItem(STORED, chosen);
        setMember(chosen);
      },
      signOut: () => {
        sessionStorage.removeItem(STORED);
        setMember(null);
      },
    }),
    [member],
  );
  return (
    <SessionContext value={session}>
      <Provider value={client} key={member}>
        {children}
      </Provider>
    </SessionContext>
  );
}

export function useSession(): Session {
  const session = use(SessionContext);
  if (session === null) throw new Error('There is no SessionProvider around this component.');
  return session;
}
