import type { EntryCardFragment } from '../gql/graphql';
import { Picture } from '../ui/cover';
import { When } from '../ui/parts';
import { Link } from '../ui/router';

export function Byline({ entry: { author, publishOn, readingMinutes } }: { entry: EntryCardFragment }) {
  return (
    <p className="hint">
      {author.displayName}, {publishOn ? <When at={publishOn} /> : 'a draft'}, {readingMinutes} min
    </p>
  );
}

interface Props {
  entry: EntryCardFragment;
  /** The level below the heading that the entry stands under. */
  heading?: 'h2' | 'h3';
}

export function EntryCard({ entry, heading: Heading = 'h2' }: Props) {
  return (
    <article className="entry">
      <Heading>
        <Link to={`/blog/${entry.slug}`}>{entry.title}</Link>
      </Heading>
      <Byline entry={entry} />
      {entry.cover ? <Picture {...entry.cover} /> : null}
      <p>{entry.excerpt}</p>
    </article>
  );
}
