"""Draws landscapes for the demo's gallery, the same ones each time."""

from __future__ import annotations

import functools
import io
import random
from dataclasses import dataclass
from itertools import pairwise

from PIL import Image, ImageChops, ImageDraw, ImageFilter

Color = tuple[int, int, int]

SIZE = (1_600, 1_000)
# How often a ridge is subdivided.
_BREAKS = 9


@dataclass(frozen=True)
class Landscape:
    """A landscape: a sky with two colors, from the top to the horizon, a sun or moon, and ridges from far to near.

    `light` is the position of the sun, as fractions of the width and the height, and its radius in pixels.
    """

    slug: str
    title: str
    tags: tuple[str, ...]
    sky: tuple[Color, Color]
    light: tuple[float, float, int]
    sun: Color
    far: Color
    near: Color
    ridges: int
    roughness: float
    water: bool = False
    stars: int = 0


LANDSCAPES = (
    Landscape(
        "first-light", "First light", ("morning", "hills"), ((66, 96, 152), (252, 212, 160)), (0.68, 0.52, 60),
        (255, 244, 214), (196, 168, 178), (38, 44, 66), 6, 0.55,
    ),
    Landscape(
        "red-evening", "Red evening", ("evening", "hills"), ((58, 28, 78), (246, 120, 74)), (0.32, 0.55, 90),
        (255, 214, 150), (188, 88, 92), (32, 14, 34), 5, 0.62,
    ),
    Landscape(
        "the-lake", "The lake", ("water", "morning"), ((112, 164, 196), (236, 240, 226)), (0.5, 0.3, 46),
        (255, 255, 240), (150, 176, 184), (44, 76, 84), 4, 0.5, water=True,
    ),
    Landscape(
        "winter-night", "Winter night", ("night", "snow"), ((8, 12, 34), (44, 66, 112)), (0.78, 0.22, 40),
        (236, 240, 255), (150, 170, 204), (214, 224, 240), 5, 0.6, stars=420,
    ),
    Landscape(
        "moonlit-bay", "Moonlit bay", ("night", "water"), ((6, 16, 38), (40, 78, 104)), (0.4, 0.26, 52),
        (244, 240, 220), (54, 84, 104), (8, 20, 28), 4, 0.58, water=True, stars=260,
    ),
    Landscape(
        "green-valley", "Green valley", ("summer", "hills"), ((86, 150, 214), (226, 240, 246)), (0.2, 0.2, 54),
        (255, 250, 220), (150, 188, 178), (40, 84, 48), 7, 0.48,
    ),
)  # fmt: skip


@functools.cache
def draw(landscape: Landscape) -> bytes:
    """Returns the landscape as a JPEG. The first call for a landscape takes half a second."""
    rng = random.Random(landscape.slug)  # noqa: S311 - a picture is no secret
    image = _sky(landscape, rng)
    horizon = 0.62 if landscape.water else 0.58
    for number in range(landscape.ridges):
        depth = number / max(landscape.ridges - 1, 1)
        base = horizon + (0.02 if landscape.water else 0.34) * depth
        height = (0.2 if landscape.water else 0.16) * (1 - depth / 2)
        _ridge(image, _mixed(landscape.far, landscape.near, depth), base, height, landscape.roughness, rng)
    if landscape.water:
        _water(image, landscape, horizon + 0.02, rng)
    out = io.BytesIO()
    _grained(image, rng).save(out, "JPEG", quality=88, optimize=True)
    return out.getvalue()


def _mixed(first: Color, second: Color, part: float) -> Color:
    red, green, blue = (round(a + (b - a) * part) for a, b in zip(first, second, strict=True))
    return red, green, blue


def _sky(landscape: Landscape, rng: random.Random) -> Image.Image:
    width, height = SIZE
    fade = Image.linear_gradient("L").resize(SIZE)
    image = Image.composite(Image.new("RGB", SIZE, landscape.sky[1]), Image.new("RGB", SIZE, landscape.sky[0]), fade)
    pen = ImageDraw.Draw(image)
    for _ in range(landscape.stars):
        x, y, light = rng.randrange(width), rng.randrange(round(height * 0.6)), rng.randrange(90, 255)
        pen.ellipse((x, y, x + light // 128, y + light // 128), fill=(light, light, light))
    x, y, radius = round(landscape.light[0] * width), round(landscape.light[1] * height), landscape.light[2]
    glow = Image.new("RGB", SIZE)
    for factor, part in ((9, 0.1), (5, 0.18), (2.5, 0.32)):
        _disc(glow, x, y, radius * factor, _mixed((0, 0, 0), landscape.sun, part))
    image = ImageChops.screen(image, glow.filter(ImageFilter.GaussianBlur(radius * 1.5)))
    _disc(image, x, y, radius, landscape.sun)
    return image


def _disc(image: Image.Image, x: float, y: float, radius: float, color: Color) -> None:
    ImageDraw.Draw(image).ellipse((x - radius, y - radius, x + radius, y + radius), fill=color)


def _ridge(image: Image.Image, color: Color, base: float, height: float, roughness: float, rng: random.Random) -> None:
    """Draws a range of hills from one side to the other, in front of the picture so far."""
    line = [rng.uniform(-0.5, 0.5), rng.uniform(-0.5, 0.5)]
    swing = 1.0
    for _ in range(_BREAKS):
        swing *= roughness
        middles = [(a + b) / 2 + rng.uniform(-swing, swing) for a, b in pairwise(line)]
        line = [point for pair in zip(line, middles, strict=False) for point in pair] + line[-1:]
    # Draws at double size, so that the edge is smooth after scaling down.
    width, tall = 2 * SIZE[0], 2 * SIZE[1]
    step = width / (len(line) - 1)
    outline = [(number * step, (base - height * point) * tall) for number, point in enumerate(line)]
    mask = Image.new("L", (width, tall))
    ImageDraw.Draw(mask).polygon([*outline, (width, tall), (0, tall)], fill=255)
    mist = _mixed(color, (255, 255, 255), 0.1)
    fade = Image.linear_gradient("L").resize(SIZE)
    hill = Image.composite(Image.new("RGB", SIZE, color), Image.new("RGB", SIZE, mist), fade)
    image.paste(hill, (0, 0), mask.resize(SIZE, Image.Resampling.LANCZOS))


def _water(image: Image.Image, landscape: Landscape, level: float, rng: random.Random) -> None:
    """Mirrors the picture above the level below it, distorted by waves."""
    width, height = SIZE
    top = round(level * height)
    mirrored = image.crop((0, 0, width, top)).transpose(Image.Transpose.FLIP_TOP_BOTTOM)
    mirrored = Image.blend(mirrored, Image.new("RGB", mirrored.size, landscape.near), 0.28)
    for y in range(top, height):
        depth = (y - top) / (height - top)
        shift = round(rng.gauss(0, 1 + 9 * depth))
        row = mirrored.crop((0, y - top, width, y - top + 1))
        image.paste(ImageChops.offset(row, shift, 0), (0, y))


def _grained(image: Image.Image, rng: random.Random) -> Image.Image:
    """Adds film grain, because a smooth sky would show visible steps."""
    grain = Image.frombytes("L", (SIZE[0] // 2, SIZE[1] // 2), rng.randbytes(SIZE[0] * SIZE[1] // 4))
    shades = grain.resize(SIZE).point(lambda value: value // 32).convert("RGB")
    return ImageChops.add(image, shades, offset=-4)
