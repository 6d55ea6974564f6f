"""Which columns are proposed as sensitive, and that no reason quotes a value. All people and numbers are made up."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Sequence

import pytest
import stdnum.de.idnr
import stdnum.luhn
import stdnum.nl.bsn

from cleave.propose.detect import ColumnFacts, names_a_person, propose_kind
from cleave.propose.harmless import is_legible, parts, runs
from cleave.table.schema import Kind

P, E, S, L = Kind.PLAIN, Kind.ENCRYPTED, Kind.SEALED, Kind.LOCAL


def facts(name: str, type_: str, values: Sequence[str]) -> ColumnFacts:
    lengths = [len(value) for value in values]
    average = sum(lengths) / len(lengths) if lengths else 0.0
    return ColumnFacts(
        name, type_, len(values), len(set(values)), average, max(lengths, default=0), tuple(values), tuple(set(values))
    )


NUMBERS = [str(1000 + 37 * (number * number % 101)) for number in range(100)]
WORDS = [f"word{number % 90}" for number in range(100)]
WARDS = ["North", "South", "Main building", "Annexe"] * 25
MEDICAL = ["Surgery", "North", "South"] * 33
FLAGS = ["true", "false"] * 50
DAYS = [f"2024-{1 + number % 12:02d}-{1 + number % 28:02d}" for number in range(100)]

# Names in several spellings and languages: (type, values) -> what they say and the kind that follows.
BY_NAME = {
    (
        "BIGINT",
        E,
    ): "age Age patientAge alter Âge edad weight_kg GEWICHT poids height BMI birth_year salary Gehalt salaire salario"
    " total_income bill InvoiceAmount price Preis montant blood_pressure systolic cholesterol HbA1c score tax",
    (
        "BIGINT",
        S,
    ): "phone TelefonNr mobile_no account_number iban card_no ssn passport plz zip postal_code patient_id customerId"
    " kundennummer Personalnummer imei",
    ("DECIMAL(18,2)", E): "bill anything x latitude balance gebühr coût",
    ("DOUBLE", E): "weight x lon temperature",
    (
        "VARCHAR",
        S,
    ): "email E-Mail mail_address courriel phone Telefon téléfono mobile name Name last_name LastName patient_name"
    " vorname Nachname prénom apellidos nom street Straße PLZ Postleitzahl address adresse dirección code_postal"
    " iban Kontonummer credit_card ssn nationalId Steuer-ID passport dni date_of_birth dateOfBirth DOB Geburtsdatum"
    " date_de_naissance fechaNacimiento ip_address mac device_id diagnosis Diagnose ICD-10 medication religion gender"
    " Geschlecht ethnicity salary patient_id",
    ("DATE", S): "birth birth_date Geburtsdatum admitted discharge_date Aufnahmedatum any_day",
    ("BOOLEAN", E): "smoker insured hiv pregnant anything",
    ("VARCHAR", L): "notes comment Bemerkungen Freitext commentaires observaciones password api_key token",
}
VALUES = {
    "BIGINT": NUMBERS,
    "DECIMAL(18,2)": NUMBERS,
    "DOUBLE": NUMBERS,
    "VARCHAR": WORDS,
    "DATE": DAYS,
    "BOOLEAN": FLAGS,
}


@pytest.mark.parametrize(
    ("name", "type_", "kind"),
    [(name, type_, kind) for (type_, kind), names in BY_NAME.items() for name in names.split()],
)
def test_kinds_are_detected_by_name(name: str, type_: str, kind: Kind) -> None:
    proposal = propose_kind(facts(name, type_, VALUES[type_]))
    assert proposal.kind == kind, proposal.reason
    if not any(part in name for part in ("any", "x")):
        assert proposal.reason.startswith("name says: ")
        assert not proposal.unsure


@pytest.mark.parametrize(
    ("name", "type_", "values", "kind"),
    [
        ("ward", "VARCHAR", WARDS, P),
        ("ward_name", "VARCHAR", WARDS, P),
        ("product name", "VARCHAR", WARDS, P),
        ("page", "VARCHAR", WARDS, S),
        ("language", "VARCHAR", WARDS, S),
        ("description", "VARCHAR", WARDS, L),
        ("comment", "VARCHAR", WARDS, L),
        ("ward_reason", "VARCHAR", WARDS, S),
        ("birth month", "VARCHAR", WARDS, S),
        ("w\u0430rd", "VARCHAR", WARDS, S),  # a Cyrillic a
        ("ward\u8bca\u65ad", "VARCHAR", WARDS, S),  # "ward" and "diagnosis" in Chinese
        ("ward \N{PREGNANT WOMAN}", "VARCHAR", WARDS, S),
        ("\N{FULLWIDTH LATIN SMALL LETTER W}ard", "VARCHAR", WARDS, P),
        ("\u8bca\u65ad", "VARCHAR", WARDS, S),
        ("ward", "VARCHAR", ["<5", "7", "12", "<5"] * 25, S),
        ("product", "VARCHAR", ["10%", "12 %", "25,5%", "31%"] * 25, S),
        ("region", "VARCHAR", ["5 €", "€ 10", "R$ 7,50", "$3"] * 25, S),
        ("ward", "VARCHAR", ["ja", "nein"] * 50, S),
        ("ward", "VARCHAR", ["A+", "O-", "B+", "AB-"] * 25, S),
        ("ward", "BOOLEAN", FLAGS, E),
        ("ward", "DECIMAL(18,2)", ["1.5", "2.5"] * 50, E),
        ("hospital", "BIGINT", ["0", "1"] * 50, E),
        ("hospital id", "BIGINT", ["17", "18"] * 50, P),
        ("store id", "BIGINT", ["1000", "9000"] * 50, P),
        ("ward", "BIGINT", ["10%", "20%"] * 50, E),
        ("ward id", "BIGINT", ["10%", "20%"] * 50, E),
        ("year", "BIGINT", [str(1940 + number % 50) for number in range(500)], E),
        ("month", "DATE", [f"{1940 + number % 50}-01-01" for number in range(500)], S),
        ("caste_id", "BIGINT", ["1", "2", "3", "4"] * 25, E),
        ("birth_year", "BIGINT", ["1950", "1960"] * 50, E),
        ("status", "VARCHAR", ["open", "shipped"] * 50, P),
        ("status", "VARCHAR", ["open", "terminal"] * 50, S),
        ("order status", "VARCHAR", ["open", "shipped"] * 50, P),
        ("order status", "VARCHAR", ["open", "terminal"] * 50, S),
        ("patient status", "VARCHAR", ["open", "closed"] * 50, S),
        # currencies say nothing about anybody, whatever the name; diagnoses that are written like them do
        ("x", "VARCHAR", ["EUR", "CHF"] * 50, P),
        ("salary_currency", "VARCHAR", ["EUR", "CHF"] * 50, P),
        ("salary", "VARCHAR", ["EUR", "high"] * 50, S),
        ("religion", "VARCHAR", ["EUR", "USD"] * 50, S),
        ("code", "VARCHAR", ["CHF", "CAD", "COP"] * 33, S),
        ("test", "VARCHAR", ["INR", "PEN"] * 50, S),
        ("x", "VARCHAR", ["text/html", "image/png"] * 50, P),
        ("x", "VARCHAR", ["text/html", "methadone"] * 50, S),
        ("unit", "VARCHAR", ["m", "f"] * 50, S),
        ("size", "VARCHAR", ["m", "l"] * 50, S),
        ("environment", "VARCHAR", ["prod", "dev"] * 50, P),
        ("environment", "VARCHAR", ["smoke", "mould"] * 50, S),
        # a quarter of a year has four; a third of a pregnancy has three
        ("trimestre fiscal", "VARCHAR", ["T1", "T2", "T3", "T4"] * 25, P),
        ("fiscal trimestre", "VARCHAR", ["T1", "T2", "T3"] * 33, S),
        ("trimestre", "VARCHAR", ["T1", "T2", "T3", "T4"] * 25, S),
        ("trimestre", "VARCHAR", ["T1", "T2", "T3"] * 33, S),
        # words of one language in one piece
        ("Produktkategorie", "VARCHAR", WARDS, P),
        ("Produktallergie", "VARCHAR", WARDS, S),
        ("Geburtsland", "VARCHAR", WARDS, S),
        ("jour de la semaine", "VARCHAR", WARDS, S),
        ("jour de la rechute", "VARCHAR", WARDS, S),
        ("\u51fa\u751f\u56fd\u5bb6", "VARCHAR", WARDS, S),  # "country of birth" in Chinese
        ("de la", "VARCHAR", WARDS, S),
        # what systems note of themselves, and what people's bodies, days and doses are called alike
        ("is_deleted", "BOOLEAN", FLAGS, P),
        ("is_hospital", "BOOLEAN", FLAGS, E),
        ("is_minor", "BOOLEAN", FLAGS, E),
        ("in_stock", "BOOLEAN", FLAGS, P),
        ("etl_batch_id", "BIGINT", ["7", "8"] * 50, P),
        ("batch_id", "BIGINT", ["7", "8"] * 50, E),
        ("http_status", "BIGINT", ["200", "404"] * 50, P),
        ("status", "BIGINT", ["200", "404"] * 50, E),
        ("loaded_at", "TIMESTAMP", ["2024-05-01 02:00:00", "2024-05-02 02:00:00"] * 50, P),
        ("loaded_at", "TIMESTAMP", [f"2024-05-01 02:00:{second:02d}" for second in range(60)], S),
        ("hospital_date", "VARCHAR", WARDS, S),
        ("ward at", "VARCHAR", WARDS, S),
        ("cpu_percent", "DOUBLE", ["3.5", "20.1"] * 50, P),
        ("item 9", "VARCHAR", WARDS, S),
        ("api", "BIGINT", ["1", "2"] * 50, E),
        ("gpu", "BOOLEAN", FLAGS, E),
        ("stock", "DOUBLE", ["1.5", "2.5"] * 50, P),
        ("inventory", "BIGINT", ["1", "2"] * 50, E),
        ("article", "VARCHAR", WARDS, S),
        ("country_iso2", "VARCHAR", WARDS, P),
        ("percent", "DOUBLE", ["3.5", "20.1"] * 50, E),
        ("stock_on_hand", "BIGINT", [str(number // 6) for number in range(900)], P),
        ("reorder quantity", "BIGINT", ["10", "20"] * 50, P),
        ("quantity", "BIGINT", ["10", "20"] * 50, E),
        ("stock options", "BIGINT", ["10", "20"] * 50, E),
        ("stock price", "DECIMAL(18,2)", ["10.50", "20.50"] * 50, E),
        ("product count", "BIGINT", ["1", "2"] * 50, P),
        ("ward count", "BIGINT", ["1", "2"] * 50, E),
        ("product id", "BIGINT", [str(number // 6) for number in range(900)], P),
        ("product id", "BIGINT", [str(number) for number in range(900)], S),
        ("city", "VARCHAR", [f"Town{number // 6}" for number in range(900)], S),
        ("unit", "VARCHAR", ["kg", "LB"] * 50, P),
        ("code", "VARCHAR", ["EUR", "USD"] * 50, P),
        ("code", "VARCHAR", ["I10", "F32"] * 50, S),
        ("status", "VARCHAR", ["1", "open"] * 50, S),
        # a part of a date that does not say of what
        ("year", "BIGINT", ["2023", "2024"] * 50, E),
        ("fiscal year", "BIGINT", ["2023", "2024"] * 50, P),
        ("Quartal", "BIGINT", ["1", "2", "3", "4"] * 25, E),
        # units, places and products that tell what someone has
        ("ward", "VARCHAR", MEDICAL, S),
        ("department", "VARCHAR", ["Sales", "Stroke unit"] * 50, S),
        ("clinic", "VARCHAR", ["North", "HIV and hepatitis"] * 50, S),
        ("product", "VARCHAR", ["Soap", "Insulin pen"] * 50, S),
        ("product", "VARCHAR", ["Radio", "Jackets", "Blue shirt", "Home & Garden"] * 25, P),
        ("product", "VARCHAR", ["Radio", "Jackets", "Orthodox icon"] * 33, S),
        ("product", "VARCHAR", ["Chair", "Plan B"] * 50, S),
        ("product", "VARCHAR", ["Chair", "B 12"] * 50, S),
        ("product", "VARCHAR", ["Chair", "T4"] * 50, S),
        ("product", "VARCHAR", ["Chair", "Back belt"] * 50, S),
        ("product code", "VARCHAR", ["SKU-1001", "SKU-1002"] * 50, P),
        ("product code", "VARCHAR", ["SKU-1001", "HPV-0016"] * 50, S),
        ("product code", "VARCHAR", ["75622-1", "12345-6"] * 50, S),
        ("product", "VARCHAR", [f"P{number // 6}" for number in range(900)], S),
        ("product", "VARCHAR", [f"P-{1000 + number // 6}" for number in range(900)], P),
        ("ward", "VARCHAR", ["Ward 3", "3B", "East wing", "Block A"] * 25, P),
        ("ward", "VARCHAR", ["C50", "C61"] * 50, S),
        ("ward", "VARCHAR", ["North", "MI"] * 50, S),
        ("state region", "VARCHAR", ["WY", "MI"] * 50, S),
        ("region", "VARCHAR", ["WY", "MI"] * 50, P),
        ("country", "VARCHAR", ["Germany", "France"] * 50, S),
        ("ship country", "VARCHAR", ["Germany", "France"] * 50, P),
        ("shift", "VARCHAR", ["day", "night"] * 50, P),
        ("shift", "VARCHAR", ["day", "sick"] * 50, S),
        ("hours of shift", "VARCHAR", ["day", "night"] * 50, S),
        ("batch", "VARCHAR", ["B-0001", "B-0002"] * 50, P),
        ("batch", "VARCHAR", ["B-0001", "placebo"] * 50, S),
        ("colour", "VARCHAR", ["red", "blue", "green", "white"] * 25, P),
        ("colour", "VARCHAR", ["red", "orange", "yellow", "green", "blue"] * 25, S),  # of triage
        ("colour", "VARCHAR", ["brown", "white"] * 50, S),  # of skin
        ("hair colour", "VARCHAR", ["red", "blue", "green", "white"] * 25, S),
        ("model", "VARCHAR", ["MX1001", "MX1002"] * 50, P),
        ("source_system", "VARCHAR", ["SAP", "legacy"] * 50, P),
        ("source_system", "VARCHAR", ["SAP", "HIV register"] * 50, S),
        ("gp_practice_code", "VARCHAR", ["A81001", "B82003"] * 50, P),
        ("loinc_code", "VARCHAR", ["2951-2", "718-7"] * 50, P),
        ("loinc_code", "VARCHAR", ["2951-2", "75622-1"] * 50, S),  # of HIV
        ("\u79d1 ward", "VARCHAR", ["\u5916\u79d1", "\u7b2c\u4e00\u5916\u79d1"] * 50, S),
        ("ward id", "BIGINT", ["1", "2"] * 50, P),
        ("department_id", "BIGINT", ["10", "20", "30", "40"] * 25, P),
        ("patient_id", "BIGINT", ["10", "20", "30", "40"] * 25, S),
        ("patient_nr", "VARCHAR", ["P1", "P2", "P3", "P4"] * 25, S),
        ("month", "DATE", ["2024-01-01", "2024-02-01"] * 50, S),
        ("fiscal month", "DATE", ["2024-01-01", "2024-02-01"] * 50, P),
        ("diagnosis", "VARCHAR", WARDS, S),
        ("gender", "VARCHAR", ["f", "m"] * 50, S),
        ("name", "VARCHAR", WARDS, S),
        ("x", "VARCHAR", WORDS, S),
        ("x", "VARCHAR", [f"w{number}" for number in range(100)], S),
        ("x", "BIGINT", [str(number) for number in range(100)], S),
        ("x", "BIGINT", NUMBERS, E),
        ("x", "BIGINT", ["1", "2"] * 50, E),
        ("day", "DATE", DAYS, S),
        ("x", "VARCHAR", [], S),
        ("diagnosis", "VARCHAR", [f"Seen on day {day}, was told to come back in some weeks" for day in range(100)], L),
        ("x", "VARCHAR", [f"Seen on day {day}, was told to come back in some weeks" for day in range(100)], L),
        ("address", "VARCHAR", [f"{house} Long Winding Road, Little Upper Village, Shire" for house in range(100)], S),
    ],
)
def test_kinds_are_detected_by_shape(name: str, type_: str, values: list[str], kind: Kind) -> None:
    proposal = propose_kind(facts(name, type_, values))
    assert proposal.kind == kind, proposal.reason
    assert proposal.reason
    assert not (proposal.unsure and kind == P)


@pytest.mark.parametrize(
    ("name", "type_", "values", "unsure"),
    [
        ("x", "DOUBLE", NUMBERS, False),
        ("x", "BIGINT", NUMBERS, False),
        ("x", "BIGINT", ["1", "2"] * 50, False),
        ("x", "BIGINT", ["1", "2", "3"] * 50, True),
        ("x", "VARCHAR", ["word"], True),
        ("x", "BOOLEAN", FLAGS, False),
        ("x", "VARCHAR", WORDS, False),
        ("x", "VARCHAR", WARDS, True),
        ("x", "DATE", [f"2024-{1 + number % 12:02d}-{1 + number // 12:02d}" for number in range(200)], False),
        ("x", "DATE", ["2024-01-01", "2024-02-01"] * 50, True),
        ("x", "VARCHAR", [], True),
        ("month", "BIGINT", ["1", "2"] * 50, True),
        ("ward", "VARCHAR", MEDICAL, True),
        ("diagnosis", "VARCHAR", WARDS, False),
    ],
)
def test_only_what_may_be_of_more_use_is_unsure(name: str, type_: str, values: list[str], unsure: bool) -> None:
    proposal = propose_kind(facts(name, type_, values))
    assert proposal.unsure is unsure, proposal.reason
    assert proposal.kind is not P


@pytest.mark.parametrize("value", ["Radio", "Cardigan", "Orthodox icon", "Saids"])
def test_a_reason_names_a_condition_only_where_a_word_begins_with_one(value: str) -> None:
    assert "condition" not in propose_kind(facts("product", "VARCHAR", [value, "Chair"] * 50)).reason


def test_values_too_many_to_check_are_unsure() -> None:
    many = facts("product", "VARCHAR", [f"P-{1000 + number // 6}" for number in range(900)])
    many.values = ()
    proposal = propose_kind(many)
    assert (proposal.kind, proposal.unsure) == (S, True)
    assert "its 150 different values are too many to check" in proposal.reason


@pytest.mark.parametrize(
    ("name", "type_", "values", "reason"),
    [
        ("visit_id", "BIGINT", NUMBERS, "name says: an identifier"),
        ("visit_id", "VARCHAR", [f"V{number}" for number in range(100)], "differs in every row: an identifier"),
        ("visit_date", "DATE", DAYS, "name says: a date of care"),
        ("deceased", "BOOLEAN", FLAGS, "name says: care or death"),
        ("MRN", "VARCHAR", [f"00{number:08d}" for number in range(100)], "differs in every row: an identifier"),
        ("MRN", "VARCHAR", [f"00{number // 3:08d}" for number in range(100)], "name says: an identifier"),
        ("caller", "VARCHAR", [f"00{number:08d}" for number in range(100)], "100 % of values are written like phone"),
        ("caller id", "VARCHAR", [f"+49 30 {number:06d}" for number in range(100)], "100 % of values are written like"),
        ("fiscal_year", "BIGINT", ["2023", "2024"] * 50, "name says: a part of a date; 2 different values in 100 rows"),
        ("store id", "BIGINT", ["1000", "9000"] * 50, "name says: a place of work or a region"),
        ("x", "BIGINT", NUMBERS, "numbers, not known to be harmless"),
        ("x", "VARCHAR", WARDS, "text with 4 different values in 100 rows, not known to be harmless: unsure"),
    ],
)
def test_a_reason_is_true_and_short(name: str, type_: str, values: list[str], reason: str) -> None:
    """A visit's id was "a date of care", an MRN "like phone numbers", a fiscal year "goods and trade"."""
    assert propose_kind(facts(name, type_, values)).reason.startswith(reason)


