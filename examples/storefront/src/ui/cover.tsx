// The cover of a product: its image, or a drawing that is the same one each time, by the text that it belongs to.
import type { CardImageFragment } from '../gql/graphql';

type ImageProps = Pick<CardImageFragment, 'alt' | 'thumbnailUrl'> & Record<'width' | 'height', number | null>;

/** An image, with the space that it needs before it is there. */
export function Picture({ alt, width, height, thumbnailUrl }: ImageProps) {
  return <img className="cover" src={thumbnailUrl} alt={alt} width={width ?? undefined} height={height ?? undefined} loading="lazy" decoding="async" />;
}

function hash(text: string): number {
  let value = 2_166_136_261;
  for (const letter of text) value = Math.imul(value ^ letter.codePointAt(0)!, 16_777_619) >>> 0;
  return value;
}

interface Props {
  image: ImageProps | undefined;
  of: string;
  isRound: boolean;
}

export function Cover({ image, of, isRound }: Props) {
  return image ? <Picture {...image} /> : <Drawing of={of} isRound={isRound} />;
}

function Drawing({ of, isRound }: Omit<Props, 'image'>) {
  const seed = hash(of);
  const hue = seed % 360;
  const rings = [0, 1, 2, 3].map((ring) => ({ radius: 42 - ring * 9, shift: ((seed >>> (ring * 5)) % 13) - 6 }));
  return (
    <svg className="cover" viewBox="0 0 100 100" aria-hidden="true" focusable="false">
      <rect width="100" height="100" fill={`hsl(${hue} 42% 30%)`} />
      {rings.map(({ radius, shift }, ring) =>
        isRound ? (
          <circle key={ring} cx={50 + shift} cy={50 - shift} r={radius} fill={`hsl(${hue + ring * 24} 55% ${38 + ring * 10}%)`} />
        ) : (
          <rect
            key={ring}
            x={50 - radius + shift}
            y={50 - radius * 0.6}
            width={radius * 2}
            height={radius * 1.2}
            rx="3"
            fill={`hsl(${hue + ring * 24} 45% ${34 + ring * 9}%)`}
          />
        ),
      )}
    </svg>
  );
}
