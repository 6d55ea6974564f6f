"""What text may be proposed plain: an allow-list, because no list of what is sensitive is ever complete.

A name is harmless if *all* of its words are known and one at least names something harmless: `ward_name` is, while
`ward_reason` and `birth month` are not, for the rest of them may say anything. Values can only take that back, save
under a few names that say nothing (`unit`, `status`), where all of them must be known.

English words are those of the TPC-H and TPC-DS dimension tables, the calendar, and of hospitals' and firms' places;
words of other languages come from tests/samples/columns/known.tsv, never from held_out.tsv. Left out on purpose:
colours (of skin), languages, classes, nations, titles, pages (visited), methods and sites (of treatment).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from cleave.propose.names import fold, is_legible, parts, words

_PLACE = words(
    "ward department dept division branch store shop facility hospital clinic warehouse office plant market"
    " city town county province region country district zone territory"
    " Station Lager afdeling winkel avdelning butik oddział województwo отделение область склад"
    " entrepôt provincia almacén departamento magazzino enfermaria loja bölüm depo विभाग 診療科 都道府県 倉庫 المدينة"
)
_TRADE = words(
    "product item sku brand manufacturer supplier vendor ship shipping shipment shipmode channel carton container"
    " currency fiscal catalog mktsegment"
    " Produkt Produktgruppe produit produto prodotto товар उत्पाद 产品"
    " valuta moeda валюта मुद्रा العملة"
)
_CALENDAR = words(
    "year month quarter week weekday day hour Jahr Monat Quartal Woche Wochentag année mois trimestre semaine año mes"
    " semana mês maand månad miesiąc ay 月 月份"
)
# Beside a harmless word they are harmless: `product type`, `ward no`.
_CODE = words("id ids key code no nr num number")
_BESIDE = _CODE | words(
    "name type group category kind size unit units label level order line mode method web catégorie de"
)
_LABELS = (
    ("a place of work or a region", _PLACE),
    ("goods and trade", _TRADE),
    ("a part of a date", _CALENDAR),
)
_HARMLESS = _PLACE | _TRADE | _CALENDAR

_SAYS_NOTHING = words("unit units uom code status state type value")
_VALUES = (
    (  # ISO 4217
        "currency codes",
        words(
            "AED ARS AUD BGN BRL CAD CHF CLP CNY COP CZK DKK EGP EUR GBP HKD HUF IDR ILS INR ISK JPY KES KRW MAD MXN"
            " MYR NGN NOK NZD PEN PHP PKR PLN RON RSD RUB SAR SEK SGD THB TND TRY TWD UAH USD VND ZAR"
        ),
    ),
    (
        "units of measure",
        words("kg g mg t lb lbs oz l dl ml m cm mm km ft in m2 m3 pc pcs piece pieces box boxes pallet"),
    ),
    ("states of an order", words("shipped delivered packed returned backordered cancelled canceled open closed new")),
)

# What takes a harmless name back: a figure with its sign or unit, an answer, a letter for a sex, a blood group.
_FIGURE = re.compile(r"[<>≤≥~±]\s*[\d.,]+.*|.*\d\s*[%‰°]|(?:[€$£¥₹]|[A-Z]{1,3}[$])\s*[\d.,]+|[\d.,]+\s*[€$£¥₹]")
_ANSWERS = words(
    "yes no y n true false ja nein nee nej oui non sí si não sim tak nie evet hayır да нет 是 否 はい いいえ نعم لا हाँ"
    " नहीं positive negative positiv negativ pos neg + - m f w d x male female man woman men women mann frau"
    " single married divorced widowed a+ a- b+ b- ab+ ab- o+ o- 0+ 0- ab"
)


def harmless_name(name: str) -> str | None:
    """What a name speaks of, where all of it is known to be harmless."""
    found = [part for part in parts(name) if not part.isdecimal()]
    if not found or not is_legible(name) or not set(found) <= _HARMLESS | _BESIDE:
        return None
    return next((label for label, known in _LABELS if not known.isdisjoint(found)), None)


def numbered(name: str) -> bool:
    """Whether a harmless name may be one of numbers: a code or a part of a date. `hospital` 0 or 1 is about someone."""
    return not (_CODE | _CALENDAR).isdisjoint(parts(name))


def harmless_values(name: str, values: Sequence[str]) -> str | None:
    """What the values are, where the name says nothing and every value is known to be harmless."""
    if not values or not is_legible(name) or not set(parts(name)) <= _SAYS_NOTHING:
        return None
    found = {fold(value.strip()) for value in values}
    return next((label for label, known in _VALUES if found <= known), None)


def contradicts(sample: Sequence[str]) -> bool:
    """Whether most values are such as no harmless column has: figures or answers about someone."""
    values = [value.strip() for value in sample]
    told = sum(bool(_FIGURE.fullmatch(value)) or fold(value) in _ANSWERS for value in values)
    return 2 * told >= len(values)