def test_a_reason_claims_no_more_than_it_was_judged_by() -> None:
    almost = [f"w{number}" for number in range(1000)] + ["w1"]
    assert propose_kind(facts("x", "VARCHAR", almost)).reason.startswith("differs in 99 % of rows or more")
    assert propose_kind(facts("x", "VARCHAR", almost[:-1])).reason.startswith("differs in every row")
    mails = [f"someone{number}@example.org" for number in range(999)] + ["none"]
    assert propose_kind(facts("x", "VARCHAR", mails)).reason.startswith("99 % of values")


def luhn(stem: str) -> str:
    return stem + str(stdnum.luhn.calc_check_digit(stem))


def made(count: int, make: object, valid: object) -> list[str]:
    found = [*itertools.islice(filter(valid, map(make, range(20_000))), count)]  # type: ignore[call-overload]
    assert len(found) == count
    return found


CARDS = [luhn(f"41111111{number:07d}") for number in range(50)]
IDNRS = made(20, lambda number: f"8609574{number:04d}", stdnum.de.idnr.is_valid)
BSNS = made(20, lambda number: f"1112{number:05d}", stdnum.nl.bsn.is_valid)
IBANS = ["DE89370400440532013000", "GB82 WEST 1234 5698 7654 32", "FR1420041010050500013M02606", "nothing"] * 5

