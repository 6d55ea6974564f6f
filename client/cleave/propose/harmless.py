"""Columns that may be proposed plain: an allow-list, because no list of what is sensitive is ever complete.

A name is harmless if *all* of its words are known and one at least names something harmless: `ward_name` is, while
`ward_reason` and `birth month` are not, for the rest of them may say anything. Values can only take that back, save
where they are of a closed list that tells nothing about anybody (currencies, units, states of an order).

English words are those of the TPC-H and TPC-DS dimension tables, the calendar, hospitals' and firms' places, and of
systems that load tables. Those of other languages come from published translations: the calendar and currency from
Unicode's CLDR (dateFields, keys), department, supplier, manufacturer, city, state, country, category and quantity from
Snipe-IT's and Open Source POS's, the rest from tests/samples/columns/known.tsv, and units by hand; never from the sets
that are held out.

Left out on purpose: colours (of skin), languages, classes, nations, titles, pages (visited), methods and sites (of
treatment), locations, companies (that employ), carriers (of a gene), releases (from prison), latencies (of nerves),
nodes, protocols, jobs, depots (that are injected), inventories (of symptoms), articles (of a penal code); and words
that are short for, or mean in another language, what is not: `dia` (diastolic), `ar`, `genre` (sex, in French),
`النوع` (sex, in Arabic).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

from cleave.propose.names import fold, is_legible, parts, words

PLACE = words(
    "ward department dept division branch store shop facility hospital clinic warehouse office plant market"
    " city town county province region country district zone territory aisle shelf"
    " Station Lager afdeling winkel avdelning butik oddział województwo отделение область склад"
    " entrepôt provincia almacén departamento magazzino enfermaria loja bölüm depo विभाग 診療科 都道府県 倉庫 المدينة"
    " Abteilung département reparto департамент 部门 部署 القسم"
    " Stadt ville ciudad città cidade miasto stad şehir город 城市 市区町村"
    " Bundesland distrito provincie län регион 省份 المحافظة"
    " Land pays país paese kraj ülke страна 国家 الدولة البلد"
    " Lagerort Lagerplats voorraadlocatie"
)
TRADE = words(
    "product item sku brand manufacturer supplier vendor ship shipping shipment shipmode channel carton container"
    " currency fiscal catalog mktsegment"
    " Produkt Produktgruppe produit produto prodotto товар उत्पाद 产品 ürün Waren Artikelnummer Artikelgruppe صنف"
    " valuta moeda валюта मुद्रा العملة Währung devise moneda waluta para_birimi 货币 通貨"
    " Lieferant fournisseur proveedor fornitore fornecedor leverancier dostawca leverantör tedarikçi sağlayıcı"
    " поставщик 供应商 仕入先 المورد مورد"
    " Hersteller fabricant fabricante produttore fabrikant producent tillverkare üretici производитель 制造商 製造元"
)
STOCK = words(
    "stock reorder backorder in_stock out_of_stock on_hand stock_on_hand qty_on_hand quantity_on_hand"
    " Lagerbestand Bestand existencias estoque voorraad stok запасы 库存 المخزون"
)
CALENDAR = words(
    "year month quarter week weekday day hour Jahr Monat Quartal Woche Wochentag année mois trimestre semaine año mes"
    " semana mês maand månad miesiąc ay 月 月份"
    " dayofweek jour_de_la_semaine día_de_la_semana giorno_della_settimana dia_da_semana dag_van_de_week weekdag"
    " dzień_tygodnia veckodag haftanın_günü день_недели 星期 曜日 सप्ताह_का_दिन"
    " anno jaar yıl год السنة वर्ष mese месяц الشهر माह settimana tydzień vecka неделя الأسبوع सप्ताह"
    " kwartaal kwartał kvartal çeyrek квартал 季度 四半期 ربع_السنة तिमाही"
)
# These mean a quarter of a year and a third of a pregnancy.
QUARTERS_OR_TRIMESTERS = words("trimestre तिमाही")
# What systems write down of themselves, mostly in one piece: alone, `ingested` is a poison, `log` a logarithm, `dag` a
# day in Dutch, `deployment` a soldier's.
SYSTEM = words(
    "etl elt partition shard replica http https api cpu gpu aws gcp azure kubernetes namespace retry retries"
    " log_level mime_type media_type schema_version app_version is_deleted deleted_at is_archived archived_at"
    " loaded_at load_date load_time load_timestamp ingested_at ingestion_date ingestion_time ingestion_timestamp"
    " synced_at extracted_at extraction_date extraction_time processed_at imported_at exported_at snapshot_date"
)
# Beside a word of the lists above these are harmless: `product type`, `ward no`.
CODE = words("id ids key code no nr num number nummer numero numer номер kod iso 编号 番号")
BESIDE = CODE | words(
    "name type group category kind size unit units label level order line mode method web catégorie de"
    " Gruppe typ tipo grupo groupe Kategorie categoría categoria categorie kategoria kategori категория 类别 分类"
    " カテゴリー تصنيف التصنيف of the del della des du la le van der"
)
QUANTITY = words(
    "quantity qty count quantité cantidad quantità quantidade hoeveelheid ilość kvantitet miktar количество 数量 كمية"
    " الكمية Menge"
)
# Of systems and shipments only: `loaded at`, `cpu percent`; of a hospital they would date or measure a visit.
OF_SYSTEMS = words("at date time timestamp ts status version percent usage bytes kb mb gb count total batch")

# How values begin that name a medical unit, a condition or a drug: a ward, a shop or a product called so tells what
# someone has. Specialties in fifteen languages, conditions and drugs in English; `~` is a blank or nothing.
CONDITION = words(
    "surgery surgical oncolog onkolog cardiol cardiac kardiol psychiatr psychol psychother maternity obstetr"
    " gynaec gynec gynak gynaek ginec ginek jinekol geburtshilfe kreiss entbindung kreissaal maternite paediatr"
    " pediatr pädiatr kinderheilkunde geriatr neurol nevrol urolog dermatol nephrol nefrol haematol hematol"
    " rheumatol reumatol pulmonol endocrinol endokrinol gastroent orthop ortoped ophthalm oftalm okulist radiolog"
    " radiother trauma palliat hospice hospiz dialys rehab detox addict sucht substance methadone naloxone"
    " buprenorphine abortion fertility ivf prenatal antenatal stroke~unit intensive~care icu nicu burns~unit"
    " chirurg cirurg cirug chirurgi kirurg cerrahi internal~medicine innere~medizin medicina~interna hiv aids"
    " hepatit tubercul cancer krebs tumor tumour leukaem leukem diabet asthma asma epilep dementia alzheimer"
    " parkinson schizo depress anxiety insulin metformin warfarin chemother dialysis contracept pregnan"
    " antidepress antipsychotic opioid morphine fentanyl oxycodon tamoxifen хирург кардиол онколог психиатр"
    " педиатр гинекол неврол роддом нарколог акушер"
    " 外科 内科 儿科 小児科 精神科 产科 産科 妇科 婦人科 肿瘤 腫瘍 眼科 皮肤科 皮膚科 急诊 救急"
    " الجراحة القلب الأطفال الأورام النفسية الولادة सर्जरी हृदय प्रसूति मनोरोग शल्य"
)

# Names under which values decide, if all other words are harmless.
UNIT = words(
    "unit units uom code type value Einheit Mengeneinheit Maßeinheit unité unidad unità unidade eenheid jednostka enhet"
    " birim единица 单位 単位 وحدة इकाई"
)
STATE = words("status state code type value estado stato статус 状态")
ENVIRONMENT = words("environment env")
BESIDE_VALUES = words("measure order delivery tracking mesure medida misura измерения القياس")

_LABELS = (
    ("a place of work or a region", PLACE),
    ("goods and trade", TRADE | STOCK),
    ("a part of a date", CALENDAR),
    ("what a system notes of itself", SYSTEM),
)
_HARMLESS = PLACE | TRADE | STOCK | CALENDAR | SYSTEM
_LEAST_PIECE = 4  # letters of a word that is looked for within another; CJK words are whole with two
_LEAST_PIECE_CJK = 2
_CJK = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff]+")
_NO_BLANKS = re.compile(r"[\u0600-\u06ff\u0900-\u097f\u3040-\u30ff\u4e00-\u9fff]")  # scripts that stick words together
_QUARTERS = 4
_SHIPS = words("ship shipping shipment")


@dataclass(frozen=True, slots=True)
class _Values:
    """A closed list; `any_of`: one of them at least must occur, since the others are short for other things, too.

    `names`: words of which a name must have one, since a size is written `m`, too.
    """

    label: str
    known: frozenset[str]
    any_of: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()

    def cover(self, found: set[str]) -> bool:
        return found <= self.known and (not self.any_of or not self.any_of.isdisjoint(found))


_CURRENCIES = _Values(  # ISO 4217
    "currency codes",
    words(
        "AED ARS AUD BGN BRL CAD CHF CLP CNY COP CZK DKK EGP EUR GBP HKD HUF IDR ILS INR ISK JPY KES KRW MAD MXN"
        " MYR NGN NOK NZD PEN PHP PKR PLN RON RSD RUB SAR SEK SGD THB TND TRY TWD UAH USD VND ZAR"
    ),
    # CHF, CAD, COP, INR and PEN are short for diagnoses and laboratory tests, too
    words("EUR USD GBP JPY CNY"),
)
_MEDIA_TYPE = re.compile(r"(?:application|audio|font|image|multipart|text|video)/[\w.+-]+")  # RFC 6838
# These are short, so they count only where the name says nothing else than that.
_NAMED = (
    _Values(
        "units of measure",
        words("kg g mg t lb lbs oz l dl ml m cm mm km ft in m2 m3 pc pcs piece pieces stk box boxes pallet"),
        names=UNIT,
    ),
    _Values(
        "states of an order",
        words("shipped delivered packed returned backordered cancelled canceled open closed new"),
        names=STATE,
    ),
    _Values(
        "environments of a system",
        words("prod production staging stage dev development qa uat sandbox"),
        words("prod production"),
        ENVIRONMENT,
    ),
)
_CONDITION = re.compile(
    "|".join(stem if _NO_BLANKS.match(stem) else rf"(?<!\w){stem.replace('~', '[ _-]?')}" for stem in sorted(CONDITION))
)
_UNDER_VALUES = UNIT | STATE | ENVIRONMENT | BESIDE_VALUES

# What takes a harmless name back: a figure with its sign or unit, an answer, a letter for a sex, a blood group.
_FIGURE = re.compile(r"[<>≤≥~±]\s*[\d.,]+.*|.*\d\s*[%‰°]|(?:[€$£¥₹]|[A-Z]{1,3}[$])\s*[\d.,]+|[\d.,]+\s*[€$£¥₹]")
_ANSWERS = words(
    "yes no y n true false ja nein nee nej oui non sí si não sim tak nie evet hayır да нет 是 否 はい いいえ نعم لا हाँ"
    " नहीं positive negative positiv negativ pos neg + - m f w d x male female man woman men women mann frau"
    " single married divorced widowed a+ a- b+ b- ab+ ab- o+ o- 0+ 0- ab"
)


def harmless_name(name: str, different: int) -> str | None:
    """Return the subject of a name, where all of it is known to be harmless; its column has `different` values."""
    found = _words(name)
    if not found or not is_legible(name) or _is_numbered_itself(name):
        return None
    if not QUARTERS_OR_TRIMESTERS.isdisjoint(found) and different != _QUARTERS:
        return None
    known = _HARMLESS | BESIDE
    if not (SYSTEM | _SHIPS).isdisjoint(found):
        known |= OF_SYSTEMS
    if not (TRADE | STOCK).isdisjoint(found):
        known |= QUANTITY
    if not set(found) <= known:
        return None
    return next((label for label, listed in _LABELS if not listed.isdisjoint(found)), None)


def numbered(name: str) -> bool:
    """Return whether a harmless name may be one of numbers: a code, a part of a date, a count of goods, a system's
    figure.

    `hospital` 0 or 1 is about someone.
    """
    return of_system(name) or not (CODE | CALENDAR | QUANTITY).isdisjoint(_words(name))


def of_system(name: str) -> bool:
    """Return whether a harmless name may be one of a truth value, a moment or any number: `is_deleted`, `loaded_at`,
    `stock`.

    A system is not known by one word: `api` and `cpu` are short for other things, too.
    """
    said = _words(name)
    return not STOCK.isdisjoint(said) or (len(parts(name)) > 1 and not SYSTEM.isdisjoint(said))


def is_bare_date(name: str) -> bool:
    """Check whether a harmless name is a part of a date and does not say of what date, as `fiscal year` does."""
    said = set(_words(name))
    return not said.isdisjoint(CALENDAR) and said.isdisjoint(PLACE | TRADE | STOCK | SYSTEM)


def tell_a_condition(values: Sequence[str]) -> bool:
    """Check whether a value of a place, unit, department or product names what someone is treated for, or with."""
    return any(_CONDITION.search(fold(value)) for value in values)


def of_people_too(name: str) -> bool:
    """Return whether many different values under a harmless name may tell rows apart: the few in a small town."""
    return not PLACE.isdisjoint(_words(name))


def harmless_values(name: str, values: Sequence[str]) -> str | None:
    """Classify the values, where every one is of a closed list that tells nothing about anybody."""
    found = {fold(value.strip()) for value in values}
    if not found:
        return None
    if _CURRENCIES.cover(found):  # these two say nothing about anybody, whatever the name says
        return _CURRENCIES.label
    if all(_MEDIA_TYPE.fullmatch(value) for value in found):
        return "media types"
    said = set(_words(name))
    if not is_legible(name) or not said <= _UNDER_VALUES | _HARMLESS | BESIDE:
        return None
    return next((each.label for each in _NAMED if not each.names.isdisjoint(said) and each.cover(found)), None)


def are_currencies(values: Sequence[str]) -> bool:
    """Return whether an amount's column holds but the currencies of amounts."""
    found = {fold(value.strip()) for value in values}
    return bool(found) and _CURRENCIES.cover(found)


