// Live lists, without a gap and across interruptions.
import type { AnyVariables, OperationContext, TypedDocumentNode } from '@urql/core';
import { useEffect, useMemo, useState } from 'react';
import { useSubscription } from 'urql';
import { OVER_SOCKET, RECONNECTED } from './client';

/**
 * Subscribes to events, which go to the store. Returns the context for the query of the list that they belong to.
 *
 * The gateway reads the next message of a WebSocket when the subscription is live. So a query that follows on the same
 * socket returns all that happened before, and the subscription delivers all that happens after. If the connection was
 * interrupted, the context is new, and the query runs again.
 */
export function useLive<Data, Variables extends AnyVariables>(
  subscription: TypedDocumentNode<Data, Variables>,
  variables: Variables | null,
): Partial<OperationContext> {
  const [interruptions, setInterruptions] = useState(0);
  useSubscription({ query: subscription, variables: variables as Variables, pause: variables === null });

  useEffect(() => {
    const count = () => setInterruptions((before) => before + 1);
    window.addEventListener(RECONNECTED, count);
    return () => window.removeEventListener(RECONNECTED, count);
  }, []);

  return useMemo(() => ({ ...OVER_SOCKET, interruptions }), [interruptions]);
}