# Under a name that says nothing: type, values, what the reason says.
BY_VALUE = {
    "e-mail": (
        "VARCHAR",
        [f"someone{number}@example.org" for number in range(9)] + ["none"],
        "90 % of values are e-mail",
    ),
    "few e-mails": (
        "VARCHAR",
        [f"someone{number}@example.org" for number in range(2)] + ["x"] * 8,
        "20 % of values are",
    ),
    "IBAN": ("VARCHAR", IBANS, "75 % of values pass IBAN check digits"),
    "cards": ("VARCHAR", [f"{card[:4]} {card[4:8]} {card[8:12]} {card[12:]}" for card in CARDS], "Luhn"),
    "cards as numbers": ("BIGINT", CARDS, "100 % of values pass the check digit of payment cards (Luhn)"),
    "German tax ids": ("BIGINT", IDNRS, "national ids (Germany)"),
    "Dutch ids": ("VARCHAR", BSNS, "national ids (the Netherlands)"),
    "US social security": ("VARCHAR", [f"123-45-{number:04d}" for number in range(6789, 6799)], "US social security"),
    "phones": ("VARCHAR", [f"+49 30 1234{number:03d}" for number in range(10)], "phone numbers"),
    "US phones": ("VARCHAR", [f"(555) 555-{number:04d}" for number in range(10)], "phone numbers"),
    "IPv4": ("VARCHAR", [f"192.0.2.{number}" for number in range(10)], "IP addresses"),
    "IPv6": ("VARCHAR", [f"2001:db8::{number:x}" for number in range(10)], "IP addresses"),
    "UUIDs": ("VARCHAR", [f"123e4567-e89b-12d3-a456-4266141740{number:02d}" for number in range(10)], "UUIDs"),
    "people": (
        "VARCHAR",
        ["Lucía Moreau", "Dr. Chidi Okonkwo", "O'Hara, Uma", "Anna-Lena Weiss"] * 5,
        "names of people",
    ),
    "birth dates": ("DATE", [f"{1930 + 3 * number}-05-17" for number in range(20)], "years 40 or more apart"),
}


