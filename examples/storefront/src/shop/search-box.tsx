// A search with suggestions, as the combobox pattern of the ARIA Authoring Practices has it.
import { useEffect, useId, useState, type KeyboardEvent } from 'react';
import { useQuery } from 'urql';
import { SuggestionsDocument, type SuggestionsQuery } from '../gql/graphql';
import { useRouter } from '../ui/router';
import { addressOf } from './product-card';

const WAIT_MS = 150;
// What is beside suggestions that are no products.
const KINDS: Record<string, string> = { Category: 'category', ContentNode: 'from the blog' };

type Suggestion = NonNullable<SuggestionsQuery['suggest']>[number];

/** Returns where a suggestion leads; null if there is no page of it, as of members. */
function addressFor({ node }: Suggestion): string | null {
  if (node?.__typename === 'Category') return `/c/${node.categorySlug}`;
  if (node?.__typename === 'BlogEntry') return `/blog/${node.entrySlug}`;
  return node && 'sku' in node ? addressOf(node) : null;
}

/** Returns the value as it was when it last stayed the same for a moment. */
function useSettled<Value>(value: Value): Value {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), WAIT_MS);
    return () => clearTimeout(timer);
  }, [value]);
  return settled;
}

export function SearchBox() {
  const { go } = useRouter();
  const id = useId();
  const [text, setText] = useState('');
  const [isOpen, setOpen] = useState(false);
  const [active, setActive] = useState(-1);
  const asked = useSettled(text.trim());
  const [{ data }] = useQuery({ query: SuggestionsDocument, variables: { text: asked }, pause: asked === '' });
  const found = isOpen && asked !== '' ? (data?.suggest ?? []) : [];
  const options = found.flatMap((suggestion) => {
    const to = addressFor(suggestion);
    return to === null ? [] : [{ ...suggestion, to }];
  });

  function open(to: string) {
    setOpen(false);
    setActive(-1);
    setText('');
    go(to);
  }

  function onKeyDown(event: KeyboardEvent) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step !== undefined && options.length > 0) {
      event.preventDefault();
      // One more than there are options: none of them, which is the text itself.
      setActive((before) => ((before + 1 + step + options.length + 1) % (options.length + 1)) - 1);
    } else if (event.key === 'Escape') {
      setOpen(false);
    }
  }

  return (
    <form
      role="search"
      className="search"
      onBlur={(event) => {
        if (!event.currentTarget.contains(event.relatedTarget)) setOpen(false);
      }}
      onSubmit={(event) => {
        event.preventDefault();
        const chosen = options[active];
        open(chosen?.to ?? `/search?q=${encodeURIComponent(text.trim())}`);
      }}
    >
      <input
        type="search"
        role="combobox"
        aria-label="Search the shop"
        placeholder="Search the shop"
        autoComplete="off"
        aria-autocomplete="list"
        aria-expanded={options.length > 0}
        aria-controls={id}
        aria-activedescendant={active >= 0 ? `${id}-${active}` : undefined}
        value={text}
        onChange={({ target }) => {
          setText(target.value);
          setActive(-1);
          setOpen(true);
        }}
        onKeyDown={onKeyDown}
      />
      <ul role="listbox" id={id} aria-label="Suggestions" hidden={options.length === 0}>
        {options.map(({ id: suggestion, kind, title, match, to }, number) => (
          <li
            key={suggestion}
            id={`${id}-${number}`}
            role="option"
            aria-selected={number === active}
            onMouseDown={(event) => event.preventDefault()}
            onClick={() => open(to)}
          >
            {match.map((part, place) => (part.isMatch ? <mark key={place}>{part.text}</mark> : part.text))}
            <Beside kind={kind} title={title} match={match.map((part) => part.text).join('')} />
          </li>
        ))}
      </ul>
    </form>
  );
}

/** What the matching text belongs to, if it is not the title itself; and what a category is. */
function Beside({ kind, title, match }: { kind: string; title: string; match: string }) {
  const text = match === title ? (KINDS[kind] ?? null) : title;
  return text ? <span className="beside"> {text}</span> : null;
}
