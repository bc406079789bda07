"""Which places lie within others, for the vetoes of :mod:`factor_gen.contradiction.compatible`."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

from factor_gen.text.lists import read_rows
from factor_gen.text.names import NATIONALITIES, aliases, countries, geonames, places

DATA = Path(__file__).parent / "data"


def is_within(part: str, whole: str) -> bool:
    """Whether a place lies within another one, or is the same.

    Example:
        *Houston* is within *Texas* and within *America*, and *Spanish* within *Europe*.

    Args:
        part: The name of a place, or a nationality, which stands for its country.
        whole: The name of the place that may be larger.
    """
    names = _names_of_place(part)
    regions = _regions_of(names)
    # A city is in a country, which is in a continent.
    larger_regions = _regions_of(regions)
    return not _names_of_place(whole).isdisjoint(names | regions | larger_regions)


def _names_of_place(name: str) -> frozenset[str]:
    """Return a place with its aliases, or the country of a nationality: *Kyiv* and *Kiev*.

    In the news, *Paris* may stand for France. As a place it does not: *Lyon* is not within Paris.
    """
    country = NATIONALITIES.get(name) or name
    place = country.removeprefix("the ")
    aliases_of_sort = {
        alias for alias in aliases().get(place, ()) if _is_city(alias) == _is_city(place)
    }
    return frozenset({place, *aliases_of_sort})


def _is_city(place: str) -> bool:
    """Whether a place is a city, rather than a country or region."""
    return places().get(place, "").endswith(("city", "capital"))


def _regions_of(names: Iterable[str]) -> set[str]:
    """Return the larger places that directly contain a place with one of some names."""
    return set().union(*(_regions_by_place().get(name, ()) for name in names))


@cache
def _regions_by_place() -> Mapping[str, set[str]]:
    """Collect the larger places that contain each place directly.

    Returns:
        The larger places by name: *Texas* and *United States* for *Houston*.
    """
    regions = defaultdict(set)
    for country, continent in _continent_by_country().items():
        regions[country].add(continent)
    for state in geonames().get_us_states().values():
        # A name that a state and a country share, such as Georgia, means the country.
        if state["name"] not in countries():
            regions[state["name"]].add("United States")
    for city, region in _regions_of_cities():
        regions[city].add(region)
    # A line of the list is a region and the places in it.
    for region, *members in read_rows(DATA / "regions.tsv"):
        for member in members:
            regions[member].add(region)
    return dict(regions)


def _continent_by_country() -> Mapping[str, str]:
    """Return the continent of each country, such as ``{"France": "Europe"}``."""
    # Lines such as "EU  Europe" name a continent. All others begin with the name of a region, which
    # is longer than the code of a continent.
    rows = read_rows(DATA / "regions.tsv")
    continents = {row[0]: row[1] for row in rows if len(row[0]) == 2}
    # The list has no name for the continent Antarctica.
    return {
        country: continents[code] for country, code in countries().items() if code in continents
    }


def _regions_of_cities() -> Iterator[tuple[str, str]]:
    """Yield each city with its country, and each city of the United States also with its state.

    Of the cities of a name, the largest is meant: *Paris* is not in Texas.

    Example:
        ``("Houston", "United States")`` and ``("Houston", "Texas")``.
    """
    countries_by_code = {
        country["iso"]: country["name"] for country in geonames().get_countries().values()
    }
    states_by_code = geonames().get_us_states()
    cities = sorted(geonames().get_cities().values(), key=lambda city: int(city["population"]))
    # The largest city of a name comes last, and replaces the others.
    largest_cities = {city["name"]: city for city in cities}
    for name, city in largest_cities.items():
        # The name of a city and a country, such as Singapore, means the country.
        if name in countries():
            continue
        country = countries_by_code.get(city["countrycode"])
        if country:
            yield name, country
        # The cities of other countries may have the codes of American states.
        state = states_by_code.get(city["admin1code"])
        if country == "United States" and state:
            yield name, state["name"]
