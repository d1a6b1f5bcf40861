// The viewer's character and its room, live.
import { useQuery } from 'urql';
import { useLive } from '../data/live';
import { useWrite } from '../data/write';
import {
  CharacterChangedDocument,
  CreateCharacterDocument,
  DropDocument,
  MoveDocument,
  OwnCharacterDocument,
  PickUpDocument,
  RoomChangedDocument,
  RoomDocument,
  type Direction,
  type SelfFragment,
} from '../gql/graphql';
import { Failure, ForMembers, Page } from '../ui/parts';

const DIRECTIONS: Record<Direction, string> = { N: 'North', E: 'East', S: 'South', W: 'West', UP: 'Up', DOWN: 'Down' };

export function RoomPage() {
  const [state] = useQuery({ query: OwnCharacterDocument, requestPolicy: 'cache-and-network' });
  const self = state.data?.viewer?.characters?.[0];
  return (
    <Page title="Game" state={state}>
      <ForMembers to="to enter the game">{self ? <Room self={self} /> : <Arrival />}</ForMembers>
    </Page>
  );
}

function Room({ self }: { self: SelfFragment }) {
  const id = self.location.locationId;
  const context = useLive(RoomChangedDocument, { id });
  // Somebody may give the character something, or take it to another room.
  useLive(CharacterChangedDocument, { id: self.id });
  const [{ data }] = useQuery({ query: RoomDocument, variables: { id }, requestPolicy: 'cache-and-network', context });
  const moving = useWrite(MoveDocument);
  const taking = useWrite(PickUpDocument);
  const leaving = useWrite(DropDocument);
  const isBusy = moving.isBusy || taking.isBusy || leaving.isBusy;
  const room = data?.location;
  if (!room) return null;
  return (
    <div className="room">
      <section aria-live="polite">
        <h1>{room.name}</h1>
        <p>{room.description}</p>
        <nav aria-label="Exits" className="chips">
          {room.exits.map(({ id: exit, direction, location }) => (
            <button
              key={exit}
              type="button"
              disabled={isBusy}
              onClick={() => moving.write({ characterId: self.id, direction })}
            >
              {DIRECTIONS[direction]}
              {location ? ` to ${location.name}` : null}
            </button>
          ))}
        </nav>
        <Failure message={moving.failure ?? taking.failure ?? leaving.failure} />
        <h2>Who is here</h2>
        <ul>
          {room.characters.map(({ id: brief, characterId, name, kind }) => (
            <li key={brief}>
              {name}
              {characterId === self.id ? ' (you)' : null}
              {kind === 'SHOPKEEPER' ? ', who has a shop' : null}
            </li>
          ))}
        </ul>
        <Items
          title="What is here"
          items={room.inventory}
          action="Pick up"
          isBusy={isBusy}
          onAct={(itemId) => taking.write({ characterId: self.id, itemId })}
        />
      </section>
      <section aria-labelledby="self">
        <h2 id="self">{self.name}</h2>
        <p className="hint">
          {self.characterClass}, {self.health} health, {self.gold} gold
        </p>
        <Items
          title="What you carry"
          items={self.inventory}
          action="Drop"
          isBusy={isBusy}
          onAct={(itemId) => leaving.write({ characterId: self.id, itemId })}
        />
      </section>
    </div>
  );
}

interface ItemsProps {
  title: string;
  items: SelfFragment['inventory'];
  action: string;
  isBusy: boolean;
  onAct: (itemId: string) => void;
}

function Items({ title, items, action, isBusy, onAct }: ItemsProps) {
  return (
    <>
      <h3>{title}</h3>
      {items.length === 0 ? <p>Nothing.</p> : null}
      <ul className="items">
        {items.map(({ id, name, description }) => (
          <li key={id}>
            <span>
              <strong>{name}</strong> {description === name ? null : description}
            </span>
            <button type="button" className="plain" disabled={isBusy} onClick={() => onAct(id)}>
              {action}
              <span className="unseen"> {name}</span>
            </button>
          </li>
        ))}
      </ul>
    </>
  );
}

function Arrival() {
  const { write, failure, isBusy } = useWrite(CreateCharacterDocument);
  return (
    <form
      className="text-form"
      onSubmit={(event) => {
        event.preventDefault();
        const given = new FormData(event.currentTarget);
        void write({ name: String(given.get('name')), characterClass: String(given.get('class')) });
      }}
    >
      <h1>A new character</h1>
      <label>
        Name <input name="name" required />
      </label>
      <label>
        Class <input name="class" required defaultValue="wanderer" />
      </label>
      <button disabled={isBusy}>Enter</button>
      <Failure message={failure} />
    </form>
  );
}
