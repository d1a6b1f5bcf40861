import { useQuery } from 'urql';
import { useSession } from '../data/session';
import { useWrite } from '../data/write';
import { CommentOnPostDocument, FollowDocument, ViewerDocument, VoteDocument, type PostFragment } from '../gql/graphql';
import { Failure, TextForm, When } from '../ui/parts';

/** The circle of those whom a member follows here. */
const CIRCLE = 'following';

export function Post({ post }: { post: PostFragment }) {
  const { member } = useSession();
  const [{ data }] = useQuery({ query: ViewerDocument, pause: member === null });
  const following = useWrite(FollowDocument);
  const commenting = useWrite(CommentOnPostDocument);
  const { id, by, posted, text, latestComments, commentCount } = post;
  const self = data?.viewer?.user;
  const canFollow = self && by.user !== null && by.user.id !== self.id && !by.user.viewerFollows;
  return (
    <article className="post">
      <p className="hint">
        <strong>{by.displayName}</strong>, <When at={posted} withTime />{' '}
        {canFollow ? (
          <button
            type="button"
            className="plain"
            disabled={following.isBusy}
            onClick={() => following.write({ userId: by.user!.id, circle: CIRCLE })}
          >
            Follow<span className="unseen"> {by.displayName}</span>
          </button>
        ) : null}
      </p>
      <Failure message={following.failure} />
      {text ? <p>{text}</p> : null}
      <Detail post={post} />
      <ul className="replies">
        {latestComments.map((comment) => (
          <li key={comment.id}>
            <strong>{comment.by.displayName}</strong> {comment.text}
          </li>
        ))}
      </ul>
      <details>
        <summary>
          {commentCount} {commentCount === 1 ? 'comment' : 'comments'}
        </summary>
        {member === null ? null : (
          <TextForm
            label="Your comment"
            button="Comment"
            onSend={async (comment) => (await commenting.write({ postId: id, text: comment })) !== null}
            isBusy={commenting.isBusy}
            failure={commenting.failure}
          />
        )}
      </details>
    </article>
  );
}

/** What a post has besides its text. A kind that this page does not know shows its text alone. */
function Detail({ post }: { post: PostFragment }) {
  switch (post.__typename) {
    case 'LinkPost':
      return (
        <p>
          <a href={post.url} rel="noreferrer ugc">
            {post.url}
          </a>
        </p>
      );
    case 'CheckinPost':
      return <p className="hint">at {post.place}</p>;
    case 'PhotoPost':
      return post.photo ? <img src={post.photo.thumbnailUrl} alt={post.photo.title} loading="lazy" /> : null;
    case 'PollPost':
      return <Poll poll={post} />;
    default:
      return null;
  }
}

function Poll({ poll }: { poll: Extract<PostFragment, { __typename: 'PollPost' }> }) {
  const { member } = useSession();
  const { write, failure, isBusy } = useWrite(VoteDocument);
  const isClosed = member === null || isBusy || poll.viewerVote !== null;
  return (
    <>
      <ul className="poll">
        {poll.options.map(({ id, text, votes }, option) => (
          <li key={id}>
            <button
              type="button"
              disabled={isClosed}
              aria-pressed={poll.viewerVote === option}
              onClick={() => write({ postId: poll.id, option })}
            >
              {text} <span className="count">{votes}</span>
            </button>
          </li>
        ))}
      </ul>
      <Failure message={failure} />
    </>
  );
}
