// What members write: everybody's public posts, and one's own news feed, which is live.
import { useState } from 'react';
import { useQuery } from 'urql';
import { useLive } from '../data/live';
import { useSession } from '../data/session';
import { useWrite } from '../data/write';
import {
  CreatePostDocument,
  NewsFeedDocument,
  NewsFeedPostedDocument,
  PublicPostsDocument,
  type PublicPostsQuery,
} from '../gql/graphql';
import { ForMembers, More, Page, TextForm } from '../ui/parts';
import { Link, useRouter } from '../ui/router';
import { Post } from './post';

export function CommunityPage() {
  const { search } = useRouter();
  const { member } = useSession();
  const isOwn = search.has('own') && member !== null;
  return isOwn ? <NewsFeed /> : <PublicPosts />;
}

function PublicPosts() {
  const [after, setAfter] = useState<string>();
  const [state] = useQuery({ query: PublicPostsDocument, variables: { after }, requestPolicy: 'cache-and-network' });
  return <Posts title="Community" state={state} list={state.data?.publicPosts} onMore={setAfter} />;
}

function NewsFeed() {
  const [after, setAfter] = useState<string>();
  const context = useLive(NewsFeedPostedDocument, {});
  const [state] = useQuery({ query: NewsFeedDocument, variables: { after }, requestPolicy: 'cache-and-network', context });
  return <Posts title="Your feed" state={state} list={state.data?.viewer?.newsFeed} onMore={setAfter} />;
}

interface PostsProps {
  title: string;
  state: Parameters<typeof Page>[0]['state'];
  list: PublicPostsQuery['publicPosts'] | undefined;
  onMore: (after: string | undefined) => void;
}

function Posts({ title, state, list, onMore }: PostsProps) {
  const { write, failure, isBusy } = useWrite(CreatePostDocument);
  const post = async (text: string) => (await write({ detail: { status: { text } }, audience: 'PUBLIC' })) !== null;
  return (
    <Page title={title} state={state}>
      <h1>{title}</h1>
      <ForMembers to="to write, and to follow others">
        <nav aria-label="Posts" className="chips">
          <Link to="/community">Everybody</Link>
          <Link to="/community?own">Your feed</Link>
        </nav>
        <TextForm label="What are you listening to?" button="Post" onSend={post} isBusy={isBusy} failure={failure} />
      </ForMembers>
      <div aria-live="polite">
        {list?.nodes.map((one) => (
          <Post key={one.id} post={one} />
        ))}
      </div>
      {list ? (
        <More
          hasMore={list.pageInfo.hasNextPage}
          isBusy={state.fetching}
          onMore={() => onMore(list.pageInfo.endCursor ?? undefined)}
        />
      ) : null}
    </Page>
  );
}
