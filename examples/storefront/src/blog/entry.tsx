import { useQuery } from 'urql';
import { EntryDocument } from '../gql/graphql';
import { NotFound, Page } from '../ui/parts';
import { Discussion } from './discussion';
import { Byline } from './entry-card';

export function EntryPage({ slug }: { slug: string }) {
  const [state] = useQuery({ query: EntryDocument, variables: { path: `/blog/${slug}` } });
  const entry = state.data?.content?.__typename === 'BlogEntry' ? state.data.content : null;
  if (state.data && entry === null) return <NotFound />;
  return (
    <Page title={entry?.title} state={state}>
      {entry ? (
        <>
          <article className="text">
            <h1>{entry.title}</h1>
            <Byline entry={entry} />
            {/* The gateway has made it from Markdown, and it contains nothing that runs. */}
            <div dangerouslySetInnerHTML={{ __html: entry.html }} />
            <p className="hint">{entry.tags.map((tag) => `#${tag}`).join(' ')}</p>
          </article>
          <Discussion subjectId={entry.id} discussionId={entry.discussion?.id ?? null} />
        </>
      ) : null}
    </Page>
  );
}
