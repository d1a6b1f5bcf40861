// Writes: each has an idempotency key, and its outcome is data.
import type { TypedDocumentNode } from '@urql/core';
import { useRef, useState } from 'react';
import { useMutation } from 'urql';

type Keyed = { idempotencyKey?: string | null | undefined };
type Result<Data> = NonNullable<Data[Exclude<keyof Data, '__typename'>]>;
/** The member of a mutation's union that means success. The others have a message for the user. */
type Payload<Data> = Exclude<Result<Data>, { message: string }>;

/**
 * Returns a function that sends a mutation, with a message if it has failed.
 *
 * The function resolves to the payload; null after a failure. The client repeats a write that gets no answer. If the user
 * has to repeat it, the key is the same. So the write takes effect once, however often it is sent.
 */
export function useWrite<Data extends object, Input extends Keyed>(document: TypedDocumentNode<Data, { input: Input }>) {
  const [{ fetching }, send] = useMutation(document);
  const [failure, setFailure] = useState<string | null>(null);
  const unanswered = useRef<{ input: string; key: string } | null>(null);

  async function write(given: Omit<Input, 'idempotencyKey'> & Keyed): Promise<Payload<Data> | null> {
    const input = JSON.stringify(given);
    const key = unanswered.current?.input === input ? unanswered.current.key : crypto.randomUUID();
    const { data, error } = await send({ input: { ...given, idempotencyKey: key } as Input });
    unanswered.current = error?.networkError ? { input, key } : null;
    const result = data && Object.entries(data).find(([field]) => field !== '__typename')?.[1];
    const message = error?.networkError ? 'The shop cannot be reached.' : (error?.graphQLErrors[0]?.message ?? result?.message);
    setFailure(message ?? null);
    return message === undefined && result ? (result as Payload<Data>) : null;
  }

  return { write, failure, isBusy: fetching };
}
