import { useState } from 'react';
import { useQuery } from 'urql';
import { BlogDocument } from '../gql/graphql';
import { More, NotFound, Page } from '../ui/parts';
import { EntryCard } from './entry-card';

export function BlogPage() {
  const [after, setAfter] = useState<string>();
  const [state] = useQuery({ query: BlogDocument, variables: { after } });
  const blog = state.data?.content;
  if (state.data && blog?.__typename !== 'Section') return <NotFound />;
  return (
    <Page title={blog?.title} state={state}>
      <h1>{blog?.title}</h1>
      {blog?.__typename === 'Section' ? (
        <>
          {blog.entries.nodes.map((entry) => (
            <EntryCard key={entry.id} entry={entry} />
          ))}
          <More
            hasMore={blog.entries.pageInfo.hasNextPage}
            isBusy={state.fetching}
            onMore={() => setAfter(blog.entries.pageInfo.endCursor ?? undefined)}
          />
        </>
      ) : null}
    </Page>
  );
}
