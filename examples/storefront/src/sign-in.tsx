// The demo's sign-in: one of its members, without a password.
import { useEffect, useState } from 'react';
import { useQuery } from 'urql';
import { fetchMembers, useSession, type Member } from './data/session';
import { MembersDocument } from './gql/graphql';
import { Page } from './ui/parts';
import { useRouter } from './ui/router';

export function SignInPage() {
  const { signIn } = useSession();
  const { go } = useRouter();
  const [members, setMembers] = useState<Member[] | null>(null);
  const [state] = useQuery({
    query: MembersDocument,
    variables: { ids: members?.map(({ userId }) => userId) ?? [] },
    pause: members === null,
  });
  const users = new Map(state.data?.nodes?.flatMap((node) => (node?.__typename === 'User' ? [[node.id, node]] : [])));

  useEffect(() => {
    void fetchMembers().then(setMembers);
  }, []);

  return (
    <Page title="Sign in" state={state}>
      <h1>Sign in</h1>
      {members?.length === 0 ? <p>You can only sign in on the machine that runs the demo.</p> : null}
      <ul className="members">
        {members?.map(({ subject, userId }) => (
          <li key={subject}>
            <button
              type="button"
              onClick={() => {
                signIn(subject);
                go('/');
              }}
            >
              {users.get(userId)?.name ?? subject}
            </button>{' '}
            {users.get(userId)?.profile.about}
          </li>
        ))}
      </ul>
    </Page>
  );
}