@pytest.mark.parametrize("case", BY_VALUE)
def test_kinds_are_detected_by_value(case: str) -> None:
    type_, values, says = BY_VALUE[case]
    proposal = propose_kind(facts("x", type_, values))
    assert proposal.kind == S
    assert says in proposal.reason
    assert not any(value in proposal.reason for value in values if len(value) > 1)


@pytest.mark.parametrize(
    "values",
    [
        [str(10**8 + 7919 * number) for number in range(200)],
        [str(number) for number in range(0, 5000, 7)],
        [luhn(f"41111111{number:07d}")[:-1] + "5" for number in range(100)],
    ],
)
def test_numbers_that_pass_check_digits_by_chance_are_no_finding(values: list[str]) -> None:
    assert "%" not in propose_kind(facts("x", "BIGINT", values[::-1])).reason


def test_names_are_cut_into_parts() -> None:
    assert parts("GrößeInCm2") == ["grosse", "in", "cm", "2"]
    assert parts("HTTPStatus code") == ["http", "status", "code"]
    assert "dateofbirth" in runs("date_of_birth")
    assert parts("\u8bca\u65ad-Code") == ["\u8bca\u65ad", "code"]
    assert parts("\u092e\u0939\u0940\u0928\u093e") == ["\u092e\u0939\u0940\u0928\u093e"]  # vowel signs are letters
    assert is_legible("ward (no.)")
    assert not is_legible("ward+")
    assert not is_legible("ward\u200b")
    assert "age" not in runs("page") | runs("language") | runs("storage")
    assert names_a_person("Full Name")
    assert not names_a_person("file name")


def test_a_saved_schema_needs_no_detectors() -> None:
    """python-stdnum, tomlkit and the sniffing are loaded by `propose` only."""
    code = "import sys, cleave.table.table, cleave.table.schema; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "_duckdb" in loaded
    assert not {"stdnum", "tomlkit", "cleave.propose.detect", "cleave.propose.propose", "hypothesis"} & set(loaded)
