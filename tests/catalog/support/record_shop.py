"""The products of a small record and film shop. Some titles are hard to search for."""

from __future__ import annotations

from tests.catalog.support.catalog import album, film, pricing, product

PRODUCTS = [
    album(
        sku="supreme",
        title="A Love Supreme",
        description="Recorded in one session by the classic quartet.",
        artist="John Coltrane",
        genres=["Jazz", "Spiritual Jazz"],
        pricing=pricing(1200, 1100),
        issueDate="1965-01-01T00:00:00Z",
        categories=["bop"],
        properties=[{"name": "Label", "value": "Impulse!"}, {"name": "Format", "value": "LP"}],
    ),
    album(
        sku="blue",
        title="Kind of Blue",
        description="Five pieces on scales. John Coltrane plays the tenor.",
        artist="Miles Davis",
        genres=["JAZZ"],
        pricing=pricing(2000, 1000),
        issueDate="1959-08-17T00:00:00Z",
        categories=["jazz"],
        properties=[{"name": "label", "value": "Columbia"}, {"name": "Format", "value": "CD"}],
    ),
    album(
        sku="train",
        title="Blue Train",
        artist="John  Coltrane",
        genres=["Hard Bop"],
        pricing=pricing(1500, 1500),
        issueDate="1958-01-01T00:00:00Z",
        categories=["bop", "music"],
    ),
    album(
        sku="abba",
        title="Waterloo",
        artist="ABBA",
        genres=["Pop"],
        pricing=pricing(999, 0),
        categories=["music"],
        properties=[{"name": "Label", "value": "LP"}],
    ),
    film(
        sku="matrix",
        title="The Matrix",
        description="A programmer learns what is real.",
        actors=["Keanu Reeves", "Carrie-Anne Moss"],
        directors=["Lana Wachowski"],
        writers=["Lilly Wachowski"],
        genres=["Science Fiction"],
        pricing=pricing(1999, 1200),
        issueDate="1999-03-31T00:00:00Z",
    ),
    film(
        sku="wick",
        title="John Wick",
        description="Revenge.",
        actors=["Keanu Reeves", "Jazz"],
        genres=["Action"],
        pricing=pricing(1000, 900),
        issueDate="2014-10-24T00:00:00Z",
    ),
    film(sku="mash", title="M*A*S*H", actors=["Élodie Müller"], pricing=pricing(1000, 501)),
    film(sku="days", title="(500) Days of Summer", pricing=pricing(2**53 - 1, 2**53 - 1)),
    film(sku="dots", title="... and Justice for All", pricing=pricing(100, 100)),
    film(sku="rock", title="Rock'n'Roll [Live] $9.99 ^", pricing=pricing(0, 0)),
    product(sku="last", title="zz\U0010ffff\U0010ffff end", pricing=pricing(700, 700)),
    product(sku="zz", title="zz top", pricing=pricing(700, 700)),
    product(sku="zzz", title="zzz", pricing=pricing(700, 600)),
    product(sku="edge", title="\ud7ff edge", pricing=pricing(700, 500)),
    product(sku="private", title="\ue000 private", pricing=pricing(700, 400)),
    product(
        sku="drive",
        title="Barracuda",
        type="Disk Drive",
        pricing=pricing(8000, 7200),
        properties=[{"name": "a.b", "value": "$gt"}, {"name": "Format", "value": "3.5\N{DOUBLE PRIME}"}],
        details={"genres": ["Jazz"], "actors": ["Keanu Reeves"], "artist": "ABBA"},
        issueDate="2020-02-29T12:00:00+02:00",
        categories=["drives"],
    ),
]
CATEGORIES = [
    {"slug": "music", "name": "Music"},
    {"slug": "jazz", "name": "Jazz", "parent": "music"},
    {"slug": "bop", "name": "Bop", "parent": "jazz"},
    {"slug": "drives", "name": "Drives"},
]
ALL = {given["sku"] for given in PRODUCTS}
IN_STOCK = {"supreme", "wick", "drive"}
DATED = ["drive", "wick", "matrix", "supreme", "blue", "train"]
