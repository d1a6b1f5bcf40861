// The comments on anything, live.
import { useState } from 'react';
import { useQuery } from 'urql';
import { useLive } from '../data/live';
import { useWrite } from '../data/write';
import {
  CommentPostedDocument,
  DiscussionDocument,
  OpenDiscussionDocument,
  PostCommentDocument,
  type CommentFragment,
} from '../gql/graphql';
import { ForMembers, More, TextForm, When } from '../ui/parts';

interface Props {
  subjectId: string;
  /** Null until somebody opens the discussion. */
  discussionId: string | null;
}

export function Discussion({ subjectId, discussionId }: Props) {
  const [replyTo, setReplyTo] = useState<CommentFragment | null>(null);
  const opening = useWrite(OpenDiscussionDocument);
  const posting = useWrite(PostCommentDocument);

  async function post(text: string): Promise<boolean> {
    const id = discussionId ?? (await opening.write({ subjectId }))?.discussion.id;
    if (id === undefined) return false;
    const isPosted = (await posting.write({ discussionId: id, text, parentSlug: replyTo?.slug ?? null })) !== null;
    if (isPosted) setReplyTo(null);
    return isPosted;
  }

  return (
    <section className="discussion" aria-labelledby="discussion">
      <h2 id="discussion">Comments</h2>
      {discussionId === null ? <p>There are none yet.</p> : <Comments discussionId={discussionId} onReply={setReplyTo} />}
      <ForMembers to="to comment">
        {replyTo ? (
          <p>
            In reply to {replyTo.author.displayName}.{' '}
            <button type="button" className="plain" onClick={() => setReplyTo(null)}>
              Do not reply
            </button>
          </p>
        ) : null}
        <TextForm
          label="Your comment"
          button="Post"
          onSend={post}
          isBusy={opening.isBusy || posting.isBusy}
          failure={opening.failure ?? posting.failure}
        />
      </ForMembers>
    </section>
  );
}

function Comments({ discussionId, onReply }: { discussionId: string; onReply: (to: CommentFragment) => void }) {
  const [after, setAfter] = useState<string>();
  const context = useLive(CommentPostedDocument, { discussionId });
  const [{ data, fetching }] = useQuery({
    query: DiscussionDocument,
    variables: { id: discussionId, after },
    requestPolicy: 'cache-and-network',
    context,
  });
  const comments = data?.node?.__typename === 'Discussion' ? data.node.comments : null;
  if (comments === null) return null;
  return (
    <>
      <ol className="comments" aria-live="polite">
        {comments.nodes.map((comment) => (
          <li key={comment.id}>
            <p className="hint">
              <strong>{comment.author.displayName}</strong>
              {comment.parent ? ` to ${comment.parent.author.displayName}` : null}, <When at={comment.posted} withTime />
            </p>
            {/* The gateway has made it from Markdown, and it contains nothing that runs. */}
            <div dangerouslySetInnerHTML={{ __html: comment.html }} />
            <button type="button" className="plain" onClick={() => onReply(comment)}>
              Reply
              <span className="unseen"> to {comment.author.displayName}</span>
            </button>
          </li>
        ))}
      </ol>
      <More
        hasMore={comments.pageInfo.hasNextPage}
        isBusy={fetching}
        onMore={() => setAfter(comments.pageInfo.endCursor ?? undefined)}
      />
    </>
  );
}