def contradicts(sample: Sequence[str]) -> bool:
    """Return whether most values are such as no harmless column has: figures or answers about someone."""
    values = [value.strip() for value in sample]
    told = sum(bool(_FIGURE.fullmatch(value)) or fold(value) in _ANSWERS for value in values)
    return 2 * told >= len(values)


def _is_numbered_itself(name: str) -> bool:
    """`item 9` is a question that somebody was asked; `country iso2` is a code of ISO 3166."""
    found = parts(name)
    return any(part.isdecimal() and before != "iso" for before, part in pairwise(["", *found]))


def _words(name: str) -> list[str]:
    """A name's words without its digits; one that is made of known words, or several that make one, cut or joined."""
    found = [part for part in parts(name) if not part.isdecimal()]
    whole = "".join(found)
    if whole in _HARMLESS:
        return [whole]
    return [piece for part in found for piece in _pieces(part)]


@cache
def _pieces(word: str) -> tuple[str, ...]:
    """`produktkategorie` -> `produkt`, `kategorie`, as German, Dutch, Swedish, Chinese and Japanese put words together.

    A word that is not wholly made of known ones stays whole: `geburtsland` is not a land.
    """
    known = _HARMLESS | BESIDE | QUANTITY | _UNDER_VALUES
    if word in known:
        return (word,)
    least = _LEAST_PIECE_CJK if _CJK.fullmatch(word) else _LEAST_PIECE
    for cut in range(least, len(word) - least + 1):
        head, rest = word[:cut], word[cut:]
        if head in known and rest in known:
            return (head, rest)
    return (word,)
