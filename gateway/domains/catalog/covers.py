"""Draws covers for the products and categories of the demo, the same ones each time."""

from __future__ import annotations

import functools
import io
import random
from colorsys import hls_to_rgb

from PIL import Image, ImageDraw

SIZE = 480
_SHAPES = ("discs", "bars", "rays", "tiles")
Color = tuple[int, int, int]


@functools.lru_cache(maxsize=2)
def draw_cover(name: str) -> bytes:
    """Returns an abstract cover as a PNG of a few colors. The name decides how it looks."""
    rng = random.Random(name)  # noqa: S311 - a picture is no secret
    hue = rng.random()
    ground, *colors = [_color(hue + step * rng.choice((0.08, 0.33, 0.5)), 0.2 + 0.17 * step) for step in range(4)]
    image = Image.new("RGB", (SIZE, SIZE), ground)
    pen = ImageDraw.Draw(image)
    {"discs": _discs, "bars": _bars, "rays": _rays, "tiles": _tiles}[rng.choice(_SHAPES)](pen, colors, rng)
    out = io.BytesIO()
    # Cards show thumbnails, whose edges are smooth.
    image.save(out, "PNG", compress_level=3)
    return out.getvalue()


def _color(hue: float, lightness: float) -> Color:
    red, green, blue = hls_to_rgb(hue % 1, lightness, 0.55)
    return round(255 * red), round(255 * green), round(255 * blue)


def _discs(pen: ImageDraw.ImageDraw, colors: list[Color], rng: random.Random) -> None:
    for number in range(rng.randint(3, 6)):
        x, y, radius = (rng.randrange(SIZE) for _ in range(3))
        radius = radius // 3 + 40
        pen.ellipse((x - radius, y - radius, x + radius, y + radius), fill=colors[number % len(colors)])


def _bars(pen: ImageDraw.ImageDraw, colors: list[Color], rng: random.Random) -> None:
    left = 0
    while left < SIZE:
        width = rng.randint(30, 160)
        top = rng.randrange(SIZE // 2)
        pen.rectangle((left, top, left + width, SIZE), fill=rng.choice(colors))
        left += width + rng.randint(0, 40)


def _rays(pen: ImageDraw.ImageDraw, colors: list[Color], rng: random.Random) -> None:
    middle, count = (rng.randint(SIZE // 4, 3 * SIZE // 4), rng.randint(SIZE // 4, 3 * SIZE // 4)), 24
    box = (middle[0] - SIZE, middle[1] - SIZE, middle[0] + SIZE, middle[1] + SIZE)
    for number in range(0, count, 2):
        start = 360 * number / count
        pen.pieslice(box, start, start + 360 / count, fill=colors[number // 2 % len(colors)])


def _tiles(pen: ImageDraw.ImageDraw, colors: list[Color], rng: random.Random) -> None:
    count = rng.randint(3, 6)
    side = SIZE / count
    for row in range(count):
        for column in range(count):
            x, y = column * side, row * side
            corners = [(x, y), (x + side, y), (x + side, y + side), (x, y + side)]
            corners.pop(rng.randrange(4))
            pen.polygon(corners, fill=rng.choice(colors))
