"""Draws the banners of the demo's ads, the same ones each time."""

from __future__ import annotations

import io
from dataclasses import dataclass

from PIL import Image, ImageDraw

Color = tuple[int, int, int]
# Pixels. The drawing is larger at first, so that its edges become smooth.
SIZE = (468, 120)
_SCALE = 3
_RINGS = 9


@dataclass(frozen=True)
class Banner:
    """A record on a ground of two colors, from the left to the right. `at` is its middle, as fractions of the size."""

    name: str
    ground: tuple[Color, Color]
    label: Color
    at: tuple[float, float]


BANNERS = (
    Banner("vinyl-weeks", ((24, 40, 72), (75, 108, 183)), (246, 180, 60), (0.82, 0.5)),
    Banner("film-nights", ((60, 12, 40), (190, 60, 80)), (240, 230, 210), (0.18, 0.5)),
    Banner("record-care", ((18, 78, 74), (120, 190, 150)), (250, 250, 240), (0.5, 0.9)),
    Banner("stylus-launch", ((20, 20, 24), (90, 90, 104)), (220, 40, 50), (0.7, 0.2)),
)


def draw(banner: Banner) -> bytes:
    """Returns the banner as a PNG."""
    width, height = SIZE[0] * _SCALE, SIZE[1] * _SCALE
    image = Image.new("RGB", (width, height))
    pen = ImageDraw.Draw(image)
    for column in range(width):
        pen.line(((column, 0), (column, height)), fill=_mixed(*banner.ground, column / width))
    middle = (banner.at[0] * width, banner.at[1] * height)
    radius = 0.7 * height
    _disc(pen, middle, radius, (14, 14, 16))
    for ring in range(1, _RINGS):
        size = radius * (1 - ring / (2 * _RINGS))
        pen.ellipse(_box(middle, size), outline=(46, 46, 50), width=_SCALE)
    _disc(pen, middle, radius / 3, banner.label)
    _disc(pen, middle, radius / 24, (14, 14, 16))
    out = io.BytesIO()
    image.resize(SIZE, Image.Resampling.LANCZOS).save(out, "PNG", optimize=True)
    return out.getvalue()


def _mixed(one: Color, other: Color, share: float) -> Color:
    red, green, blue = (round(a + (b - a) * share) for a, b in zip(one, other, strict=True))
    return red, green, blue


def _disc(pen: ImageDraw.ImageDraw, middle: tuple[float, float], radius: float, color: Color) -> None:
    pen.ellipse(_box(middle, radius), fill=color)


def _box(middle: tuple[float, float], radius: float) -> tuple[float, float, float, float]:
    return middle[0] - radius, middle[1] - radius, middle[0] + radius, middle[1] + radius
